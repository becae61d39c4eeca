/* Launches. */
#ifndef SP_HOT_LAUNCH_H
#define SP_HOT_LAUNCH_H
#include "objects.h"

/* Launches, and waits for a moment: a value, and in `*rc` what the wait returned; 0 or less: it was refused. The caller keeps
 * the queue and what the record names. */
int64_t hot_launch_and_wait(const struct hot_queue *q, const void *record, size_t nbytes, uint64_t epoch, int *rc);
/* Make the types of launch.c and prepared.c: 0, or -1 with an exception. */
int hot_launch(PyObject *module);
int hot_prepared(PyObject *module);
#endif
