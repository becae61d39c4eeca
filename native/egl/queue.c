/* Queues of the egl device: a timeline each, over the one list of jobs that the owner works off (jobs.c). */
#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { QUEUE_TIMING = 1 }; /* as SP_QUEUE_TIMING of the cpu device */

static int usable(const struct sp_egl_queue *q)
{
    return q->fork_generation == sp_fork_generation();
}

/* Caller locks, and lets go of the device afterwards when this says that the queue is gone. */
int sp_egl_queue_gone(struct sp_egl_queue *q)
{
    if (q->refs || sp_timeline_reached(&q->timeline) != atomic_load(&q->submitted))
        return 0;
    sp_ledger_free(&q->ledger);
    free(q);
    atomic_fetch_sub(&sp_live()->queues, 1);
    return 1;
}

/* Caller locks: 0 when records packed in `epoch` may be looked at. Closers take the lock too (sp_egl_settled). */
static int takes_work(const struct sp_egl_queue *q, uint64_t epoch)
{
    if (q->closing)
        return -ESHUTDOWN;
    if (atomic_load_explicit(&q->dev->lost, memory_order_relaxed))
        return -ENODEV;
    return epoch != SP_ANY_EPOCH && atomic_load(&q->dev->epoch) != epoch ? -ESTALE : 0;
}

typedef int check_fn(const struct sp_egl *dev, const void *records, size_t nbytes);

/* Appends a job of `records`, once `check` (if any) finds nothing wrong, and behind them `more` bytes that a copy's source
 * is pointed at. */
static int64_t enqueue(struct sp_egl_queue *q, const void *records, size_t nbytes, uint64_t epoch, check_fn *check,
                       const void *more, size_t more_nbytes)
{
    struct sp_egl *dev = q->dev;
    int64_t value = 0;
    if (sp_egl_jobs_room(dev))
        return -EAGAIN;
    pthread_mutex_lock(&dev->lock);
    struct sp_egl_job *job = NULL;
    value = takes_work(q, epoch);
    if (value == 0 && check)
        value = check(dev, records, nbytes);
    if (value == 0 && !(job = sp_egl_job_take(dev, nbytes + more_nbytes)))
        value = -ENOMEM;
    if (job) {
        job->q = q;
        job->nbytes = nbytes;
        job->timed = q->ledger.times != NULL;
        job->apart = check == sp_egl_check;
        if (nbytes)
            memcpy(job->records, records, nbytes);
        if (more_nbytes) {
            memcpy(job->records + nbytes, more, more_nbytes);
            ((struct sp_cmd_copy *)(void *)job->records)->src = (uint64_t)(uintptr_t)(job->records + nbytes);
        }
        value = (int64_t)(atomic_load_explicit(&q->submitted, memory_order_relaxed) + 1);
        job->value = (uint64_t)value;
        atomic_store_explicit(&q->submitted, (uint64_t)value, memory_order_release);
        sp_egl_job_append(dev, job);
    }
    pthread_mutex_unlock(&dev->lock);
    if (job)
        sp_egl_wake_sleeper(dev);
    return value;
}

int64_t sp_egl_launch(struct sp_egl_queue *q, const void *record, size_t nbytes, uint64_t epoch)
{
    return usable(q) ? enqueue(q, record, nbytes, epoch, sp_egl_check_dispatch, NULL, 0) : -ECHILD;
}

int64_t sp_egl_submit(struct sp_egl_queue *q, const void *records, size_t nbytes, uint64_t epoch)
{
    return usable(q) ? enqueue(q, records, nbytes, epoch, sp_egl_check, NULL, 0) : -ECHILD;
}

uint64_t sp_egl_epoch(struct sp_egl *dev)
{
    return atomic_load(&dev->epoch);
}

uint64_t sp_egl_advance(struct sp_egl *dev)
{
    return atomic_fetch_add(&dev->epoch, 1) + 1;
}

uint64_t sp_egl_settled(struct sp_egl_queue *q)
{
    if (!usable(q))
        return atomic_load(&q->submitted);
    pthread_mutex_lock(&q->dev->lock);
    uint64_t submitted = atomic_load(&q->submitted);
    pthread_mutex_unlock(&q->dev->lock);
    return submitted;
}

int64_t sp_egl_upload(struct sp_egl_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    uint64_t offset;
    int rc;
    if (!usable(q))
        return -ECHILD;
    struct sp_egl_buffer *b = sp_egl_find(q->dev, address, nbytes, &offset, &rc);
    if (!b)
        return rc;
    uint64_t submitted = atomic_load(&q->submitted);
    if (b->mapping && !q->closing && !atomic_load(&q->dev->lost) && sp_timeline_reached(&q->timeline) == submitted) {
        memcpy((char *)b->mapping + offset, data, nbytes); /* nothing before it on this queue: it happens now */
        return (int64_t)submitted;
    }
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = address, .count = nbytes};
    return enqueue(q, &c, sizeof c, SP_ANY_EPOCH, NULL, data, nbytes);
}

int64_t sp_egl_download(struct sp_egl_queue *q, uint64_t address, void *data, uint64_t nbytes)
{
    uint64_t offset;
    int rc;
    if (!usable(q))
        return -ECHILD;
    if (!sp_egl_find(q->dev, address, nbytes, &offset, &rc))
        return rc;
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = (uint64_t)(uintptr_t)data, .src = address,
                            .count = nbytes};
    return enqueue(q, &c, sizeof c, SP_ANY_EPOCH, NULL, NULL, 0);
}

struct sp_egl_prepared {
    struct sp_egl_queue *q;
    size_t nbytes;
    uint64_t epoch;
    _Alignas(16) unsigned char record[];
};

int sp_egl_prepare(struct sp_egl_queue *q, const void *record, size_t nbytes, uint64_t epoch,
                   struct sp_egl_prepared **out)
{
    if (!usable(q))
        return -ECHILD;
    struct sp_egl_prepared *p = malloc(sizeof *p + nbytes);
    if (!p)
        return -ENOMEM;
    *p = (struct sp_egl_prepared){.q = q, .nbytes = nbytes, .epoch = epoch};
    memcpy(p->record, record, nbytes);
    pthread_mutex_lock(&q->dev->lock);
    int rc = takes_work(q, epoch);
    if (rc == 0)
        rc = sp_egl_check_dispatch(q->dev, record, nbytes);
    if (rc == 0)
        q->refs++;
    pthread_mutex_unlock(&q->dev->lock);
    if (rc)
        free(p);
    else
        *out = p;
    return rc;
}

int64_t sp_egl_run(struct sp_egl_prepared *p)
{
    return usable(p->q) ? enqueue(p->q, p->record, p->nbytes, p->epoch, NULL, NULL, 0) : -ECHILD;
}

static void unref(struct sp_egl_queue *q)
{
    struct sp_egl *dev = q->dev;
    pthread_mutex_lock(&dev->lock);
    q->refs--;
    int gone = sp_egl_queue_gone(q);
    pthread_mutex_unlock(&dev->lock);
    if (gone)
        sp_egl_let_go(dev);
}

void sp_egl_unprepare(struct sp_egl_prepared *p)
{
    if (!p)
        return;
    if (usable(p->q))
        unref(p->q);
    free(p);
}

int sp_egl_queue_open(struct sp_egl *dev, uint32_t flags, struct sp_egl_queue **out)
{
    if (dev->fork_generation != sp_fork_generation())
        return -ECHILD;
    if (flags & ~(uint32_t)QUEUE_TIMING)
        return -EINVAL;
    if (atomic_load(&dev->lost))
        return -ENODEV;
    struct sp_egl_queue *q = calloc(1, sizeof *q);
    if (!q || sp_ledger_init(&q->ledger, (flags & QUEUE_TIMING) != 0)) {
        free(q);
        return -ENOMEM;
    }
    q->dev = dev;
    q->fork_generation = dev->fork_generation;
    q->refs = 1;
    pthread_mutex_lock(&dev->lock);
    dev->queues++;
    pthread_mutex_unlock(&dev->lock);
    sp_egl_hold(dev);
    atomic_fetch_add(&sp_live()->queues, 1);
    *out = q;
    return 0;
}

int sp_egl_queue_close(struct sp_egl_queue *q, uint64_t timeout_ns)
{
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->dev->lock);
    q->closing = 1;
    pthread_mutex_unlock(&q->dev->lock);
    int rc = sp_timeline_wait(&q->timeline, atomic_load(&q->submitted), timeout_ns, 0);
    if (rc)
        return rc;
    pthread_mutex_lock(&q->dev->lock);
    int last = !q->closed && --q->dev->queues == 0 && q->dev->closing;
    q->closed = 1;
    pthread_mutex_unlock(&q->dev->lock);
    if (last)
        sp_egl_end(q->dev, timeout_ns);
    return 0;
}

void sp_egl_queue_release(struct sp_egl_queue *q)
{
    if (q && usable(q))
        unref(q);
}

uint64_t sp_egl_submitted(struct sp_egl_queue *q)
{
    return atomic_load(&q->submitted);
}

uint64_t sp_egl_reached(struct sp_egl_queue *q)
{
    return sp_timeline_reached(&q->timeline);
}

int sp_egl_wait(struct sp_egl_queue *q, uint64_t value, uint64_t timeout_ns)
{
    if (!usable(q))
        return -ECHILD;
    if (value > atomic_load(&q->submitted))
        return -EINVAL;
    int rc = 0;
    if (sp_timeline_reached(&q->timeline) < value) {
        atomic_store_explicit(&q->dev->caller_core, sp_core_now(), memory_order_relaxed);
        atomic_fetch_add(&q->dev->waiters, 1);
        sp_egl_wake(q->dev);
        uint64_t spin = sp_spin_for_ns(atomic_load_explicit(&q->dev->owner_core, memory_order_relaxed));
        rc = sp_timeline_wait(&q->timeline, value, timeout_ns, timeout_ns ? spin : 0);
        atomic_fetch_sub(&q->dev->waiters, 1);
    }
    if (rc || !atomic_load(&q->ledger.nfaults))
        return rc;
    pthread_mutex_lock(&q->dev->lock);
    rc = sp_ledger_tell(&q->ledger, value, atomic_load(&q->submitted));
    pthread_mutex_unlock(&q->dev->lock);
    return rc;
}

int sp_egl_times(struct sp_egl_queue *q, uint64_t value, uint64_t *start_ns, uint64_t *end_ns)
{
    pthread_mutex_lock(&q->dev->lock);
    int rc = sp_ledger_times(&q->ledger, value, start_ns, end_ns);
    pthread_mutex_unlock(&q->dev->lock);
    return rc;
}

size_t sp_egl_fault(struct sp_egl_queue *q, uint64_t value, char *out, size_t capacity)
{
    size_t nbytes = 0;
    pthread_mutex_lock(&q->dev->lock);
    for (int i = 0; i < SP_EGL_FAULT_TEXTS; i++) {
        const struct sp_egl_fault_text *t = &q->dev->fault_texts[i];
        if (t->q != q || t->value != value)
            continue;
        nbytes = strlen(t->text) < capacity ? strlen(t->text) : capacity;
        memcpy(out, t->text, nbytes);
    }
    pthread_mutex_unlock(&q->dev->lock);
    return nbytes;
}

int64_t sp_egl_peek(struct sp_egl_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out)
{
    int64_t got = -ENOENT;
    memset(out, 0, sizeof *out);
    if (!usable(q))
        return -ECHILD;
    pthread_mutex_lock(&q->dev->lock);
    struct sp_egl_job *job = q->dev->head;
    while (got < 0 && (job = atomic_load(&job->next))) {
        if (job->q != q || job->value != value)
            continue;
        out->running_at = job->nbytes;
        if (job == atomic_load(&q->dev->issued))
            sp_running_tell(&q->dev->running, out);
        if (records && job->nbytes)
            memcpy(records, job->records, job->nbytes < capacity ? job->nbytes : capacity);
        got = (int64_t)job->nbytes;
    }
    pthread_mutex_unlock(&q->dev->lock);
    return got;
}
