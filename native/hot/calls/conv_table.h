/* What was decided for convolutions of numpy arrays, by shapes and parameters (conv_table.c), for conv.c to launch. */
#ifndef SP_HOT_CONV_TABLE_H
#define SP_HOT_CONV_TABLE_H
#include "hot/numpy/ndarray.h"

#include "core/args.h"
#include "include/sp_cmd.h"

#include <stddef.h>

enum { NDIM = 4, PARAMETERS = 7, WAYS = 4 };
enum { X, W, BIAS, OUT, FIRST_PARAMETER, ARGUMENTS = FIRST_PARAMETER + PARAMETERS };

struct conv_scalars { /* the end of sp_args_conv2d_f32 */
    uint32_t n, c, h, w, oc, rest[13];
};

struct conv_record {
    struct sp_cmd_dispatch head;
    struct sp_args_conv2d_f32 args;
    uint64_t covered[4];
};
_Static_assert(sizeof(struct conv_record) == sizeof(struct sp_cmd_dispatch) + sizeof(struct sp_args_conv2d_f32) + 4 * 8 &&
                   sizeof(struct sp_args_conv2d_f32) == offsetof(struct sp_args_conv2d_f32, n) + sizeof(struct conv_scalars),
               "a record has no holes, and its scalars are the last");

struct conv_shapes {
    Py_ssize_t x[NDIM], w[NDIM], out[NDIM];
};

struct conv_entry {
    PyObject *kernel;     /* NULL: a free place */
    PyObject *parameters; /* a tuple of what `plain` takes */
    PyObject *out_shape;
    PyObject *blob;      /* a core.Array in the place of w, packed or row-major; NULL: w is an operand of the call */
    struct conv_shapes shapes;
    struct sp_cmd_dispatch head;
    struct conv_scalars scalars;
};

struct hot_convolutions {
    PyObject_HEAD
    PyObject *queue; /* core.Queue */
    PyObject *empty; /* numpy.empty */
    struct conv_entry *entries;
    size_t nsets, next;
};

/* The decision for these shapes; NULL: Python has to decide. `w` is NULL in a constant's table, which has weights of one shape. */
struct conv_entry *conv_find(const struct hot_convolutions *p, const Py_ssize_t *x, const Py_ssize_t *w, PyObject *const *parameters);
PyObject *conv_put(PyObject *self, PyObject *given);
void conv_clear(struct conv_entry *e);
#endif
