/* The table of decisions: places by shapes. Parameters are compared by value, so that Python has neither to build a key nor
 * to hash one. */
#include "conv_table.h"

#include <string.h>

/* May it be kept for comparisons? An int, a str, None, or a tuple of them. */
static int plain(PyObject *value, int depth)
{
    if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || value == Py_None)
        return 1;
    if (!PyTuple_CheckExact(value) || depth == 0)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
        if (!plain(PyTuple_GetItem(value, i), depth - 1))
            return 0;
    return 1;
}

/* Does `given` mean what `kept`, which is plain, does? True and 1.0 are not 1; a list may stand for a tuple. */
static int same(PyObject *kept, PyObject *given)
{
    if (kept == given)
        return 1;
    if (!PyTuple_CheckExact(kept))
        return Py_TYPE(kept) == Py_TYPE(given) && PyObject_RichCompareBool(kept, given, Py_EQ) == 1;
    const int list = PyList_CheckExact(given);
    if (!list && !PyTuple_CheckExact(given))
        return 0;
    const Py_ssize_t n = PyTuple_Size(kept);
    if (n != (list ? PyList_Size(given) : PyTuple_Size(given)))
        return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!same(PyTuple_GetItem(kept, i), list ? PyList_GetItem(given, i) : PyTuple_GetItem(given, i)))
            return 0;
    return 1;
}

static int same_parameters(const struct conv_entry *e, PyObject *const *given)
{
    for (int i = 0; i < PARAMETERS; i++)
        if (!same(PyTuple_GetItem(e->parameters, i), given[i]))
            return 0;
    return 1;
}

/* The places where an entry for these shapes may be. */
static struct conv_entry *places(const struct hot_convolutions *p, const Py_ssize_t *x, const Py_ssize_t *w)
{
    uint64_t mixed = 0;
    for (int i = 0; i < NDIM; i++) {
        mixed = (mixed ^ mixed >> 31 ^ (uint64_t)x[i]) * 0x9e3779b97f4a7c15u;
        mixed = (mixed ^ mixed >> 29 ^ (uint64_t)(w ? w[i] : 0)) * 0xc2b2ae3d27d4eb4fu;
    }
    return &p->entries[WAYS * (mixed >> 32 & (p->nsets - 1))];
}

static int is_for(const struct conv_entry *e, const Py_ssize_t *x, const Py_ssize_t *w, PyObject *const *parameters)
{
    return e->kernel && (e->blob == NULL) == (w != NULL) && !memcmp(e->shapes.x, x, sizeof e->shapes.x) &&
           (!w || !memcmp(e->shapes.w, w, sizeof e->shapes.w)) && same_parameters(e, parameters);
}

struct conv_entry *conv_find(const struct hot_convolutions *p, const Py_ssize_t *x, const Py_ssize_t *w, PyObject *const *parameters)
{
    struct conv_entry *const set = places(p, x, w);
    for (int i = 0; i < WAYS; i++)
        if (is_for(&set[i], x, w, parameters))
            return &set[i];
    return NULL;
}

void conv_clear(struct conv_entry *e)
{
    const struct conv_entry old = *e;
    memset(e, 0, sizeof *e);
    Py_XDECREF(old.kernel);
    Py_XDECREF(old.parameters);
    Py_XDECREF(old.out_shape);
    Py_XDECREF(old.blob);
}

/* Where a new entry goes: over the one that it replaces, else to a free place, else to the next. */
static struct conv_entry *place(struct hot_convolutions *p, const Py_ssize_t *x, const Py_ssize_t *w, PyObject *const *parameters)
{
    struct conv_entry *const known = conv_find(p, x, w, parameters);
    if (known)
        return known;
    struct conv_entry *const set = places(p, x, w);
    for (int i = 0; i < WAYS; i++)
        if (!set[i].kernel)
            return &set[i];
    return &set[p->next++ % WAYS];
}

/* put(x, w and out's shapes as 12 i64, scalars as 18 u32, parameters, out's shape, kernel, head, blob): the blob is None in a
 * device's table. False: there are parameters that are not plain. */
PyObject *conv_put(PyObject *self, PyObject *given)
{
    struct hot_convolutions *const p = (void *)self;
    const char *shapes, *scalars, *head;
    Py_ssize_t shapes_nbytes, scalars_nbytes, head_nbytes;
    PyObject *parameters, *out_shape, *kernel, *blob, *each[PARAMETERS];
    if (!PyArg_ParseTuple(given, "y#y#O!O!O!y#O", &shapes, &shapes_nbytes, &scalars, &scalars_nbytes, &PyTuple_Type, &parameters,
                          &PyTuple_Type, &out_shape, hot_kernel_type, &kernel, &head, &head_nbytes, &blob))
        return NULL;
    struct conv_entry made = {0};
    if (shapes_nbytes != sizeof made.shapes || scalars_nbytes != sizeof made.scalars || head_nbytes != sizeof made.head ||
        PyTuple_Size(parameters) != PARAMETERS || PyTuple_Size(out_shape) != NDIM)
        return PyErr_Format(PyExc_ValueError, "put: shapes, scalars, parameters or a head of another size"), NULL;
    if (blob != Py_None && !hot_is_pointer(blob))
        return PyErr_Format(PyExc_ValueError, "put: expected memory of the device or None as the blob"), NULL;
    memcpy(&made.shapes, shapes, sizeof made.shapes);
    memcpy(&made.scalars, scalars, sizeof made.scalars);
    memcpy(&made.head, head, sizeof made.head);
    if (made.head.nbytes != sizeof(struct conv_record) || made.head.args_nbytes != sizeof(struct sp_args_conv2d_f32))
        return PyErr_Format(PyExc_ValueError, "put: records of %u bytes", made.head.nbytes), NULL;
    for (int i = 0; i < PARAMETERS; i++) {
        each[i] = PyTuple_GetItem(parameters, i);
        if (!plain(each[i], 2))
            Py_RETURN_FALSE;
    }
    made.blob = blob == Py_None ? NULL : blob;
    made.kernel = kernel;
    made.parameters = parameters;
    made.out_shape = out_shape;
    Py_INCREF(kernel);
    Py_INCREF(parameters);
    Py_INCREF(out_shape);
    Py_XINCREF(made.blob);
    struct conv_entry *const e = place(p, made.shapes.x, made.blob ? NULL : made.shapes.w, each);
    struct conv_entry old = *e;
    *e = made;
    conv_clear(&old);
    Py_RETURN_TRUE;
}
