/* numpy arrays for results, in memory that blocks.c uses again.
 *
 * A program may choose the allocator of numpy's arrays: PyDataMem_SetHandler of NEP 49, from numpy
 * 1.22 on. An array of another allocator still owns its data. It is resized, pickled, traced and
 * exported like any other. When the array's last reference goes, numpy returns its block to
 * blocks.c.
 *
 * This file includes no headers of numpy. It finds numpy's functions by their index in numpy's
 * table, since these indexes are part of numpy's ABI. It sets our handler while one array is made,
 * so that the program's other arrays keep their allocator. If the program has set a handler of its
 * own, results use that one. */
#include "result.h"
#include "blocks.h"

#include <string.h>

/* The layout of PyDataMem_Handler in numpy/ndarraytypes.h. */
struct handler {
    char name[127];
    uint8_t version;
    struct hot_allocator allocator;
};

/* Indexes of functions in numpy's table (numpy/__multiarray_api.h). */
enum { VERSION = 0, NDARRAY = 2, SET_HANDLER = 304, DEFAULT_HANDLER = 306 };
/* The values of NPY_ABI_VERSION (numpy/numpyconfig.h) in numpy 1 and 2. The function at index
 * VERSION of numpy's table returns the value of the imported numpy. */
enum { NUMPY_1 = 0x01000009, NUMPY_2 = 0x02000000 };

PyTypeObject *hot_ndarray_type;
/* numpy's table of C functions; NULL: numpy is not imported yet, or its ABI is unknown */
static void *const *numpy_api;

/* a PyCapsule with this file's handler (allocator), which gets its memory from blocks.c */
static PyObject *capsule;

/* Sets numpy's memory handler, the allocator of new arrays. Returns the previous handler, or NULL
 * with an exception. */
static PyObject *set_handler(PyObject *handler)
{
    PyObject *(*set)(PyObject *);
    memcpy(&set, &numpy_api[SET_HANDLER], sizeof set);
    return set(handler);
}

PyObject *hot_result(PyObject *empty, PyObject *shape, PyObject *dtype, size_t nbytes)
{
    if (nbytes < HOT_RECYCLED_FROM || !numpy_api)
        return PyObject_CallFunctionObjArgs(empty, shape, dtype, NULL);
    PyObject *const usual = set_handler(capsule);
    if (!usual)
        return NULL;
    if (usual != *(PyObject **)numpy_api[DEFAULT_HANDLER])
        Py_XDECREF(set_handler(usual));
    PyObject *made = PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(empty, shape, dtype, NULL);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *const ours = set_handler(usual);
    Py_DECREF(usual);
    if (!ours)
        Py_CLEAR(made);
    Py_XDECREF(ours);
    if (type)
        PyErr_Restore(type, value, trace);
    return made;
}

/* result(empty, shape, dtype, nbytes): returns empty(shape, dtype), an array of `nbytes` bytes. */
static PyObject *result(PyObject *module, PyObject *given)
{
    (void)module;
    PyObject *empty, *shape, *dtype;
    Py_ssize_t nbytes;
    if (!PyArg_ParseTuple(given, "OOOn", &empty, &shape, &dtype, &nbytes))
        return NULL;
    return hot_result(empty, shape, dtype, (size_t)nbytes);
}

/* know_numpy(numpy's table of C functions): returns False if this numpy has another ABI. Otherwise
 * returns True; from then on arrays are read as struct hot_ndarray, and large results have memory
 * of blocks.c. */
static PyObject *know_numpy(PyObject *module, PyObject *table)
{
    (void)module;
    void *const *const api = PyCapsule_GetPointer(table, NULL);
    if (!api)
        return NULL;
    unsigned int (*version)(void);
    memcpy(&version, &api[VERSION], sizeof version);
    const unsigned int seen = version();
    const int known = seen == NUMPY_1 || seen == NUMPY_2;
    if (known) {
        numpy_api = api;
        hot_ndarray_type = api[NDARRAY];
    }
    return PyBool_FromLong(known);
}

static PyObject *limit_blocks(PyObject *module, PyObject *given)
{
    (void)module;
    Py_ssize_t nbytes;
    int first;
    if (!PyArg_ParseTuple(given, "np", &nbytes, &first))
        return NULL;
    hot_blocks_limit((size_t)nbytes, first);
    Py_RETURN_NONE;
}

static PyObject *release_blocks(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    hot_blocks_release();
    Py_RETURN_NONE;
}

static PyObject *blocks(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    size_t idle, limit;
    hot_blocks_tell(&idle, &limit);
    return Py_BuildValue("KK", (unsigned long long)idle, (unsigned long long)limit);
}

static PyMethodDef functions[] = {
    {"know_numpy", know_numpy, METH_O, "know_numpy(table): is this a numpy whose arrays C reads? If so, it does from now on."},
    {"result", result, METH_VARARGS, "result(empty, shape, dtype, nbytes): empty(shape, dtype), which takes so many bytes."},
    {"limit_blocks", limit_blocks, METH_VARARGS,
     "limit_blocks(nbytes, first): idle blocks are at most that many bytes; `first`: unless a limit was set before."},
    {"release_blocks", release_blocks, METH_NOARGS, "release_blocks(): the idle ones go."},
    {"blocks", blocks, METH_NOARGS, "blocks(): (bytes of the idle ones, the limit)."},
    {NULL, NULL, 0, NULL},
};

int hot_numpy(PyObject *module)
{
    static struct handler handler = {.name = "sparkle_drv", .version = 1};
    handler.allocator = hot_blocks;
    capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    return capsule ? PyModule_AddFunctions(module, functions) : -1;
}
