/* Queues of the egl device. Each queue has a timeline of its own; all share one list of jobs
 * (egl/device/jobs.c). */
#include "core/base.h"
#include "egl/device/jobs.h"
#include "egl/device/references.h"
#include "egl/device/request.h"
#include "egl/memory/buffer.h"
#include "egl/run/check.h"
#include "open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef int check_fn(const struct sp_egl *dev, const void *records, size_t nbytes);

/* Appends a job with the command records `records` if `check` accepts them; a `check` of NULL
 * accepts all. If `more` is not NULL, the first record is a copy to the device, and `more` is its
 * source: the job stores these bytes after its records. */
static int64_t enqueue(struct sp_egl_queue *q, const void *records, size_t nbytes, uint64_t epoch, check_fn *check,
                       const void *more, size_t more_nbytes)
{
    struct sp_egl *dev = q->dev;
    if (!sp_queue_usable(&q->common))
        return -ECHILD;
    if (sp_egl_jobs_room(dev))
        return -EAGAIN;
    int rc = sp_queue_enter(&q->common, epoch);
    if (rc)
        return rc;
    struct sp_egl_job *job = NULL;
    rc = check ? check(dev, records, nbytes) : 0;
    if (rc == 0 && !(job = sp_egl_job_take(dev, nbytes + more_nbytes)))
        rc = -ENOMEM;
    if (!job)
        return sp_queue_leave(&q->common, rc);
    job->q = q;
    job->nbytes = nbytes;
    job->timed = q->common.ledger.times != NULL;
    job->apart = check == sp_egl_check_records;
    if (nbytes)
        memcpy(job->records, records, nbytes);
    if (more_nbytes) {
        memcpy(job->records + nbytes, more, more_nbytes);
        ((struct sp_cmd_copy *)(void *)job->records)->src = (uint64_t)(uintptr_t)(job->records + nbytes);
    }
    uint64_t value = job->value = sp_queue_take_value(&q->common);
    sp_egl_job_append(dev, job);
    sp_queue_leave(&q->common, 0);
    sp_egl_wake_sleeper(dev);
    return (int64_t)value;
}

int64_t sp_egl_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch)
{
    return enqueue(queue, record, nbytes, epoch, sp_egl_check_dispatch, NULL, 0);
}

int64_t sp_egl_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch)
{
    return enqueue(queue, records, nbytes, epoch, sp_egl_check_records, NULL, 0);
}

int64_t sp_egl_run(struct sp_prepared *p)
{
    return enqueue(p->s.queue, p->record, p->s.nbytes, p->s.epoch, NULL, NULL, 0);
}

int64_t sp_egl_upload(struct sp_egl_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    uint64_t offset;
    int rc;
    if ((rc = sp_egl_enter(q->dev)))
        return rc;
    struct sp_egl_buffer *b = sp_egl_find(q->dev, address, nbytes, &offset, &rc);
    uint64_t submitted = sp_queue_newest(&q->common);
    /* if the queue has no unfinished work, the calling thread copies the data at once */
    int at_once = b && b->mapping && !atomic_load(&q->common.closing) && !atomic_load(&q->dev->common.lost) && sp_timeline_reached(&q->timeline) == submitted;
    if (at_once)
        memcpy((char *)b->mapping + offset, data, nbytes);
    sp_egl_leave(q->dev);
    if (!b || at_once)
        return b ? (int64_t)submitted : rc;
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = address, .count = nbytes};
    return enqueue(q, &c, sizeof c, SP_ANY_EPOCH, NULL, data, nbytes);
}

int64_t sp_egl_download(struct sp_egl_queue *q, uint64_t address, void *data, uint64_t nbytes)
{
    uint64_t offset;
    int rc;
    if ((rc = sp_egl_enter(q->dev)))
        return rc;
    sp_egl_find(q->dev, address, nbytes, &offset, &rc);
    sp_egl_leave(q->dev);
    if (rc)
        return rc;
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = (uint64_t)(uintptr_t)data, .src = address,
                            .count = nbytes};
    return enqueue(q, &c, sizeof c, SP_ANY_EPOCH, NULL, NULL, 0);
}

static int check(const void *queue, const void *record, size_t nbytes)
{
    const struct sp_egl_queue *const q = queue;
    return sp_egl_check_dispatch(q->dev, record, nbytes);
}

static void unref(void *queue)
{
    struct sp_egl_queue *const q = queue;
    struct sp_egl *dev = q->dev;
    pthread_mutex_lock(&dev->lock);
    atomic_fetch_sub(&q->common.refs, 1);
    int gone = sp_egl_queue_gone(q);
    pthread_mutex_unlock(&dev->lock);
    if (gone)
        sp_egl_let_go(dev);
}

static const struct sp_functions functions = {
    .launch = sp_egl_launch,
    .submit = sp_egl_submit,
    .run = sp_egl_run,
    .submitted = sp_queue_submitted,
    .reached = sp_egl_reached,
    .wait = sp_egl_wait,
    .check = check,
    .unref = unref,
};

int sp_egl_queue_open(struct sp_egl *dev, uint32_t flags, struct sp_egl_queue **out)
{
    struct sp_egl_queue *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->dev = dev;
    q->common = (struct sp_queue){.functions = &functions, .lock = &dev->lock, .device = &dev->common};
    int rc = sp_queue_init(&q->common, flags);
    if (rc == 0 && (rc = sp_egl_hold_context(dev)))
        sp_queue_fini(&q->common);
    if (rc) {
        free(q);
        return rc;
    }
    sp_egl_hold(dev);
    *out = q;
    return 0;
}

int sp_egl_queue_close(struct sp_egl_queue *q, uint64_t timeout_ns)
{
    int rc = sp_queue_shut(&q->common);
    if (rc == 0)
        rc = sp_timeline_wait(&q->timeline, sp_queue_newest(&q->common), timeout_ns, 0);
    if (rc)
        return rc;
    pthread_mutex_lock(&q->dev->lock);
    int last = !q->common.closed && --q->dev->holders == 0 && q->dev->closing;
    q->common.closed = 1;
    pthread_mutex_unlock(&q->dev->lock);
    if (last)
        sp_egl_end(q->dev, timeout_ns);
    return 0;
}

uint64_t sp_egl_reached(void *queue)
{
    struct sp_egl_queue *const q = queue;
    return sp_timeline_reached(&q->timeline);
}

int sp_egl_wait(void *queue, uint64_t value, uint64_t timeout_ns)
{
    struct sp_egl_queue *const q = queue;
    int rc = sp_queue_may_wait(&q->common, value);
    if (rc == 0 && sp_timeline_reached(&q->timeline) < value) {
        atomic_store_explicit(&q->dev->caller_core, sp_core_now(), memory_order_relaxed);
        atomic_fetch_add(&q->dev->waiters, 1);
        sp_egl_wake(q->dev);
        uint64_t spin = sp_spin_for_ns(atomic_load_explicit(&q->dev->owner_core, memory_order_relaxed));
        rc = sp_timeline_wait(&q->timeline, value, timeout_ns, timeout_ns ? spin : 0);
        atomic_fetch_sub(&q->dev->waiters, 1);
    }
    return rc ? rc : sp_queue_outcome(&q->common, value);
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
    if (!sp_queue_usable(&q->common))
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
