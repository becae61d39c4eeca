/* Waits for a submission, and reports the progress of one. */
#include "amdgpu/progress/progress.h"
#include "amdgpu/submit/submit.h"
#include "core/base.h"
#include "core/timeline.h"

#include <errno.h>
#include <string.h>

static const uint64_t SLICE_NS = 100 * 1000000;

int sp_amdgpu_wait(void *queue, uint64_t value, uint64_t timeout_ns)
{
    struct sp_amdgpu_queue *const q = queue;
    int rc = sp_queue_may_wait(&q->common, value);
    if (rc)
        return rc;
    uint64_t start = sp_clock_ns(), deadline = timeout_ns > INT64_MAX - start ? INT64_MAX : start + timeout_ns;
    uint64_t spin = timeout_ns ? start + sp_spin_ns() : 0;
    while (sp_amdgpu_reached(q) < value) {
        uint64_t now = sp_clock_ns();
        if (now >= deadline)
            return -ETIMEDOUT;
        if (now < spin) {
            for (int i = 0; i < 64; i++)
                sp_cpu_relax();
            continue;
        }
        /* all jobs of the submission are sent, so the kernel driver has a fence to wait for */
        if (value <= atomic_load(&q->sent))
            sp_amdgpu_sleep(q, value, deadline - now < SLICE_NS ? deadline : now + SLICE_NS);
        pthread_mutex_lock(q->common.lock);
        sp_amdgpu_push(q, deadline - now < SLICE_NS ? deadline - now : SLICE_NS);
        if (atomic_load(&q->reached) < value)
            sp_amdgpu_inspect(q);
        pthread_mutex_unlock(q->common.lock);
    }
    return sp_queue_outcome(&q->common, value);
}

int sp_amdgpu_hand_over(struct sp_amdgpu_queue *q, uint64_t value, uint64_t timeout_ns)
{
    int rc = sp_queue_may_wait(&q->common, value);
    if (rc || value <= atomic_load(&q->sent))
        return rc;
    pthread_mutex_lock(q->common.lock);
    const struct sp_engine *e = q->sending ? q->sending->engine : q->engine;
    uint64_t jobs = e->jobs;
    rc = sp_amdgpu_push(q, timeout_ns);
    if (rc == -EAGAIN && e->jobs == jobs) {
        /* Not one job could be submitted. Find out whether the device is lost, because it would
         * then never accept the remaining jobs. */
        sp_amdgpu_inspect(q);
        rc = -ETIMEDOUT;
    }
    return (int)sp_queue_leave(&q->common, rc);
}

/* Returns the queue's submission that is only partly sent; it comes after all submissions in the
 * list of flights. Returns NULL if there is none, or if `f` is that submission. */
static struct sp_flight *last(const struct sp_amdgpu_queue *q, const struct sp_flight *f)
{
    return f == q->sending ? NULL : q->sending;
}

int64_t sp_amdgpu_peek(struct sp_amdgpu_queue *q, uint64_t value, void *records, size_t capacity, struct sp_progress *out)
{
    int64_t got = -ENOENT;
    memset(out, 0, sizeof *out);
    if (!sp_queue_usable(&q->common))
        return -ECHILD;
    pthread_mutex_lock(q->common.lock);
    sp_amdgpu_retire(q);
    const struct sp_flight *first = q->head ? q->head : q->sending;
    for (const struct sp_flight *f = first; got < 0 && f; f = f->next ? f->next : last(q, f)) {
        if (f->value != value)
            continue;
        /* It is unknown which record of an IB is running. So this reports that the first one is
         * running. */
        out->running_at = f == first ? 0 : f->nbytes;
        out->running_ns = f == first ? sp_clock_ns() - f->submitted_ns : 0;
        if (records && f->nbytes)
            memcpy(records, f->records, f->nbytes < capacity ? f->nbytes : capacity);
        got = (int64_t)f->nbytes;
    }
    return sp_queue_leave(&q->common, got);
}
