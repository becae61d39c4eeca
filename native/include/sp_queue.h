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

/* A backend's functions. Each queue begins with a pointer to them: whoever has one in C calls what belongs to it. Python has the
 * functions under their own names, sp_cpu_launch for example. */
struct sp_prepared;
struct sp_functions {
    int64_t (*launch)(void *queue, const void *record, size_t nbytes, uint64_t epoch);
    /* As launch, for a dispatch record that differs in addresses alone from one that `check` has taken; NULL: by launch. */
    int64_t (*again)(void *queue, const void *record, size_t nbytes, uint64_t epoch);
    int64_t (*submit)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    int64_t (*run)(struct sp_prepared *p);
    /* Records that the queue has had before, once more: the value, or 0 and nothing was done. It waits for nobody, and Python's
     * lock is held meanwhile. NULL: there is none. */
    int64_t (*resend)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    uint64_t (*submitted)(const void *queue);
    uint64_t (*reached)(void *queue);
    int (*wait)(void *queue, uint64_t value, uint64_t timeout_ns);
    /* Would this dispatch record be taken? The error of a launch, or what a prepared one remembers as its hint, >= 0.
     * Called with the queue's lock. */
    int (*check)(const void *queue, const void *record, size_t nbytes);
    /* One holder less; the last one frees the queue. Called without the lock. */
    void (*unref)(void *queue);
    /* `submitted`, `reached` and a `wait` of no time wait for nobody who could want Python's lock: they are called with it. To
     * give it up and take it again costs 30 ns, a third of a prepared launch. A driver has locks of its own. */
    int brief;
};
struct sp_handle {
    const struct sp_functions *functions;
};

/* `device` and `queue` are those of any backend: a struct sp_cpu and a struct sp_cpu_queue, for example. */
uint64_t sp_device_epoch(const void *device);
/* One more: the epoch from now on. */
uint64_t sp_device_advance(void *device);

/* The newest value; never blocks. */
uint64_t sp_queue_submitted(const void *queue);
/* The same, when no launch is between its look at the epoch and its value. */
uint64_t sp_queue_settled(void *queue);
/* Start and end of a submission on a timing queue. 0; -ENOENT: not kept (any more), or not a timing queue; -ECHILD. */
int sp_queue_times(void *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
/* What the wait for `value`, which has been reached, would say of how it ended; with that nobody counts as told of it. 0 or
 * -errno; -ECHILD. */
int sp_queue_failure(void *queue, uint64_t value);
/* The handle goes; in a forked child nothing happens. */
void sp_queue_release(void *queue);

/* The arguments of `submit`. */
struct sp_submission {
    void *queue;
    const void *records;
    size_t nbytes;
    uint64_t epoch;
};

/* A checked copy of a dispatch record that can be launched again without checks; keeps its queue alive. Begins with a struct
 * sp_submission. */
/* 0, the error that a launch of the record would return, or -ENOMEM. */
int sp_prepare(void *queue, const void *record, size_t nbytes, uint64_t epoch, struct sp_prepared **out);
void sp_unprepare(struct sp_prepared *p);

#endif
