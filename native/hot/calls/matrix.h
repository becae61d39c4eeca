/* A numpy array as an operand of a product. */
#ifndef SP_HOT_MATRIX_H
#define SP_HOT_MATRIX_H
#include "hot/numpy/ndarray.h"

struct hot_matrix {
    const char *data;
    size_t rows, columns, rs, cs, nbytes; /* strides in elements; nbytes from the first element to the last */
    int type, flags; /* 0: float32, 1: float64 */
};

/* 0: not as usual. */
static inline int hot_look(PyObject *given, struct hot_matrix *out)
{
    if (!hot_ndarray_type || Py_TYPE(given) != hot_ndarray_type)
        return 0;
    const struct hot_ndarray *const array = (const void *)given;
    if (array->ndim != 2 || !(array->flags & HOT_ALIGNED))
        return 0;
    out->type = array->dtype == hot_float_dtypes[0] ? 0 : array->dtype == hot_float_dtypes[1] ? 1 : -1;
    if (out->type < 0)
        return 0;
    const int shift = out->type ? 3 : 2; /* of an element's size: a division costs as much as all the rest */
    const Py_ssize_t rows = array->shape[0], columns = array->shape[1];
    const Py_ssize_t down = array->strides[0], along = array->strides[1];
    if (rows < 1 || columns < 1 || rows > UINT32_MAX || columns > UINT32_MAX || (down | along) & ((1 << shift) - 1))
        return 0;
    /* The stride of an axis of length 1 means nothing. */
    const Py_ssize_t cs = columns > 1 ? along >> shift : 1;
    const Py_ssize_t rs = rows > 1 ? down >> shift : columns * (cs > 0 ? cs : 1);
    if (cs < 1 || rs < 1 || cs > UINT32_MAX || rs > UINT32_MAX)
        return 0;
    out->data = array->data;
    out->rows = (size_t)rows;
    out->columns = (size_t)columns;
    out->rs = (size_t)rs;
    out->cs = (size_t)cs;
    out->nbytes = ((out->rows - 1) * out->rs + (out->columns - 1) * out->cs + 1) << shift;
    out->flags = array->flags;
    return 1;
}

static inline int hot_matrices_overlap(const struct hot_matrix *x, const struct hot_matrix *y)
{
    return hot_meet(x->data, x->nbytes, y->data, y->nbytes);
}
#endif
