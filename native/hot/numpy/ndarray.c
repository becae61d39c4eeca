/* What numpy's arrays look like, told by Python: see ndarray.h. */
#include "ndarray.h"

PyTypeObject *hot_ndarray_type;
PyObject *hot_float_dtypes[2];

static PyObject *extents(const Py_ssize_t *from, int n)
{
    PyObject *const made = PyTuple_New(n);
    for (int i = 0; made && i < n; i++) {
        PyObject *const number = PyLong_FromSsize_t(from[i]);
        if (!number || PyTuple_SetItem(made, i, number)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

/* array_fields(array): (address, shape, strides, dtype, flags) as struct hot_ndarray has them, to be compared. */
static PyObject *array_fields(PyObject *module, PyObject *array)
{
    (void)module;
    const struct hot_ndarray *const a = (const void *)array;
    if (a->ndim < 0 || a->ndim > 64) /* NPY_MAXDIMS of numpy 2; anything else is another layout */
        return PyErr_Format(PyExc_ValueError, "array_fields: %d dimensions cannot be", a->ndim), NULL;
    PyObject *const shape = extents(a->shape, a->ndim), *const strides = extents(a->strides, a->ndim);
    PyObject *const made = shape && strides ? Py_BuildValue("KOOOi", (unsigned long long)(uintptr_t)a->data, shape, strides,
                                                            a->dtype, a->flags)
                                            : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(strides);
    return made;
}

/* know_arrays(type, float32, float64): from now on arrays of this class are read as struct hot_ndarray; None: no longer. */
static PyObject *know_arrays(PyObject *module, PyObject *given)
{
    PyObject *type, *single, *dbl;
    (void)module;
    if (!PyArg_ParseTuple(given, "OOO", &type, &single, &dbl))
        return NULL;
    if (type != Py_None && !PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "know_arrays: a class is wanted"), NULL;
    Py_INCREF(type); /* all three for ever, as numpy itself */
    Py_INCREF(single);
    Py_INCREF(dbl);
    hot_ndarray_type = type == Py_None ? NULL : (PyTypeObject *)type;
    hot_float_dtypes[0] = single;
    hot_float_dtypes[1] = dbl;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"array_fields", array_fields, METH_O, "array_fields(array): its head as C sees it."},
    {"know_arrays", know_arrays, METH_VARARGS,
     "know_arrays(type, float32, float64): arrays of this class and dtypes are read by C; None: none are."},
    {NULL, NULL, 0, NULL},
};

int hot_arrays(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
