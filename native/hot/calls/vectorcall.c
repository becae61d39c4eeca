/* Types made here whose objects CPython calls by the vectorcall protocol: no tuple of the arguments, no dict of the names.
 *
 * A class written in Python cannot say that of itself: before 3.12 it does not even inherit it. So ops/ writes a class as
 * always and has the objects that it hands out made of a subclass, of the same name, from here. */
#include "vectorcall.h"

#include <string.h>

static PyObject *text(PyObject *base, const char *name)
{
    PyObject *const found = PyObject_GetAttrString(base, name);
    PyObject *const made = found ? PyUnicode_AsUTF8String(found) : NULL;
    Py_XDECREF(found);
    return made;
}

/* "module.name", which the type keeps a pointer to in 3.10: never freed. */
static char *full_name(PyObject *base)
{
    PyObject *const module = text(base, "__module__"), *const name = text(base, "__qualname__");
    const char *const before = module ? PyBytes_AsString(module) : NULL, *const after = name ? PyBytes_AsString(name) : NULL;
    char *const made = before && after ? PyMem_Malloc(strlen(before) + strlen(after) + 2) : NULL;
    if (made) {
        strcpy(made, before);
        strcat(made, ".");
        strcat(made, after);
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    if (!made && !PyErr_Occurred())
        PyErr_NoMemory();
    return made;
}

PyObject *hot_direct(PyObject *base, const struct hot_direct *d)
{
    PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, d->offset, READONLY, NULL},
        {NULL, 0, 0, 0, NULL},
    };
    PyType_Slot slots[] = {
        {Py_tp_new, d->make},
        {Py_tp_call, d->call}, /* a type with the flag has to have one of its own */
        {Py_tp_members, members},
        {d->methods ? Py_tp_methods : 0, d->methods},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = full_name(base),
        .basicsize = d->basicsize,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | HOT_HAVE_VECTORCALL,
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
