/* Keeps the objects that a launch uses alive until the launch has ended. */
#ifndef SP_HOT_KEEP_ALIVE_H
#define SP_HOT_KEEP_ALIVE_H
#include "objects.h"

/* Keeps `used`, the objects of an unfinished launch (NULL for none), until the queue has reached
 * `value`. Python cannot raise KeyboardInterrupt before they are kept. Sets no exception. */
void hot_keep_alive(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n);
/* Keeps `used` as hot_keep_alive does, then waits for `value`, for Queue.timeout_s at most. Returns
 * 0, or -1 with an exception; the objects are kept even then. */
int hot_wait_for(const struct hot_queue *q, int64_t value, PyObject *const *used, Py_ssize_t n);
#endif
