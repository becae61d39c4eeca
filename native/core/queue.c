/* Implements the part of a queue that all backends share. The functions that a launch calls are
 * inline in queue.h. */
#include "queue.h"

uint64_t sp_device_epoch(const void *device)
{
    return atomic_load(&((const struct sp_device *)device)->epoch);
}

uint64_t sp_device_advance(void *device)
{
    return atomic_fetch_add(&((struct sp_device *)device)->epoch, 1) + 1;
}

int sp_queue_init(struct sp_queue *q, uint32_t flags)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    if (flags & ~(uint32_t)SP_QUEUE_TIMING)
        return -EINVAL;
    if (atomic_load(&q->device->lost))
        return -ENODEV;
    if (sp_ledger_init(&q->ledger, (flags & SP_QUEUE_TIMING) != 0))
        return -ENOMEM;
    pthread_mutex_init(&q->own, NULL);
    if (!q->lock)
        q->lock = &q->own;
    atomic_store(&q->refs, 1);
    atomic_fetch_add(&sp_live()->queues, 1);
    return 0;
}

void sp_queue_fini(struct sp_queue *q)
{
    pthread_mutex_destroy(&q->own);
    sp_ledger_free(&q->ledger);
    atomic_fetch_sub(&sp_live()->queues, 1);
}

uint64_t sp_queue_submitted(const void *queue)
{
    return sp_queue_newest(queue);
}

uint64_t sp_queue_settled(void *queue)
{
    struct sp_queue *q = queue;
    if (!sp_queue_usable(q))
        return sp_queue_newest(q);
    pthread_mutex_lock(q->lock);
    return (uint64_t)sp_queue_leave(q, (int64_t)sp_queue_newest(q));
}

int sp_queue_may_wait(const struct sp_queue *q, uint64_t value)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    return value > sp_queue_newest(q) ? -EINVAL : 0;
}

int sp_queue_outcome(struct sp_queue *q, uint64_t value)
{
    if (!atomic_load(&q->ledger.nfaults))
        return 0;
    pthread_mutex_lock(q->lock);
    return (int)sp_queue_leave(q, sp_ledger_tell(&q->ledger, value, sp_queue_newest(q)));
}

int sp_queue_failure(void *queue, uint64_t value)
{
    struct sp_queue *q = queue;
    if (!sp_queue_usable(q))
        return -ECHILD;
    pthread_mutex_lock(q->lock);
    return (int)sp_queue_leave(q, sp_ledger_fault(&q->ledger, value));
}

void sp_queue_note(struct sp_queue *q, uint64_t value, uint64_t start_ns, uint64_t end_ns, int rc)
{
    pthread_mutex_lock(q->lock);
    sp_ledger_note(&q->ledger, value, start_ns, end_ns, rc);
    pthread_mutex_unlock(q->lock);
}

int sp_queue_times(void *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    struct sp_queue *q = queue;
    if (!sp_queue_usable(q))
        return -ECHILD;
    pthread_mutex_lock(q->lock);
    return (int)sp_queue_leave(q, sp_ledger_times(&q->ledger, value, start_ns, end_ns));
}

int sp_queue_shut(struct sp_queue *q)
{
    if (!sp_queue_usable(q))
        return -ECHILD;
    pthread_mutex_lock(q->lock);
    atomic_store(&q->closing, 1);
    pthread_mutex_unlock(q->lock);
    return 0;
}

void sp_queue_release(void *queue)
{
    struct sp_queue *q = queue;
    if (q && sp_queue_usable(q))
        q->functions->unref(q);
}
