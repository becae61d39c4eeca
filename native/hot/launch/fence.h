/* Fences: made by launches, waited for without a line of Python. */
#ifndef SP_HOT_FENCE_H
#define SP_HOT_FENCE_H
#include "objects.h"

extern PyTypeObject *hot_fence_type;
/* A fence of this value. Inline: every launch ends with it. */
static inline PyObject *hot_fence_of(const struct hot_queue *q, int64_t value)
{
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)q->fence, 0);
    if (made) {
        struct hot_fence *f = (void *)made;
        f->queue = (PyObject *)(uintptr_t)q;
        Py_INCREF(f->queue);
        f->value = (unsigned long long)value;
    }
    return made;
}
/* Makes the type: 0, or -1 with an exception. */
int hot_fences(PyObject *module);
#endif
