/* A call that C leaves alone, made anew by Python's method. */
#include "again.h"

static PyObject *tuple_of(PyObject *first, PyObject *const *items, Py_ssize_t n)
{
    const Py_ssize_t before = first != NULL;
    PyObject *const made = PyTuple_New(before + n);
    for (Py_ssize_t i = 0; made && i < before + n; i++) {
        PyObject *const item = i < before ? first : items[i - before];
        Py_INCREF(item);
        PyTuple_SetItem(made, i, item); /* of a new tuple, in its bounds: that does not fail */
    }
    return made;
}

PyObject *hot_tuple_of(PyObject *const *items, Py_ssize_t n)
{
    return tuple_of(NULL, items, n);
}

PyObject *hot_call_again(PyObject *owner, PyObject *name, PyObject *first, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    PyObject *const method = name ? PyObject_GetAttr(owner, name) : (Py_INCREF(owner), owner);
    PyObject *const given = tuple_of(first, args, nargs), *const named = PyDict_New();
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    int well = method && given && named;
    for (Py_ssize_t i = 0; well && i < nnames; i++)
        well = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[nargs + i]) == 0;
    PyObject *const made = well ? PyObject_Call(method, given, named) : NULL;
    Py_XDECREF(method);
    Py_XDECREF(given);
    Py_XDECREF(named);
    return made;
}
