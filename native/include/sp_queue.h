/* The interface of queues that all backends share.
 *
 * The epoch of a device advances when a buffer or kernel is closed. A caller reads the epoch, packs
 * a record, then submits both. If an object was closed in between, the record may name memory that
 * is about to be freed. Nothing runs then: -ESTALE tells the caller to pack again.
 *
 * A closer marks the object closed, advances the epoch, then asks each queue for the value at which
 * it is settled. Either the launch sees the new epoch, or the closer sees the launch's value.
 * UINT64_MAX stands for any epoch: the records name nothing that a caller could close meanwhile. */
#ifndef SP_QUEUE_H
#define SP_QUEUE_H
#include "sp_base.h"

enum sp_queue_flags { SP_QUEUE_TIMING = 1 };

/* A backend's functions. Each queue begins with a pointer to them, so that C code can call the
 * right backend. Python knows them by their own names, such as sp_cpu_launch. */
struct sp_prepared;
struct sp_functions {
    int64_t (*launch)(void *queue, const void *record, size_t nbytes, uint64_t epoch);
    /* As launch, for a dispatch record that differs only in addresses from one that `check`
     * accepted. NULL: use launch. */
    int64_t (*again)(void *queue, const void *record, size_t nbytes, uint64_t epoch);
    int64_t (*submit)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    int64_t (*run)(struct sp_prepared *p);
    /* Submits records again that the queue has had before. Returns the value; 0: nothing was done.
     * Never blocks, because the caller holds the GIL. NULL: not supported. */
    int64_t (*resend)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    uint64_t (*submitted)(const void *queue);
    uint64_t (*reached)(void *queue);
    int (*wait)(void *queue, uint64_t value, uint64_t timeout_ns);
    /* Checks a dispatch record: the error of a launch, or >= 0, which a prepared launch keeps as
     * its hint. Call it with the queue's lock. */
    int (*check)(const void *queue, const void *record, size_t nbytes);
    /* Drops one reference; the last one frees the queue. Call it without the lock. */
    void (*unref)(void *queue);
    /* `submitted`, `reached` and a `wait` without timeout may be called with the GIL held: they
     * wait for no thread that could need it. Releasing the GIL costs 30 ns, a third of a prepared
     * launch. 0 for a driver that has locks of its own. */
    int brief;
};
struct sp_handle {
    const struct sp_functions *functions;
};

/* `device` and `queue` belong to any backend: a struct sp_cpu and a struct sp_cpu_queue, for
 * example. */
uint64_t sp_device_epoch(const void *device);
/* Advances the epoch and returns the new one. */
uint64_t sp_device_advance(void *device);

/* The newest submitted value; never blocks. */
uint64_t sp_queue_submitted(const void *queue);
/* As sp_queue_submitted, once no launch is between its check of the epoch and its value. */
uint64_t sp_queue_settled(void *queue);
/* Start and end of a submission on a timing queue. 0. -ENOENT: not kept (any more), or not a timing
 * queue. -ECHILD. */
int sp_queue_times(void *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
/* The error with which `value`, which has been reached, ended: 0 or -errno; -ECHILD. Does not mark
 * the error as reported. */
int sp_queue_failure(void *queue, uint64_t value);
/* Releases the handle; in a forked child nothing happens. */
void sp_queue_release(void *queue);

/* The arguments of `submit`. */
struct sp_submission {
    void *queue;
    const void *records;
    size_t nbytes;
    uint64_t epoch;
};

/* A checked copy of a dispatch record that can be launched again without checks. It keeps its queue
 * alive and begins with a struct sp_submission. */
/* 0, the error that a launch of the record would return, or -ENOMEM. */
int sp_prepare(void *queue, const void *record, size_t nbytes, uint64_t epoch, struct sp_prepared **out);
void sp_unprepare(struct sp_prepared *p);

#endif
