/* gemm and conv2d as objects: a call with numpy arrays that was made before goes from here to the table of the device
 * (gemm_table.c, conv.c) without a line of Python.
 *
 * `op("gemm", Gemm, key, Device, more, signature)` makes a subclass of the Python class of the operation, whose signature says
 * what may be given by position and what else is meant. A call of its object that names its arguments as usual, on exactly a
 * `Device` that has a table, is tried here; every other, and what a table leaves alone, is a call of Gemm.__call__, which begins
 * again from the arguments. */
#include "hot/launch/again.h"
#include "calls.h"
#include "vectorcall.h"
#include "op.h"

#include <string.h>

enum { GEMM, CONV2D, OPS };

struct op {
    const char *name;
    hot_op_function *run;
    Py_ssize_t nvalues;               /* the device not counted */
    const char *words[HOT_OP_VALUES]; /* which values `run` takes, in order: Python's parameters have to be these */
    hot_vectorcall *vectorcall;
    /* From here on made at run time, for ever. */
    Py_ssize_t npositional;
    PyObject *names[HOT_OP_VALUES], *defaults[HOT_OP_VALUES]; /* NULL: it has to be given */
    PyObject *key, *device, *base;
    struct hot_op_more more;
    Py_ssize_t offset; /* of the hot_vectorcall in an object */
    PyTypeObject *type;
};

static PyObject *call_gemm(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names);
static PyObject *call_conv2d(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names);

static struct op ops[OPS] = {
    [GEMM] = {.name = "gemm",
              .run = hot_gemm,
              .nvalues = 6,
              .words = {"a", "b", "out", "bias", "activation", "algo"},
              .vectorcall = call_gemm},
    [CONV2D] = {.name = "conv2d",
                .run = hot_conv2d,
                .nvalues = 11,
                .words = {"x", "w", "bias", "out", "stride", "padding", "dilation", "groups", "activation", "layout", "algo"},
                .vectorcall = call_conv2d},
};
static PyObject *call_word;

/* Which parameter has this name; nvalues: none, or it is spelt as nobody spells it. */
static Py_ssize_t which(const struct op *op, const PyObject *name)
{
    Py_ssize_t i = 0;
    while (i < op->nvalues && op->names[i] != name)
        i++;
    return i;
}

/* The values of a call. 0: not as usual. */
static int sort_out(const struct op *op, PyObject *const *args, Py_ssize_t nargs, PyObject *names, PyObject **values)
{
    if (nargs < 1 || nargs > 1 + op->npositional || (PyObject *)Py_TYPE(args[0]) != op->device)
        return 0;
    for (Py_ssize_t i = 0; i < op->nvalues; i++)
        values[i] = i < nargs - 1 ? args[1 + i] : NULL;
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < nnames; i++) {
        const Py_ssize_t at = which(op, PyTuple_GetItem(names, i));
        if (at == op->nvalues || values[at])
            return 0;
        values[at] = args[nargs + i];
    }
    for (Py_ssize_t i = 0; i < op->nvalues; i++)
        if (!values[i] && !(values[i] = op->defaults[i]))
            return 0;
    return 1;
}

/* The table of a device, a new reference; NULL: it has none. */
static PyObject *table_of(const struct op *op, PyObject *device)
{
    PyObject *const kept = ((const struct hot_device *)(const void *)device)->kept;
    PyObject *const method = kept && PyDict_CheckExact(kept) ? PyDict_GetItemWithError(kept, op->key) : NULL;
    PyObject *const table = method && Py_TYPE(method) == &PyCFunction_Type ? PyCFunction_GetSelf(method) : NULL;
    Py_XINCREF(table); /* another thread may make another meanwhile */
    return table;
}

static PyObject *call(const struct op *op, PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const Py_ssize_t nargs = hot_nargs(nargsf);
    PyObject *values[HOT_OP_VALUES];
    if (sort_out(op, args, nargs, names, values)) {
        PyObject *const table = table_of(op, args[0]);
        PyObject *const made = table ? op->run(table, values, &op->more) : NULL;
        Py_XDECREF(table);
        if (made || PyErr_Occurred())
            return made;
    }
    return hot_call_again(op->base, call_word, self, args, nargs, names);
}

static PyObject *call_gemm(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    return call(&ops[GEMM], self, args, nargsf, names);
}

static PyObject *call_conv2d(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    return call(&ops[CONV2D], self, args, nargsf, names);
}

static struct op *op_of(PyObject *type)
{
    for (int i = 0; i < OPS; i++)
        if (ops[i].type && PyType_IsSubtype((PyTypeObject *)type, ops[i].type))
            return &ops[i];
    return NULL;
}

/* Where CPython knows nothing of vectorcall: subclasses in Python before 3.12, and `object.__call__`. */
static PyObject *call_by_tuple(PyObject *self, PyObject *given, PyObject *named)
{
    enum { MOST = 2 * (HOT_OP_VALUES + 1) };
    const struct op *const op = op_of((PyObject *)Py_TYPE(self));
    PyObject *values[MOST], *key, *value, *names = NULL;
    const Py_ssize_t nargs = PyTuple_Size(given), nnames = named ? PyDict_Size(named) : 0;
    Py_ssize_t at = 0, n = 0;
    if (!op)
        return PyErr_Format(PyExc_TypeError, "an operation is wanted"), NULL;
    if (nargs + nnames > MOST) /* not a call that anybody takes */
        return hot_call_tuple(op->base, call_word, self, given, named);
    if (nnames && !(names = PyTuple_New(nnames)))
        return NULL;
    for (Py_ssize_t i = 0; i < nargs; i++)
        values[n++] = PyTuple_GetItem(given, i);
    while (nnames && PyDict_Next(named, &at, &key, &value)) {
        Py_INCREF(key);
        PyTuple_SetItem(names, n - nargs, key); /* of a new tuple, in its bounds: that does not fail */
        values[n++] = value;
    }
    PyObject *const made = call(op, self, values, (size_t)nargs, names);
    Py_XDECREF(names);
    return made;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *named)
{
    const struct op *const op = op_of((PyObject *)type);
    (void)args;
    (void)named;
    PyObject *const made = op ? PyType_GenericAlloc(type, 0) : NULL;
    if (made)
        memcpy((char *)made + op->offset, &op->vectorcall, sizeof op->vectorcall);
    else if (!op)
        PyErr_SetString(PyExc_TypeError, "an operation is wanted");
    return made;
}

/* It is what its module calls by that name. */
static PyObject *reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct op *const op = op_of((PyObject *)Py_TYPE(self));
    return PyUnicode_FromString(op ? op->name : "");
}

static PyMethodDef op_methods[] = {
    {"__reduce__", reduce, METH_NOARGS, "For pickle: the name of the object in its module."},
    {NULL, NULL, 0, NULL},
};

static int same_names(const struct op *op, PyObject *names)
{
    Py_ssize_t i = PyTuple_Size(names) == op->nvalues ? 0 : -1;
    while (i >= 0 && i < op->nvalues) {
        PyObject *const name = PyTuple_GetItem(names, i);
        i = PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, op->words[i]) ? i + 1 : -1;
    }
    return i >= 0;
}

/* How a call may be written. 0, or -1 with an exception. */
static int take_signature(struct op *op, Py_ssize_t npositional, PyObject *defaults)
{
    op->npositional = npositional;
    for (Py_ssize_t i = 0; i < op->nvalues; i++) {
        if (!op->names[i] && !(op->names[i] = PyUnicode_InternFromString(op->words[i])))
            return -1;
        op->defaults[i] = PyDict_GetItemWithError(defaults, op->names[i]);
        Py_XINCREF(op->defaults[i]);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* op(name, class, key, Device, more, signature): see hot_op_more for what `more` is. `signature`: the parameters' names after
 * the device, how many of them may be given by position, a dict of defaults. Once for each name. */
static PyObject *make_op(PyObject *module, PyObject *given)
{
    const char *name;
    PyObject *base, *key, *device, *empty, *numbers, *names, *defaults;
    Py_ssize_t npositional;
    (void)module;
    if (!PyArg_ParseTuple(given, "sO!UO!(OO)(O!nO!)", &name, &PyType_Type, &base, &key, &PyType_Type, &device, &empty, &numbers,
                          &PyTuple_Type, &names, &npositional, &PyDict_Type, &defaults))
        return NULL;
    struct op *op = NULL;
    for (int i = 0; i < OPS; i++)
        op = strcmp(ops[i].name, name) ? op : &ops[i];
    if (op && (!same_names(op, names) || npositional < 0 || npositional > op->nvalues))
        return PyErr_Format(PyExc_ValueError, "op: %s has other parameters than C knows: %R", name, names), NULL;
    if (!op || op->type || !PyType_IsSubtype((PyTypeObject *)device, hot_device_type))
        return PyErr_Format(PyExc_ValueError, "op: a name that is not known or taken, or no class of devices"), NULL;
    PyObject *const nbytes = PyObject_GetAttrString(base, "__basicsize__");
    op->offset = nbytes ? PyLong_AsSsize_t(nbytes) : -1;
    Py_XDECREF(nbytes);
    if (op->offset < 0 || take_signature(op, npositional, defaults))
        return NULL;
    const struct hot_direct d = {make, call_by_tuple, op_methods, op->offset, (int)(op->offset + (Py_ssize_t)sizeof op->vectorcall)};
    PyObject *const type = hot_direct(base, &d);
    if (!type)
        return NULL;
    op->key = key;
    op->device = device;
    op->base = base;
    op->more = (struct hot_op_more){empty, numbers};
    Py_INCREF(key);
    Py_INCREF(device);
    Py_INCREF(base);
    Py_INCREF(empty);
    Py_INCREF(numbers);
    op->type = (PyTypeObject *)type;
    Py_INCREF(type);
    return type;
}

static PyMethodDef functions[] = {
    {"op", make_op, METH_VARARGS, "op(name, class, key, Device, more, signature): a subclass whose objects take the short way first."},
    {NULL, NULL, 0, NULL},
};

int hot_ops(PyObject *module)
{
    call_word = PyUnicode_InternFromString("__call__");
    return call_word ? PyModule_AddFunctions(module, functions) : -1;
}
