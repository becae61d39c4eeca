/* What a launch uses lives until it has run, whatever becomes of the call that made it.
 *
 * A wait for a launch can end before the launch does: by Ctrl-C, or when it takes too long. Python raises an interrupt between any
 * two of its instructions, so that to hold things comes before the first of them. Here that is to append to the deque of
 * core/retire.py, by functions that are C themselves. */
#include "hold.h"
#include "fence.h"

void hot_hold(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n)
{
    PyObject *const all = hot_tuple_of(used, n); /* in an entry as RetireList.hold makes it */
    PyObject *const made = all ? Py_BuildValue("N[(OOL)]", all, q->keeping[1], q->keeping[2], (long long)value) : NULL;
    PyObject *const noted = made ? PyObject_CallFunctionObjArgs(q->keeping[0], made, NULL) : NULL;
    for (Py_ssize_t i = 0; !noted && i < n; i++)
        Py_XINCREF(used[i]); /* no memory for a note: better lost than freed under a launch */
    Py_XDECREF(made);
    Py_XDECREF(noted);
    PyErr_Clear();
}

int hot_wait_for(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n)
{
    hot_hold(q, value, used, n);
    PyObject *const fence = hot_fence_of(q, value);
    PyObject *const waited = fence ? PyObject_CallMethod(fence, "_wait_slowly", NULL) : NULL;
    Py_XDECREF(waited);
    Py_XDECREF(fence);
    return waited ? 0 : -1;
}
