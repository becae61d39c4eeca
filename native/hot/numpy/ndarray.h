/* numpy's arrays as C structs: the head of PyArrayObject, whose layout is part of numpy's ABI (numpy/ndarraytypes.h,
 * PyArrayObject_fields) and the same in versions 1 and 2. The stable ABI of Python 3.10 has no buffer protocol, and asking
 * an array for its address by attributes costs as much as a small operation.
 *
 * `hot_ndarray_type` is set once numpy has said which ABI it has (core/numpy_layout.py), and without it nobody looks. */
#ifndef SP_HOT_NDARRAY_H
#define SP_HOT_NDARRAY_H
#include "hot/launch/objects.h"

struct hot_ndarray {
    PyObject_HEAD
    char *data;
    int ndim;
    Py_ssize_t *shape, *strides;
    PyObject *base, *dtype;
    int flags;
};
enum { HOT_ROW_MAJOR = 1, HOT_ALIGNED = 0x100, HOT_WRITEABLE = 0x400 };

extern PyTypeObject *hot_ndarray_type; /* numpy.ndarray; NULL: not known, or not laid out like this */
extern PyObject *hot_float_dtypes[2]; /* numpy's objects for float32 and float64 in native byte order */
extern void *const *hot_numpy_api;    /* numpy's table of C functions; NULL until the type is known */

/* `given` as an array of exactly numpy's class, row-major, aligned, of this dtype object; NULL if it is not. */
static inline const struct hot_ndarray *hot_plain_array(PyObject *given, const PyObject *dtype)
{
    const struct hot_ndarray *const a = (const void *)given;
    if (!hot_ndarray_type || Py_TYPE(given) != hot_ndarray_type || a->dtype != dtype)
        return NULL;
    const int wanted = HOT_ROW_MAJOR | HOT_ALIGNED;
    return (a->flags & wanted) == wanted ? a : NULL;
}

/* How many elements it has. */
static inline size_t hot_count(const struct hot_ndarray *a)
{
    size_t n = 1;
    for (int d = 0; d < a->ndim; d++)
        n *= (size_t)a->shape[d];
    return n;
}

static inline int hot_same_shape(const struct hot_ndarray *a, const struct hot_ndarray *b)
{
    if (a->ndim != b->ndim)
        return 0;
    for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d])
            return 0;
    return 1;
}

/* Do two pieces of memory share a byte? Of NULL and no bytes: no. */
static inline int hot_meet(const void *x, size_t x_nbytes, const void *y, size_t y_nbytes)
{
    return (uintptr_t)x < (uintptr_t)y + y_nbytes && (uintptr_t)y < (uintptr_t)x + x_nbytes;
}

/* Makes what core/numpy_layout.py calls: 0, or -1 with an exception. */
int hot_arrays(PyObject *module);
#endif
