/* Operations and plans as callable objects. A call first looks in the call table for an equal
 * earlier call, before a line of Python runs.
 *
 * CPython calls an object of a Python class through a tuple of its arguments and a dict of their
 * names. That costs as much as a small product. So `direct` makes a subclass whose objects CPython
 * calls by its vectorcall protocol. If the call table has no row for a call, the Python function is
 * called with the same arguments. */
#include "calls.h"
#include "row.h"
#include "table.h"

/* Our own vectorcallfunc, Py_TPFLAGS_HAVE_VECTORCALL and offset bit of PyVectorcall_NARGS. CPython
 * has them in its stable ABI only from 3.12 on. In 3.10 and 3.11 its headers cpython/object.h,
 * object.h and cpython/abstract.h define them. */
typedef PyObject *vectorcall_function(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names);
static const unsigned long HAVE_VECTORCALL = 1UL << 11;
static const size_t OFFSET_BIT = (size_t)1 << (8 * sizeof(size_t) - 1);

struct hot_callable {
    PyObject_HEAD
    /* the Python function of this callable object; its first argument is this object. The keys of
     * its calls in the call table contain its address (`site` of struct hot_key). */
    PyObject *function;
    /* the call table of a plan; NULL: the table of the device, which is the first argument */
    PyObject *table;
    PyObject *meaning; /* a tuple that owns `names` and `defaults` */
    vectorcall_function *vectorcall;
    size_t nvalues, npositional;
    /* a default of NULL: the argument is required */
    PyObject *names[HOT_MOST_VALUES], *defaults[HOT_MOST_VALUES];
};

static PyTypeObject *base_type;

/* Returns the index of the parameter whose name is this very string object, or nvalues if there is
 * none. */
static size_t parameter_index(const struct hot_callable *c, const PyObject *name)
{
    size_t i = 0;
    while (i < c->nvalues && c->names[i] != name)
        i++;
    return i;
}

/* Stores the arguments of a call in `values`, in the order of the parameters. Returns 0 if the
 * arguments do not fit the parameters. */
static int sort_out(const struct hot_callable *c, PyObject *const *args, size_t nargs, PyObject *names, PyObject **values)
{
    if (nargs > c->npositional)
        return 0;
    for (size_t i = 0; i < c->nvalues; i++)
        values[i] = i < nargs ? args[i] : NULL;
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < nnames; i++) {
        const size_t at = parameter_index(c, PyTuple_GetItem(names, i));
        if (at == c->nvalues || values[at])
            return 0;
        values[at] = args[nargs + (size_t)i];
    }
    for (size_t i = nargs; i < c->nvalues; i++)
        if (!values[i] && !(values[i] = c->defaults[i]))
            return 0;
    return 1;
}

/* If the call table has a row for this call, runs the call and returns its result. Returns NULL
 * without an exception if there is no such row, and NULL with an exception after an error. */
static PyObject *shortly(const struct hot_callable *c, PyObject *const *args, size_t nargs, PyObject *names)
{
    PyObject *values[HOT_MOST_VALUES], *table = c->table;
    const size_t first = table == NULL; /* 1: args[0] is the device */
    if (nargs < first || !sort_out(c, args + first, nargs - first, names, values))
        return NULL;
    PyObject *device = NULL;
    if (first) {
        uint64_t epoch;
        device = args[0];
        if (!hot_epoch(device, &epoch))
            return NULL;
        table = hot_taken(device, &((const struct hot_device *)(const void *)device)->calls);
    } else {
        Py_INCREF(table);
    }
    PyObject *const made = hot_table_call(table, c->function, device, NULL, values, c->nvalues, first == 1);
    Py_XDECREF(table);
    return made;
}

/* Calls the Python function with a tuple and a dict. Before 3.12, CPython uses this function for
 * subclasses that are written in Python. Every version uses it for `object.__call__`. */
static PyObject *call_by_tuple(PyObject *self, PyObject *given, PyObject *named)
{
    PyObject *const function = ((const struct hot_callable *)(const void *)self)->function;
    if (!function)
        return PyErr_Format(PyExc_TypeError, "%R: it is not begun", (PyObject *)Py_TYPE(self)), NULL;
    PyObject *const first = PyTuple_Pack(1, self);
    PyObject *const all = first ? PySequence_Concat(first, given) : NULL;
    PyObject *const made = all ? PyObject_Call(function, all, named) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(all);
    return made;
}

static PyObject *call_vector(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const struct hot_callable *const c = (const void *)self;
    const size_t nargs = nargsf & ~OFFSET_BIT;
    PyObject *made = c->function ? shortly(c, args, nargs, names) : NULL;
    if (made || PyErr_Occurred())
        return made;
    PyObject *const given = hot_tuple_of(args, (Py_ssize_t)nargs);
    PyObject *const named = PyDict_New();
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    int well = given && named;
    for (Py_ssize_t i = 0; well && i < nnames; i++)
        well = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[(Py_ssize_t)nargs + i]) == 0;
    made = well ? call_by_tuple(self, given, named) : NULL;
    Py_XDECREF(given);
    Py_XDECREF(named);
    return made;
}

/* _begin(function, table, (names, npositional, defaults)): the Python method that fills a new
 * object. `table` is the call table of a plan, or None for the table of the device. `defaults` is a
 * dict from parameter names to default values. */
static PyObject *begin(PyObject *self, PyObject *given)
{
    struct hot_callable *const c = (void *)self;
    PyObject *function, *table, *meaning, *names, *defaults;
    Py_ssize_t npositional;
    if (!PyArg_ParseTuple(given, "OOO!:_begin", &function, &table, &PyTuple_Type, &meaning) ||
        !PyArg_ParseTuple(meaning, "O!nO!", &PyTuple_Type, &names, &npositional, &PyDict_Type, &defaults))
        return NULL;
    const Py_ssize_t n = PyTuple_Size(names);
    if (c->function || n > HOT_MOST_VALUES || npositional < 0 || npositional > n ||
        (table != Py_None && Py_TYPE(table) != hot_table_type))
        return PyErr_Format(PyExc_ValueError, "_begin: expected up to %d names, a Table or None, once", HOT_MOST_VALUES), NULL;
    /* a copy, so that no one else removes a default from it */
    PyObject *const own = PyDict_Copy(defaults);
    for (Py_ssize_t i = 0; own && i < n; i++) {
        c->names[i] = PyTuple_GetItem(names, i);
        c->defaults[i] = PyDict_GetItemWithError(own, c->names[i]);
    }
    if (PyErr_Occurred() || !(meaning = Py_BuildValue("OO", names, own))) {
        Py_XDECREF(own);
        return NULL;
    }
    Py_DECREF(own);
    c->nvalues = (size_t)n;
    c->npositional = (size_t)npositional;
    c->meaning = meaning;
    c->table = table == Py_None ? NULL : table;
    c->function = function;
    Py_XINCREF(c->table);
    Py_INCREF(function);
    Py_RETURN_NONE;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *named)
{
    (void)args;
    (void)named;
    struct hot_callable *const c = (void *)PyType_GenericAlloc(type, 0);
    if (c)
        c->vectorcall = call_vector;
    return (PyObject *)c;
}

/* Returns "module.name" of a class, or NULL with an exception. The string is never freed, because
 * in 3.10 the type keeps a pointer to it. */
static const char *full_name(PyObject *base)
{
    PyObject *const dot = PyUnicode_FromString(".");
    PyObject *const name = dot ? PyObject_CallMethod(dot, "join", "((NN))", PyObject_GetAttrString(base, "__module__"),
                                                     PyObject_GetAttrString(base, "__qualname__"))
                               : NULL;
    PyObject *const bytes = name ? PyUnicode_AsUTF8String(name) : NULL;
    Py_XDECREF(dot);
    Py_XDECREF(name);
    return bytes ? PyBytes_AsString(bytes) : NULL;
}

/* direct(class): returns a subclass whose objects CPython calls by its vectorcall protocol, which
 * is faster. Otherwise they behave as objects of the class. */
static PyObject *direct(PyObject *module, PyObject *base)
{
    PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct hot_callable, vectorcall), READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_call, call_by_tuple}, /* a type with HAVE_VECTORCALL needs a tp_call of its own */
        {Py_tp_members, members},
        {0, NULL},
    };
    (void)module;
    if (!PyType_Check(base) || !PyType_IsSubtype((PyTypeObject *)base, base_type))
        return PyErr_Format(PyExc_TypeError, "direct: expected a class of Callables, got %R", base), NULL;
    PyType_Spec spec = {
        .name = full_name(base),
        .flags = (unsigned)(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | HAVE_VECTORCALL),
        .slots = slots,
    };
    PyObject *const bases = spec.name ? PyTuple_Pack(1, base) : NULL;
    PyObject *const type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
    PyObject *const doc = type ? PyObject_GetAttrString(base, "__doc__") : NULL;
    const int well = doc && PyObject_SetAttrString(type, "__doc__", doc) == 0;
    Py_XDECREF(bases);
    Py_XDECREF(doc);
    if (well)
        return type;
    Py_XDECREF(type);
    return NULL;
}

static PyMethodDef methods[] = {
    {"_begin", begin, METH_VARARGS, "_begin(function, table, (names, npositional, defaults)): once."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    {"direct", direct, METH_O, "direct(class): a subclass of callables that are called faster."},
    {NULL, NULL, 0, NULL},
};

int hot_callables(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.CallableBase",
        .doc = "What operations and plans begin with.",
        .size = sizeof(struct hot_callable),
        .references = 3,
        .is_base = 1,
        .make = make,
        .call = call_by_tuple,
        .methods = methods,
    };
    base_type = hot_collected(module, &frame);
    return base_type ? PyModule_AddFunctions(module, functions) : -1;
}
