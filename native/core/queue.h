/* The half of a queue that every backend has: who may enter, which values were given out, how they ended.
 *
 * A backend's queue begins with a struct sp_queue, so that a pointer to the one is a pointer to the other. What a launch
 * passes through is inline. Wherever the lock is said to be held, it is `*lock`: the queue's own, or one that all queues of
 * a device share. */
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
    const struct sp_functions *functions; /* first: see struct sp_handle */
    pthread_mutex_t *lock;
    const struct sp_device *device;
    _Atomic int closing;        /* takes no more work; written with the lock */
    _Atomic uint64_t submitted; /* the newest value; written with the lock */
    pthread_mutex_t own;        /* the lock, unless it is the device's */
    _Atomic uint32_t refs;      /* the handle, prepared launches, and whoever else the backend has */
    int closed;                 /* lock: the backend has taken down what a closed queue does without */
    struct sp_ledger ledger; /* lock */
};

/* `q` is zeroed but for functions, device, and lock if it is not to have its own; it gets one reference. 0; -ECHILD another
 * process's device, -EINVAL unknown flags, -ENODEV the device is lost, -ENOMEM. */
int sp_queue_init(struct sp_queue *q, uint32_t flags);
/* When the last reference has gone, before the memory is freed. */
void sp_queue_fini(struct sp_queue *q);

static inline int sp_queue_usable(const struct sp_queue *q)
{
    return sp_device_usable(q->device);
}

/* sp_queue_submitted, inline. */
static inline uint64_t sp_queue_newest(const struct sp_queue *q)
{
    return atomic_load(&q->submitted);
}

/* With the lock, which is given back unless records packed in `epoch` may be looked at: as sp_queue_enter. */
static inline int sp_queue_look(struct sp_queue *q, uint64_t epoch)
{
    int rc = 0;
    if (atomic_load_explicit(&q->closing, memory_order_relaxed))
        rc = -ESHUTDOWN;
    else if (atomic_load_explicit(&q->device->lost, memory_order_relaxed))
        rc = -ENODEV;
    else if (epoch != SP_ANY_EPOCH && atomic_load(&q->device->epoch) != epoch)
        rc = -ESTALE;
    if (rc)
        pthread_mutex_unlock(q->lock);
    return rc;
}

/* Takes the lock, and keeps it when records packed in `epoch` may be looked at (0); else -ECHILD, -ESHUTDOWN, -ENODEV or
 * -ESTALE. The lock is what closers pass through (sp_queue_settled): once they have advanced the epoch, whoever held the
 * lock before has its value, and whoever takes it later sees the epoch. */
static inline int sp_queue_enter(struct sp_queue *q, uint64_t epoch)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    pthread_mutex_lock(q->lock);
    return sp_queue_look(q, epoch);
}

/* The same for who does not wait for the lock: -EBUSY. */
static inline int sp_queue_try(struct sp_queue *q, uint64_t epoch)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    return pthread_mutex_trylock(q->lock) ? -EBUSY : sp_queue_look(q, epoch);
}

/* Gives the lock back and `rc` on. */
static inline int64_t sp_queue_leave(struct sp_queue *q, int64_t rc)
{
    pthread_mutex_unlock(q->lock);
    return rc;
}

/* Entered: the next value, which from now on has been submitted. */
static inline uint64_t sp_queue_take_value(struct sp_queue *q)
{
    uint64_t value = atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1;
    atomic_store_explicit(&q->submitted, value, memory_order_release);
    return value;
}

/* May `value` be waited for? 0; -ECHILD; -EINVAL: it was never given out. */
int sp_queue_may_wait(const struct sp_queue *q, uint64_t value);
/* The error with which a value that has been reached ended, else 0. */
int sp_queue_outcome(struct sp_queue *q, uint64_t value);
/* A value ended; for those who do not hold the lock. */
void sp_queue_note(struct sp_queue *q, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc);
/* Takes no more work from now on. 0 or -ECHILD. */
int sp_queue_shut(struct sp_queue *q);

struct sp_prepared {
    struct sp_submission s; /* of `record` */
    int hint;               /* what functions->check returned */
    _Alignas(16) unsigned char record[];
};
#endif
