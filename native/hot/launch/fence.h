/* Fences: made by launches, waited for without a line of Python. */
#ifndef SP_HOT_FENCE_H
#define SP_HOT_FENCE_H
#include "objects.h"

extern PyTypeObject *hot_fence_type;
/* A new fence of this value; NULL with an exception. */
PyObject *hot_fence_of(const struct hot_queue *q, int64_t value);
/* Makes the type: 0, or -1 with an exception. */
int hot_fences(PyObject *module);
#endif
