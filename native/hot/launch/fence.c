/* The class of fences. core/fence.py adds the methods that are written in Python. A class made in
 * Python would cost each launch 20 ns.
 *
 * The method `wait` of fences handles launches that have already ended without error, without a
 * line of Python. Most launches of the cpu device have ended when they return. core/fence.py
 * handles all other cases: the launch still runs or has failed, something waits to be freed, or the
 * timeout is no plain number. */
#include "fence.h"

#include <stddef.h>

enum { MOST_S = 10000000 }; /* seconds; core/fence.py handles longer timeouts */

PyTypeObject *hot_fence_type;

/* The memory of a freed fence, for the next fence. Without it a prepared call takes 5 ns more
 * (measured by benchmarks/against.py). Free-threaded Python does not use it, because threads would
 * need a lock for it. */
static PyObject *spare;

static PyObject *fence_of(PyObject *queue, unsigned long long value)
{
    PyObject *const made = spare ? PyObject_Init(spare, hot_fence_type) : PyType_GenericAlloc(hot_fence_type, 0);
    struct hot_fence *const f = (void *)made;
    if (!made)
        return NULL;
    f->queue = hot_itself(queue);
    f->value = value;
    if (made == spare) {
        spare = NULL;
        PyObject_GC_Track(made);
    }
    return made;
}

PyObject *hot_fence_of(const struct hot_queue *q, int64_t value)
{
    return fence_of((PyObject *)(uintptr_t)q, (unsigned long long)value);
}

static void dealloc(PyObject *self)
{
    PyTypeObject *const type = Py_TYPE(self);
    PyObject *const queue = ((struct hot_fence *)(void *)self)->queue;
    PyObject_GC_UnTrack(self);
#ifndef Py_GIL_DISABLED
    if (!spare)
        spare = self;
    else
#endif
        PyObject_GC_Del(self);
    /* after the fence is freed, because this may free objects whose destructors run other code */
    Py_XDECREF(queue);
    Py_DECREF(type);
}

/* Returns 1 for a timeout that Python would accept: a float or int of 0 to MOST_S seconds. */
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

/* Returns 1 if a wait for a fence of this queue must also free memory, or raise failures of other
 * submissions. Leaves no exception. */
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
    if (!hot_is(f->queue, &hot_queues))
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
        /* The GIL is released here, because a driver may hold a lock while it calls a Python
         * callback, which needs the GIL. */
        Py_BEGIN_ALLOW_THREADS
        well = call->reached(handle) >= value && call->wait(handle, value, 0) == 0;
        Py_END_ALLOW_THREADS
    }
    return well && !pending(q);
}

static PyObject *wait(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    const int by_name = nargs == 0 && nnames == 1 &&
                        PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "timeout_s") == 0;
    PyObject *const timeout = nargs + nnames ? args[0] : NULL;
    if (nargs + nnames > 1 || (nnames && !by_name)) {
        PyErr_SetString(PyExc_TypeError, "wait: timeout_s and nothing else is taken");
        return NULL;
    }
    if ((!timeout || plain_timeout(timeout)) && ended_well((const void *)self)) {
        Py_INCREF(self);
        return self;
    }
    return PyObject_CallMethod(self, "_wait_slowly", timeout ? "(O)" : NULL, timeout);
}

PyDoc_STRVAR(wait_text, "wait($self, /, timeout_s=...)\n--\n\n"
                        "Block until the fence is reached; returns the fence.\n\n"
                        "Without `timeout_s` the limit is the queue's, Queue.timeout_s: 30 s unless it was set.\n"
                        "Raises FenceTimeout with the submission decoded. Raises KernelFault when that submission failed,\n"
                        "or an earlier one, or one it waited for, whose failure was not told yet. Raises DeviceLost. Raises\n"
                        "TypeError or ValueError unless `timeout_s` is a finite time of 0 s or more.");

/* Fence(queue, value): makes a fence. */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    (void)type; /* the type has no subclasses */
    PyObject *queue, *number;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Fence: expected no keywords, got %zd", PyDict_Size(named)), NULL;
    if (!PyArg_ParseTuple(given, "OO:Fence", &queue, &number))
        return NULL;
    const unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred())
        return NULL;
    return fence_of(queue, value);
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
    .name = "sparkle_drv._hot.Fence",
    .size = sizeof(struct hot_fence),
    .references = 1,
    .is_fixed = 1,
    .make = make,
    .methods = fence_methods,
    .members = fence_members,
    .dealloc = dealloc,
};

int hot_fences(PyObject *module)
{
    hot_fence_type = hot_collected(module, &fence_frame);
    return hot_fence_type ? 0 : -1;
}
