/* Keys of calls in the call table: types, shapes and strides as 64-bit numbers (words). Values such
 * as "relu" are compared as objects. */
#include "key.h"

#include <stddef.h>

struct hot_class hot_constants;

enum { SEEN = HOT_ROW_MAJOR | HOT_ALIGNED | HOT_WRITEABLE };

/* Returns 1 if a value is None, a str or an int. Such a value is neither a pointer of core/ nor an
 * ops.Constant. This test spares the key a search of the base classes of the value's type, which
 * would cost more than the rest of the key. */
static inline int is_usual(PyObject *value)
{
    return value == Py_None || PyUnicode_CheckExact(value) || PyLong_CheckExact(value);
}

/* Returns the address of the type of an argument, as a word of the key. A list counts as a
 * tuple. */
static inline uint64_t type_of(PyObject *value)
{
    PyTypeObject *const type = Py_TYPE(value);
    return (uint64_t)(uintptr_t)(type == &PyList_Type ? &PyTuple_Type : type);
}

int hot_key_of(PyObject *site, PyObject *const *values, size_t nvalues, uint64_t *words, struct hot_key *key)
{
    size_t n = 0;
    PyObject *constant = NULL;
    if (!hot_ndarray_type || nvalues > HOT_MOST_VALUES)
        return 0;
    for (size_t i = 0; i < nvalues; i++) {
        const struct hot_ndarray *const a = (const void *)values[i];
        const struct hot_pointer *const p = (const void *)values[i];
        const int is_array = Py_TYPE(values[i]) == hot_ndarray_type;
        if (n + 3 + 2 * (is_array ? (size_t)a->ndim : 0) > HOT_MOST_WORDS)
            return 0;
        words[n++] = type_of(values[i]);
        if (is_array) {
            /* read once, because the compiler must assume that `words` overlaps the array */
            const int ndim = a->ndim, nstrides = a->flags & HOT_ROW_MAJOR ? 0 : ndim;
            const Py_ssize_t *const shape = a->shape, *const strides = a->strides;
            words[n++] = (uint64_t)(uintptr_t)a->dtype;
            words[n++] = (uint64_t)(a->flags & SEEN) | (uint64_t)ndim << 32;
            for (int d = 0; d < ndim; d++)
                words[n++] = (uint64_t)shape[d];
            for (int d = 0; d < nstrides; d++)
                words[n++] = (uint64_t)strides[d];
        } else if (!is_usual(values[i]) && hot_is(values[i], &hot_pointers)) {
            words[n++] = p->elements;
            words[n++] = p->nbytes;
        } else if (!is_usual(values[i]) && hot_is(values[i], &hot_constants)) {
            if (constant)
                return 0;
            constant = values[i];
        }
    }
    *key = (struct hot_key){site, words, n, constant};
    return 1;
}

int hot_is_plain(PyObject *value, int depth)
{
    if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyBool_Check(value) || value == Py_None)
        return 1;
    if (!PyTuple_CheckExact(value) || depth == 0)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
        if (!hot_is_plain(PyTuple_GetItem(value, i), depth - 1))
            return 0;
    return 1;
}

int hot_means(PyObject *kept, PyObject *given)
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
        if (!hot_means(PyTuple_GetItem(kept, i), list ? PyList_GetItem(given, i) : PyTuple_GetItem(given, i)))
            return 0;
    return 1;
}

/* Sets two items of a key for `value`: the ones at `at` and after it. The first is the dtype of a
 * numpy array, else None. The second is the shape of a numpy array, or the value itself if it is
 * None, a str or a bool. For any other value, the second is the result of the Python function
 * `other` for the value, and *asked becomes 1. Returns 0 with an exception if that fails. */
static int put_about(PyObject *items, Py_ssize_t at, PyObject *value, PyObject *other, int *asked)
{
    const struct hot_ndarray *const a = (const void *)value;
    PyObject *kind = Py_None, *more;
    if (Py_TYPE(value) == hot_ndarray_type) {
        kind = a->dtype;
        more = PyBytes_FromStringAndSize((const char *)a->shape, a->ndim * (Py_ssize_t)sizeof *a->shape);
    } else if (value == Py_None || PyUnicode_CheckExact(value) || PyBool_Check(value)) {
        more = hot_itself(value);
    } else {
        *asked = 1;
        more = PyObject_CallFunctionObjArgs(other, value, NULL);
    }
    PyTuple_SetItem(items, at, hot_itself(kind));
    return more && PyTuple_SetItem(items, at + 1, more) == 0;
}

static PyObject *call_key(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    int asked = 0, well = 1;
    (void)module;
    if (nargs != 3 || !PyTuple_Check(args[0]) || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "call_key: expected two tuples and a function, got %zd arguments", nargs), NULL;
    const Py_ssize_t nhead = PyTuple_Size(args[0]), nvalues = PyTuple_Size(args[1]);
    PyObject *const items = PyTuple_New(nhead + 2 * nvalues + 1);
    if (!items)
        return NULL;
    for (Py_ssize_t i = 0; i < nhead; i++)
        PyTuple_SetItem(items, i, hot_itself(PyTuple_GetItem(args[0], i)));
    for (Py_ssize_t i = 0; well && i < nvalues; i++)
        well = put_about(items, nhead + 2 * i, PyTuple_GetItem(args[1], i), args[2], &asked);
    PyTuple_SetItem(items, nhead + 2 * nvalues, PyBool_FromLong(asked));
    if (well)
        return items;
    Py_DECREF(items);
    return NULL;
}

static PyMethodDef functions[] = {
    {"call_key", (PyCFunction)(void (*)(void))call_key, METH_FASTCALL,
     "call_key(head, values, other): the items of `head`, two for each value, and whether `other` was asked about one that is no\n"
     "array of numpy, text, bool or None. Of arrays dtype and extents."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef constant_members[] = {
    {"_calls", T_OBJECT, offsetof(struct hot_constant, calls), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

int hot_keys(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.ConstantBase",
        .doc = "What ops.Constant begins with.",
        .size = sizeof(struct hot_constant),
        .references = 1,
        .is_base = 1,
        .members = constant_members,
    };
    hot_constants.type = hot_collected(module, &frame);
    return hot_constants.type ? PyModule_AddFunctions(module, functions) : -1;
}
