/* Calls that C leaves to Python. */
#ifndef SP_HOT_AGAIN_H
#define SP_HOT_AGAIN_H
#include "objects.h"

/* owner.name([first,] *args, **names), with arguments as METH_FASTCALL | METH_KEYWORDS has them; `first` NULL: without it; `name`
 * NULL: owner itself is called. */
PyObject *hot_call_again(PyObject *owner, PyObject *name, PyObject *first, PyObject *const *args, Py_ssize_t nargs, PyObject *names);
PyObject *hot_tuple_of(PyObject *const *items, Py_ssize_t n);
#endif
