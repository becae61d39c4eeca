/* What is known of the numpy of this process: see ndarray.h. */
#include "ndarray.h"

#include <string.h>

PyTypeObject *hot_ndarray_type;
PyObject *hot_float_dtypes[2];
void *const *hot_numpy_api;

/* What numpy's first function returns, by the major version: numpy/_core/include/numpy/numpyconfig.h, NPY_VERSION. */
enum { NUMPY_1 = 0x01000009, NUMPY_2 = 0x02000000 };

/* know_numpy(table, ndarray, float32, float64): numpy's table of C functions, its class and two dtypes. True: from now on such
 * arrays are read as struct hot_ndarray; False: this numpy has another ABI. */
static PyObject *know_numpy(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *table, *type, *single, *dbl;
    if (!PyArg_ParseTuple(given, "OOOO", &table, &type, &single, &dbl))
        return NULL;
    void *const *const api = PyCapsule_GetPointer(table, NULL);
    if (!api)
        return NULL;
    unsigned int (*version)(void);
    memcpy(&version, &api[0], sizeof version);
    const unsigned int seen = version();
    if (seen != NUMPY_1 && seen != NUMPY_2)
        Py_RETURN_FALSE;
    Py_INCREF(type); /* all three for ever, as numpy itself */
    Py_INCREF(single);
    Py_INCREF(dbl);
    hot_float_dtypes[0] = single;
    hot_float_dtypes[1] = dbl;
    hot_numpy_api = api;
    hot_ndarray_type = (PyTypeObject *)type;
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"know_numpy", know_numpy, METH_VARARGS,
     "know_numpy(table, ndarray, float32, float64): is this a numpy whose arrays C reads? If so, it does from now on."},
    {NULL, NULL, 0, NULL},
};

int hot_arrays(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
