/* A constant of ops/memory/constant.py as an operand. */
#ifndef SP_HOT_CONSTANT_H
#define SP_HOT_CONSTANT_H
#include "hot/numpy/ndarray.h"

/* A private copy of an array that nobody can change (ops/memory/constant.py). Each table belongs to this constant, and its entries
 * hold the packed elements; it is no table, None or NULL, before the first call and after a close. */
struct hot_constant {
    PyObject_HEAD
    PyObject *products, *convolutions;
    unsigned long long rows, columns; /* 0: it is no matrix */
};

extern PyTypeObject *hot_constant_type;
extern struct hot_seen hot_constants;

/* The constant that `given` is; NULL: it is none. Arrays come first: a walk over their bases would cost more than a comparison. */
static inline const struct hot_constant *hot_constant_of(PyObject *given)
{
    if (Py_TYPE(given) == hot_ndarray_type || !hot_subtype(Py_TYPE(given), hot_constant_type, &hot_constants))
        return NULL;
    return (const void *)given;
}

/* Makes the type: 0, or -1 with an exception. */
int hot_constant(PyObject *module);
#endif
