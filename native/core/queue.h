/* The part of a queue that all backends share: checks before a submission, timeline values, errors
 * of ended submissions.
 *
 * A backend's queue begins with a struct sp_queue, so that a pointer to the one is a pointer to the
 * other. The functions that a launch calls are inline. "The lock" is always `*lock`: the queue's
 * own lock, or one lock that all queues of a device share. */
#ifndef SP_CORE_QUEUE_H
#define SP_CORE_QUEUE_H
#include "include/sp_queue.h"
#include "base.h"
#include "device.h"
#include "ledger.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

struct sp_queue {
    const struct sp_functions *functions; /* must be the first member: see struct sp_handle */
    pthread_mutex_t *lock;
    const struct sp_device *device;
    _Atomic int closing;        /* 1: the queue refuses new work; written with the lock held */
    /* timeline value of the newest submission; written with the lock held */
    _Atomic uint64_t submitted;
    /* the queue's own lock; unused if the device has one lock for all queues */
    pthread_mutex_t own;
    /* number of references: the handle, prepared launches, and other holders in the backend */
    _Atomic uint32_t refs;
    /* 1 when the backend has freed what a closed queue does not need; guarded by the lock */
    int closed;
    struct sp_ledger ledger; /* guarded by the lock */
};

/* Initialises a queue and gives it one reference. Before the call, all of `q` is 0 except
 * `functions`, `device`, and `lock` (NULL: the queue uses its own lock). Returns 0; -ECHILD for a
 * device of another process; -EINVAL for unknown flags; -ENODEV for a lost device; -ENOMEM. */
int sp_queue_init(struct sp_queue *q, uint32_t flags);
/* Destroys the part of a queue that all backends share (struct sp_queue). Call it after the last
 * reference is dropped, before the memory is freed. */
void sp_queue_fini(struct sp_queue *q);

static inline int sp_queue_usable(const struct sp_queue *q)
{
    return sp_device_usable(q->device);
}

/* Returns the value of the newest submission, as sp_queue_submitted does, but inline. */
static inline uint64_t sp_queue_newest(const struct sp_queue *q)
{
    return atomic_load(&q->submitted);
}

/* Checks, with the lock held, whether records packed in `epoch` may be used. Returns 0 or an error
 * of sp_queue_enter. If it returns an error, it has released the lock. */
static inline int sp_queue_look(struct sp_queue *q, uint64_t epoch)
{
    int rc = 0;
    if (atomic_load_explicit(&q->closing, memory_order_relaxed))
        rc = -ESHUTDOWN;
    else if (atomic_load_explicit(&q->device->lost, memory_order_relaxed))
        rc = -ENODEV;
    else if (epoch != SP_ANY_EPOCH && atomic_load(&q->device->epoch) != epoch)
        rc = -ESTALE; /* fault: epoch */
    if (rc)
        pthread_mutex_unlock(q->lock);
    return rc;
}

/* Takes the lock and checks whether records packed in `epoch` may be used. Returns 0 with the lock
 * held, or -ECHILD, -ESHUTDOWN, -ENODEV or -ESTALE with the lock released.
 *
 * Whoever closes an object advances the epoch, then takes the same lock (sp_queue_settled). A
 * launch that held the lock earlier has taken its value by then, so the closer sees that value. A
 * launch that takes the lock later sees the new epoch. */
static inline int sp_queue_enter(struct sp_queue *q, uint64_t epoch)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    pthread_mutex_lock(q->lock);
    return sp_queue_look(q, epoch);
}

/* Does what sp_queue_enter does, but does not wait for the lock: returns -EBUSY if it is held. */
static inline int sp_queue_try(struct sp_queue *q, uint64_t epoch)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    return pthread_mutex_trylock(q->lock) ? -EBUSY : sp_queue_look(q, epoch);
}

/* Releases the lock and returns `rc`. */
static inline int64_t sp_queue_leave(struct sp_queue *q, int64_t rc)
{
    pthread_mutex_unlock(q->lock);
    return rc;
}

/* Takes the next value and publishes it as submitted. Call it after sp_queue_enter. */
static inline uint64_t sp_queue_take_value(struct sp_queue *q)
{
    uint64_t value = atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1;
    atomic_store_explicit(&q->submitted, value, memory_order_release);
    return value;
}

/* Checks that `value` may be waited for. Returns 0; -ECHILD in a forked child; -EINVAL if the value
 * was never submitted. */
int sp_queue_may_wait(const struct sp_queue *q, uint64_t value);
/* Returns the error of the submission of `value`, which the timeline has reached, or 0. */
int sp_queue_outcome(struct sp_queue *q, uint64_t value);
/* Records that the submission of `value` ended with `rc`. The caller does not hold the lock. */
void sp_queue_note(struct sp_queue *q, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc);
/* Makes the queue refuse new work from now on. Returns 0 or -ECHILD. */
int sp_queue_shut(struct sp_queue *q);

struct sp_prepared {
    struct sp_submission s; /* its `records` point to the member `record` */
    int hint;               /* what the backend's function `check` returned for the record */
    _Alignas(16) unsigned char record[];
};
#endif
