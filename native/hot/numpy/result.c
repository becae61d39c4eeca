/* numpy arrays for results whose memory is used again (blocks.c). numpy lets others say where the data of its arrays come from
 * (NEP 49, PyDataMem_SetHandler, from numpy 1.22 on): such an array owns its data and says so, is resized, pickled, traced and
 * exported as any other, and gives the block back when it goes, whoever holds it last.
 *
 * numpy's functions are found in its table, by the places that are part of its ABI; there are no headers of numpy here. The
 * handler is set for the making of one array alone: whatever else a program makes is none of ours, and where it has set a
 * handler of its own, that one is used. */
#include "result.h"
#include "blocks.h"

#include <string.h>

/* PyDataMem_Handler of numpy/ndarraytypes.h. */
struct handler {
    char name[127];
    uint8_t version;
    struct {
        void *given;
        void *(*malloc)(void *given, size_t nbytes);
        void *(*calloc)(void *given, size_t count, size_t nbytes);
        void *(*realloc)(void *given, void *data, size_t nbytes);
        void (*free)(void *given, void *data, size_t nbytes);
    } allocator;
};

/* Places in numpy's table: numpy/__multiarray_api.h. */
enum { VERSION = 0, SET_HANDLER = 304, DEFAULT_HANDLER = 306 };
enum { NUMPY_1 = 0x01000009, NUMPY_2 = 0x02000000 };

static PyObject *capsule; /* of the handler below; NULL: numpy is not known, and results come from where its arrays do */
static PyObject *(*set_handler)(PyObject *capsule);
static PyObject **default_handler;

static void *ask(void *given, size_t nbytes)
{
    (void)given;
    return hot_block(nbytes);
}

static void *ask_zeroed(void *given, size_t count, size_t nbytes)
{
    (void)given;
    return nbytes && count > SIZE_MAX / nbytes ? NULL : hot_block_zeroed(count * nbytes);
}

static void *ask_resized(void *given, void *data, size_t nbytes)
{
    (void)given;
    return hot_block_resized(data, nbytes);
}

static void give_back(void *given, void *data, size_t nbytes)
{
    (void)given;
    (void)nbytes; /* the block knows */
    hot_block_back(data);
}

PyObject *hot_result(PyObject *empty, PyObject *shape, PyObject *dtype, size_t nbytes)
{
    if (nbytes < HOT_RECYCLED_FROM || !capsule)
        return PyObject_CallFunctionObjArgs(empty, shape, dtype, NULL);
    PyObject *const usual = set_handler(capsule);
    if (!usual)
        return NULL;
    int well = 1;
    if (usual != *default_handler) {
        PyObject *const ours = set_handler(usual);
        well = ours != NULL;
        Py_XDECREF(ours);
    }
    PyObject *made = well ? PyObject_CallFunctionObjArgs(empty, shape, dtype, NULL) : NULL;
    PyObject *type = NULL, *value = NULL, *trace = NULL;
    if (!made)
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

/* result(empty, shape, dtype, nbytes): empty(shape, dtype), which takes so many bytes. */
static PyObject *result(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    if (nargs != 4)
        return PyErr_Format(PyExc_TypeError, "result: four arguments are wanted"), NULL;
    const size_t nbytes = PyLong_AsSize_t(args[3]);
    return PyErr_Occurred() ? NULL : hot_result(args[0], args[1], args[2], nbytes);
}

/* know_memory(numpy's table): False: that numpy is not known. */
static PyObject *know_memory(PyObject *module, PyObject *table)
{
    static struct handler handler = {
        .name = "sparkle_drv", .version = 1, .allocator = {NULL, ask, ask_zeroed, ask_resized, give_back}};
    (void)module;
    void **const api = PyCapsule_GetPointer(table, NULL);
    if (!api)
        return NULL;
    unsigned int (*version)(void);
    memcpy(&version, &api[VERSION], sizeof version);
    const unsigned int seen = version();
    if (seen != NUMPY_1 && seen != NUMPY_2)
        Py_RETURN_FALSE;
    memcpy(&set_handler, &api[SET_HANDLER], sizeof set_handler);
    default_handler = api[DEFAULT_HANDLER];
    if (!capsule && !(capsule = PyCapsule_New(&handler, "mem_handler", NULL)))
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *limit_by(PyObject *given, int first)
{
    const size_t nbytes = PyLong_AsSize_t(given);
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    hot_blocks_limit(nbytes, first);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *limit_blocks(PyObject *module, PyObject *given)
{
    (void)module;
    return limit_by(given, 0);
}

static PyObject *begin_blocks(PyObject *module, PyObject *given)
{
    (void)module;
    return limit_by(given, 1);
}

static PyObject *most_blocks(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyLong_FromSize_t(hot_blocks_most());
}

static PyObject *release_blocks(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    Py_BEGIN_ALLOW_THREADS
    hot_blocks_release();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *idle_blocks(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyLong_FromSize_t(hot_blocks_idle());
}

static PyMethodDef functions[] = {
    {"result", (PyCFunction)(void (*)(void))result, METH_FASTCALL,
     "result(empty, shape, dtype, nbytes): empty(shape, dtype), which takes so many bytes."},
    {"know_memory", know_memory, METH_O, "know_memory(table): from now on large results are of blocks; False: none are."},
    {"limit_blocks", limit_blocks, METH_O, "limit_blocks(nbytes): idle blocks are at most that many bytes."},
    {"begin_blocks", begin_blocks, METH_O, "begin_blocks(nbytes): the same, unless a limit was set before."},
    {"most_blocks", most_blocks, METH_NOARGS, "most_blocks(): that limit."},
    {"release_blocks", release_blocks, METH_NOARGS, "release_blocks(): the idle ones go."},
    {"idle_blocks", idle_blocks, METH_NOARGS, "idle_blocks(): bytes of the idle ones."},
    {NULL, NULL, 0, NULL},
};

int hot_memory(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
