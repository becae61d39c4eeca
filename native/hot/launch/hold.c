/* What a launch uses lives until it has run, whatever becomes of the call that made it.
 *
 * A wait for a launch can end before the launch does: by Ctrl-C, or when it takes too long. Python raises an interrupt between any
 * two of its instructions, so that to hold things comes before the first of them. Here that is to append to the deque of
 * core/retire.py, by functions that are C themselves. */
#include "hold.h"
#include "fence.h"

static PyObject *slowly_word;

/* An entry as RetireList.hold makes it; NULL with an exception. */
static PyObject *entry(PyObject *backend, PyObject *handle, int64_t value, PyObject *const *used, Py_ssize_t n)
{
    PyObject *const kept = PyTuple_New(n);
    for (Py_ssize_t i = 0; kept && i < n; i++) {
        PyObject *const one = used[i] ? used[i] : Py_None;
        Py_INCREF(one);
        PyTuple_SetItem(kept, i, one); /* of a new tuple, in its bounds: that does not fail */
    }
    return kept ? Py_BuildValue("N[(OOL)]", kept, backend, handle, (long long)value) : NULL;
}

void hot_hold(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n)
{
    PyObject *const made = entry(q->keeping[1], q->keeping[2], value, used, n);
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
    PyObject *const waited = fence ? PyObject_CallMethodObjArgs(fence, slowly_word, NULL) : NULL;
    Py_XDECREF(waited);
    Py_XDECREF(fence);
    return waited ? 0 : -1;
}

int hot_holding(void)
{
    slowly_word = PyUnicode_InternFromString("_wait_slowly");
    return slowly_word ? 0 : -1;
}
