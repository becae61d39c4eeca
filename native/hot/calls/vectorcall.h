/* Callables: of CPython's vectorcall protocol what the headers of 3.10's stable ABI leave out, and subclasses made with it. */
#ifndef SP_HOT_VECTORCALL_H
#define SP_HOT_VECTORCALL_H
#include "hot/launch/objects.h"

/* vectorcallfunc, Py_TPFLAGS_HAVE_VECTORCALL and PyVectorcall_NARGS: cpython/object.h, object.h and cpython/abstract.h of 3.10
 * and 3.11, where the flag is _Py_TPFLAGS_HAVE_VECTORCALL as well; part of the stable ABI from 3.12 on. */
typedef PyObject *hot_vectorcall(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names);
#define HOT_HAVE_VECTORCALL (1UL << 11)
static inline Py_ssize_t hot_nargs(size_t nargsf)
{
    return (Py_ssize_t)(nargsf & ~((size_t)1 << (8 * sizeof(size_t) - 1)));
}

/* What a subclass has of its own: where its objects have their hot_vectorcall, which `make` puts there. */
struct hot_direct {
    newfunc make;
    ternaryfunc call;
    PyMethodDef *methods; /* NULL: none */
    Py_ssize_t offset;
    int basicsize; /* 0: that of the base */
};
/* A subclass of the class `base`, with its name and documentation; NULL with an exception. */
PyObject *hot_direct(PyObject *base, const struct hot_direct *d);
#endif
