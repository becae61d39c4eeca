/* Fences: launches make them; waiting for an ended launch runs no line of Python. */
#ifndef SP_HOT_FENCE_H
#define SP_HOT_FENCE_H
#include "objects.h"

extern PyTypeObject *hot_fence_type;
/* Returns a new fence of this timeline value, or NULL with an exception. */
PyObject *hot_fence_of(const struct hot_queue *q, int64_t value);
/* Makes the type of fences. Returns 0, or -1 with an exception. */
int hot_fences(PyObject *module);
#endif
