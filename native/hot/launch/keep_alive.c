/* Keeps the objects that a launch uses alive until the launch has ended, even if the call that made
 * it ends earlier.
 *
 * A wait for a launch can end before the launch does: by Ctrl-C or a timeout. Python raises
 * KeyboardInterrupt between any two of its bytecode instructions. So the objects must be kept
 * before the next such instruction runs. This file adds the objects to the dict of
 * core/retire.py, and calls only functions that are written in C. */
#include "keep_alive.h"
#include "fence.h"

void hot_keep_alive(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n)
{
    /* `made` will be an entry of the device's retire list, in the form that RetireList.hold
     * makes */
    PyObject *const all = hot_tuple_of(used, n);
    PyObject *const made = all ? Py_BuildValue("N[(OOL)]", all, q->keeping[1], q->keeping[2], (long long)value) : NULL;
    PyObject *const key = made ? PyLong_FromVoidPtr(made) : NULL; /* id(made) */
    PyObject *const noted = key ? PyObject_CallFunctionObjArgs(q->keeping[0], key, made, NULL) : NULL;
    for (Py_ssize_t i = 0; !noted && i < n; i++)
        /* The retire list could not take the entry: out of memory. Leaking the objects is better
         * than freeing them while the launch uses them. */
        Py_XINCREF(used[i]);
    Py_XDECREF(made);
    Py_XDECREF(key);
    Py_XDECREF(noted);
    PyErr_Clear();
}

int hot_wait_for(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n)
{
    hot_keep_alive(q, value, used, n);
    PyObject *const fence = hot_fence_of(q, value);
    PyObject *const waited = fence ? PyObject_CallMethod(fence, "_wait_slowly", NULL) : NULL;
    Py_XDECREF(waited);
    Py_XDECREF(fence);
    return waited ? 0 : -1;
}
