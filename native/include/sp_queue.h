/* What queues of every backend have in common to those who use them.
 *
 * The epoch of a device grows whenever a buffer or kernel is closed. Whoever packs a record reads it first and hands it in
 * with the record; if something was closed in between, the record may name what is about to be freed: nothing runs, and
 * -ESTALE says to look again. Whoever closes marks the thing closed, advances the epoch, and only then asks each queue for
 * the value at which it is settled: either the launch sees the new epoch, or the closer sees the launch's value.
 * UINT64_MAX stands for any epoch: the records name nothing that a caller could close meanwhile. */
#ifndef SP_QUEUE_H
#define SP_QUEUE_H
#include "sp_base.h"

enum sp_queue_flags { SP_QUEUE_TIMING = 1 };

/* A checked copy of a dispatch record that can be launched again without checks; keeps its queue alive. */
struct sp_prepared;
void sp_unprepare(struct sp_prepared *p);

/* A backend's submit (sp_cpu_submit, ...) with its arguments: for callers to whom each argument costs as much as the call. */
struct sp_submission {
    int64_t (*submit)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    void *queue;
    const void *records;
    size_t nbytes;
    uint64_t epoch;
};
int64_t sp_resubmit(const struct sp_submission *s);
/* What the wait for `value`, which has been reached, on the queue of any backend would say of how it ended; with that nobody
 * counts as told of it. 0 or -errno; -ECHILD. */
int sp_queue_failure(void *queue, uint64_t value);
#endif
