/* Fence.wait for what has ended well already, without a line of Python: most launches of the cpu device have when they return.
 * Whatever else (it still runs, it failed, something waits to be freed, a timeout that is no plain number) is left to
 * core/fence.py, which begins again. */
#include "fence.h"

#include <stddef.h>

enum { MOST_S = 10000000 }; /* a longer timeout is for Python to judge */

PyTypeObject *hot_fence_type;
static PyObject *slowly_word, *timeout_word;

/* Is it a timeout of which Python would not complain? */
static int plain_timeout(PyObject *given)
{
    if (!PyFloat_CheckExact(given) && !PyLong_CheckExact(given))
        return 0;
    const double seconds = PyFloat_AsDouble(given);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    return seconds >= 0 && seconds <= MOST_S;
}

/* Does something wait for a wait: memory to be freed, others' failures to be told? Never with an exception. */
static int pending(const struct hot_queue *q)
{
    Py_ssize_t some = 0;
    for (size_t i = 0; !some && i < sizeof q->pending / sizeof *q->pending; i++)
        some = PyObject_Size(q->pending[i]);
    if (some < 0)
        PyErr_Clear();
    return some != 0;
}

static int ended_well(const struct hot_fence *f)
{
    if (!hot_is_queue(f->queue))
        return 0;
    const struct hot_queue *const q = (const void *)f->queue;
    struct sp_handle *const handle = q->handle;
    const uint64_t value = f->value;
    if (!handle)
        return 0;
    const struct sp_functions *const call = handle->functions;
    int well;
    if (call->brief) {
        well = call->wait(handle, value, 0) == 0;
    } else {
        Py_BEGIN_ALLOW_THREADS /* a driver may hold a lock while it calls somebody's Python */
        well = call->reached(handle) >= value && call->wait(handle, value, 0) == 0;
        Py_END_ALLOW_THREADS
    }
    return well && !pending(q);
}

static PyObject *wait(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    const int by_name = nargs == 0 && nnames == 1 && PyTuple_GetItem(names, 0) == timeout_word;
    PyObject *const timeout = nargs + nnames ? args[0] : NULL;
    if (nargs + nnames > 1 || (nnames && !by_name)) {
        PyErr_SetString(PyExc_TypeError, "wait: timeout_s and nothing else is taken");
        return NULL;
    }
    if ((!timeout || plain_timeout(timeout)) && ended_well((const void *)self)) {
        Py_INCREF(self);
        return self;
    }
    return timeout ? PyObject_CallMethodObjArgs(self, slowly_word, timeout, NULL)
                   : PyObject_CallMethodObjArgs(self, slowly_word, NULL);
}

PyDoc_STRVAR(wait_text, "wait($self, /, timeout_s=...)\n--\n\n"
                        "Block until the fence is reached; returns the fence.\n\n"
                        "Without `timeout_s` the limit is the queue's, Queue.timeout_s: 30 s unless it was set.\n"
                        "Raises FenceTimeout with the submission decoded. Raises KernelFault when that submission failed,\n"
                        "or an earlier one, or one it waited for, whose failure was not told yet. Raises DeviceLost. Raises\n"
                        "TypeError or ValueError unless `timeout_s` is a finite time of 0 s or more.");

/* Fence(queue, value). */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *queue, *number;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Fence: expected no keywords, got %zd", PyDict_Size(named)), NULL;
    if (!PyArg_ParseTuple(given, "OO:Fence", &queue, &number))
        return NULL;
    const unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred())
        return NULL;
    struct hot_fence *const made = (void *)PyType_GenericAlloc(type, 0);
    if (made) {
        Py_INCREF(queue);
        made->queue = queue;
        made->value = value;
    }
    return (PyObject *)made;
}

static PyMethodDef fence_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))wait, METH_FASTCALL | METH_KEYWORDS, wait_text},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef fence_members[] = {
    {"queue", T_OBJECT, offsetof(struct hot_fence, queue), READONLY, NULL},
    {"value", T_ULONGLONG, offsetof(struct hot_fence, value), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct hot_frame fence_frame = {
    .name = "sparkle_drv._hot.FenceBase",
    .doc = "What core.Fence begins with.",
    .size = sizeof(struct hot_fence),
    .is_base = 1,
    .make = make,
    .methods = fence_methods,
    .members = fence_members,
    .traverse = hot_traverse_one,
    .clear = hot_clear_one,
    .dealloc = hot_dealloc_one,
};
_Static_assert(offsetof(struct hot_fence, queue) == offsetof(struct hot_storage, device), "the first field is the reference");

int hot_fences(PyObject *module)
{
    slowly_word = PyUnicode_InternFromString("_wait_slowly");
    timeout_word = PyUnicode_InternFromString("timeout_s");
    hot_fence_type = hot_collected(module, &fence_frame);
    return slowly_word && timeout_word && hot_fence_type ? 0 : -1;
}
