/* What a launch uses lives until it has run. */
#ifndef SP_HOT_HOLD_H
#define SP_HOT_HOLD_H
#include "objects.h"

/* What a launch uses that has not ended, NULL for nothing: it lives until the queue has reached `value`. Nothing comes between
 * in which an interrupt could be raised, and no exception is set. */
void hot_hold(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n);
/* The same, then waits for `value`, for as long as Queue.timeout_s says: 0, or -1 with an exception. What is used outlives both. */
int hot_wait_for(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n);
#endif
