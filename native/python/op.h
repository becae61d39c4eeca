/* What op.c hands to the tables of product.c and conv.c. */
#ifndef SP_PYTHON_OP_H
#define SP_PYTHON_OP_H
#include "hot.h"

enum { HOT_OP_VALUES = 11 };

/* What an operation needs of Python, all of it there or None. */
struct hot_op_more {
    PyObject *target;  /* gemm: target(a, b), a new array for the result; None: it has another way */
    PyObject *empty;   /* gemm: numpy.empty */
    PyObject *numbers; /* gemm: a dict of the activations' numbers by name */
    PyObject *ended;   /* conv2d: ended(dev, found, x, w, bias) waits for what did not end at once, and has the result */
};
/* A call with these values, the defaults where none is given, by a table: the result; NULL, perhaps with an exception: nothing
 * was done. */
typedef PyObject *hot_op_function(PyObject *table, PyObject *device, PyObject *const *values, const struct hot_op_more *more);
hot_op_function hot_gemm, hot_conv2d;
#endif
