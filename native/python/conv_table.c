/* The table of what was decided: places by shapes and by the array of weights, where that matters. Parameters are compared
 * by value, so that Python has neither to build a key nor to hash one. */
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

/* The places where an entry for these shapes and this owner may be. */
static struct conv_entry *places(const struct hot_convolutions *p, const Py_ssize_t *x, const Py_ssize_t *w, const void *owner)
{
    uint64_t mixed = (uint64_t)(uintptr_t)owner * 0x27d4eb2f165667c5u;
    for (int i = 0; i < NDIM; i++) {
        mixed = (mixed ^ mixed >> 31 ^ (uint64_t)x[i]) * 0x9e3779b97f4a7c15u;
        mixed = (mixed ^ mixed >> 29 ^ (uint64_t)w[i]) * 0xc2b2ae3d27d4eb4fu;
    }
    return &p->entries[WAYS * (mixed >> 32 & (p->nsets - 1))];
}

static int is_for(const struct conv_entry *e, const Py_ssize_t *x, const Py_ssize_t *w, PyObject *owner, PyObject *const *parameters)
{
    return e->kernel && (e->owner != NULL) == (owner != NULL) && !memcmp(e->shapes.x, x, sizeof e->shapes.x) &&
           !memcmp(e->shapes.w, w, sizeof e->shapes.w) && (!owner || PyWeakref_GetObject(e->owner) == owner) &&
           same_parameters(e, parameters);
}

static struct conv_entry *find_for(const struct hot_convolutions *p, const Py_ssize_t *x, const Py_ssize_t *w, PyObject *owner,
                              PyObject *const *parameters)
{
    struct conv_entry *const set = places(p, x, w, owner);
    for (int i = 0; i < WAYS; i++)
        if (is_for(&set[i], x, w, owner, parameters))
            return &set[i];
    return NULL;
}

const struct conv_entry *conv_find(const struct hot_convolutions *p, PyObject *const *args)
{
    const struct hot_ndarray *const x = (const void *)args[X], *const w = (const void *)args[W];
    PyObject *const *const parameters = args + FIRST_PARAMETER;
    const struct conv_entry *e = find_for(p, x->shape, w->shape, NULL, parameters);
    if (!e || !e->packs)
        return e;
    if (!(w->flags & HOT_OWNDATA) || w->flags & HOT_WRITEABLE) /* Python packs it no more, and must know that */
        return hot_in_dict(p->weights, args[W]) ? NULL : e;
    e = find_for(p, x->shape, w->shape, args[W], parameters);
    return e && e->data == w->data && e->sample == hot_sample(w->data, hot_count(w), 2) ? e : NULL;
}

void conv_clear(struct conv_entry *e)
{
    const struct conv_entry old = *e;
    memset(e, 0, sizeof *e);
    Py_XDECREF(old.kernel);
    Py_XDECREF(old.parameters);
    Py_XDECREF(old.out_shape);
    Py_XDECREF(old.blob);
    Py_XDECREF(old.owner);
}

/* Where a new entry goes: over the one that it replaces, else to a free place, else to the next. */
static struct conv_entry *place(struct hot_convolutions *p, const struct conv_shapes *s, PyObject *owner, PyObject *const *parameters)
{
    struct conv_entry *const known = find_for(p, s->x, s->w, owner, parameters);
    if (known)
        return known;
    struct conv_entry *const set = places(p, s->x, s->w, owner);
    for (int i = 0; i < WAYS; i++)
        if (!set[i].kernel || (set[i].owner && PyWeakref_GetObject(set[i].owner) == Py_None))
            return &set[i];
    return &set[p->next++ % WAYS];
}

/* put(x, w and out's shapes as 12 i64, scalars as 18 u32, parameters, out's shape, kernel, head, packs, blob, owner): the last
 * two are weak references or None. False: there are parameters that are not plain. */
PyObject *conv_put(PyObject *self, PyObject *given)
{
    struct hot_convolutions *const p = (void *)self;
    const char *shapes, *scalars, *head;
    Py_ssize_t shapes_nbytes, scalars_nbytes, head_nbytes;
    PyObject *parameters, *out_shape, *kernel, *blob, *reference, *each[PARAMETERS];
    int packs;
    if (!PyArg_ParseTuple(given, "y#y#O!O!O!y#pOO", &shapes, &shapes_nbytes, &scalars, &scalars_nbytes, &PyTuple_Type, &parameters,
                          &PyTuple_Type, &out_shape, hot_kernel_type, &kernel, &head, &head_nbytes, &packs, &blob, &reference))
        return NULL;
    struct conv_entry made = {.packs = packs};
    if (shapes_nbytes != sizeof made.shapes || scalars_nbytes != sizeof made.scalars || head_nbytes != sizeof made.head ||
        PyTuple_Size(parameters) != PARAMETERS || PyTuple_Size(out_shape) != NDIM)
        return PyErr_Format(PyExc_ValueError, "put: shapes, scalars, parameters or a head of another size"), NULL;
    if ((blob == Py_None) != (reference == Py_None) ||
        (blob != Py_None && !(PyWeakref_Check(blob) && PyWeakref_Check(reference))))
        return PyErr_Format(PyExc_ValueError, "put: two weak references are wanted, or none"), NULL;
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
    PyObject *const owner = reference == Py_None ? NULL : PyWeakref_GetObject(reference);
    PyObject *const packed = blob == Py_None ? NULL : PyWeakref_GetObject(blob);
    if (owner) {
        const struct hot_ndarray *const w = hot_plain_array(owner, hot_float_dtypes[0]);
        if (!w)
            Py_RETURN_FALSE;
        if (!hot_is_pointer(packed))
            return PyErr_Format(PyExc_ValueError, "put: packed weights are wanted"), NULL;
        made.data = w->data;
        made.sample = hot_sample(w->data, hot_count(w), 2);
        made.blob = blob;
        made.owner = reference;
    }
    made.kernel = kernel;
    made.parameters = parameters;
    made.out_shape = out_shape;
    Py_INCREF(kernel);
    Py_INCREF(parameters);
    Py_INCREF(out_shape);
    Py_XINCREF(made.blob);
    Py_XINCREF(made.owner);
    struct conv_entry *const e = place(p, &made.shapes, owner, each);
    struct conv_entry old = *e;
    *e = made;
    conv_clear(&old);
    Py_RETURN_TRUE;
}
