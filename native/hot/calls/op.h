/* What op.c hands to the tables of gemm_table.c and conv.c. */
#ifndef SP_HOT_OP_H
#define SP_HOT_OP_H
#include "hot/launch/objects.h"

enum { HOT_OP_VALUES = 11 };

/* What gemm needs of Python. */
struct hot_op_more {
    PyObject *empty;   /* numpy.empty */
    PyObject *numbers; /* a dict of the activations' numbers by name */
};
/* A call with these values, the defaults where none is given, by a table: the result; NULL: nothing was done, or with an exception,
 * it was begun and the wait for its end did not end well. */
typedef PyObject *hot_op_function(PyObject *table, PyObject *const *values, const struct hot_op_more *more);
hot_op_function hot_gemm, hot_conv2d;
#endif
