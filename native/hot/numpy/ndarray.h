/* numpy's arrays as C structs: the head of PyArrayObject. Its layout is part of numpy's ABI
 * (numpy/ndarraytypes.h, PyArrayObject_fields) and the same in versions 1 and 2. The stable ABI of
 * Python 3.10 has no buffer protocol. To ask an array for its address by attributes costs as much
 * as a small operation.
 *
 * result.c sets `hot_ndarray_type` once numpy has said which ABI it has (core/numpy_layout.py).
 * Until then no array is read. */
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

/* numpy.ndarray; NULL: numpy is not imported yet, or has an ABI that result.c does not know */
extern PyTypeObject *hot_ndarray_type;
#endif
