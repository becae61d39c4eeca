/* The interface of queues that all backends share.
 *
 * Each device has an epoch, which advances when a buffer or kernel is closed. A caller reads the
 * epoch, packs a record, then submits both. If an object was closed in between, the record may name
 * memory that is about to be freed. The submission then returns -ESTALE and runs nothing, and the
 * caller packs again.
 *
 * Code that closes an object marks it closed, advances the epoch, then calls sp_queue_settled for
 * each queue. So either the launch sees the new epoch, or the closing code sees the launch's value.
 * UINT64_MAX stands for any epoch: the records name nothing that could be closed meanwhile. */
#ifndef SP_QUEUE_H
#define SP_QUEUE_H
#include "sp_base.h"

enum sp_queue_flags { SP_QUEUE_TIMING = 1 };

/* struct sp_functions: the functions of one backend. Each queue begins with a pointer to its
 * backend's struct, through which C code calls them. Python calls the functions by their own names,
 * such as sp_cpu_launch. */
struct sp_prepared;
struct sp_functions {
    int64_t (*launch)(void *queue, const void *record, size_t nbytes, uint64_t epoch);
    /* Launches a dispatch record that differs only in addresses from a record that the function
     * `check` below accepted. NULL: callers use `launch`. */
    int64_t (*again)(void *queue, const void *record, size_t nbytes, uint64_t epoch);
    int64_t (*submit)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    int64_t (*run)(struct sp_prepared *p);
    /* Submits records that were submitted to this queue before. Returns the new timeline value, or
     * 0 if it submitted nothing. Never blocks, because the caller holds the GIL. NULL: the backend
     * does not support this. */
    int64_t (*resend)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    uint64_t (*submitted)(const void *queue);
    uint64_t (*reached)(void *queue);
    int (*wait)(void *queue, uint64_t value, uint64_t timeout_ns);
    /* Checks a dispatch record. Returns the error that a launch would return. Otherwise returns a
     * number >= 0 of the backend's own; a prepared launch keeps it for `run`. The caller holds the
     * queue's lock. */
    int (*check)(const void *queue, const void *record, size_t nbytes);
    /* Drops one reference; the last one frees the queue. The caller must not hold the queue's
     * lock. */
    void (*unref)(void *queue);
    /* 1: callers may keep the GIL during `submitted`, `reached`, and `wait` with a timeout of 0.
     * These functions then wait for no thread that could need the GIL. Releasing the GIL would cost
     * 30 ns, a third of a prepared launch. 0: callers release the GIL, because the driver has locks
     * of its own. */
    int brief;
};
struct sp_handle {
    const struct sp_functions *functions;
};

/* Returns the epoch of a device. In all functions of this header, `device` or `queue` may be of any
 * backend, such as a struct sp_cpu and a struct sp_cpu_queue. */
uint64_t sp_device_epoch(const void *device);
/* Advances the epoch and returns the new epoch. */
uint64_t sp_device_advance(void *device);

/* Returns the newest submitted timeline value. Never blocks. */
uint64_t sp_queue_submitted(const void *queue);
/* Waits until no launch on this queue is between its check of the epoch and its submission. Then
 * returns the newest submitted timeline value. */
uint64_t sp_queue_settled(void *queue);
/* Gives start and end of a submission on a timing queue (SP_QUEUE_TIMING). Returns 0; -ECHILD in a
 * forked child; -ENOENT if the times were never recorded or are no longer kept. */
int sp_queue_times(void *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
/* Returns the error with which the reached `value` ended: 0 or -errno. Returns -ECHILD in a forked
 * child. Does not mark the error as reported. */
int sp_queue_failure(void *queue, uint64_t value);
/* Releases the queue's handle. In a forked child it does nothing. */
void sp_queue_release(void *queue);

/* The arguments of a backend's `submit` (struct sp_functions). */
struct sp_submission {
    void *queue;
    const void *records;
    size_t nbytes;
    uint64_t epoch;
};

/* Makes a checked copy of a dispatch record that can be launched again without checks. The copy
 * keeps its queue alive and begins with a struct sp_submission. Returns 0, the error that a launch
 * of the record would return, or -ENOMEM. */
int sp_prepare(void *queue, const void *record, size_t nbytes, uint64_t epoch, struct sp_prepared **out);
void sp_unprepare(struct sp_prepared *p);

#endif
