/* Opens queues, submits records to them, and closes them. */
#include "amdgpu/flight/context.h"
#include "amdgpu/flight/flight.h"
#include "amdgpu/progress/canary.h"
#include "amdgpu/submit/check.h"
#include "amdgpu/submit/ib_cache.h"
#include "amdgpu/submit/submit.h"

#include <errno.h>
#include <stdlib.h>

static int unchecked(const struct sp_amdgpu *dev, const void *records, size_t nbytes)
{
    (void)dev, (void)records, (void)nbytes;
    return 0;
}

/* Submits records. Calls `check` first, unless the queue has kept the IB of these records. */
static int64_t take(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint64_t epoch,
                    int (*check)(const struct sp_amdgpu *, const void *, size_t))
{
    int64_t value = sp_queue_enter(&q->common, epoch);
    if (value)
        return value;
    value = sp_ib_cache_resend(q, records, nbytes);
    if (value == 0)
        value = check(q->dev, records, nbytes);
    if (value == 0)
        value = sp_amdgpu_enqueue(q, records, nbytes, NULL);
    return sp_queue_leave(&q->common, value);
}

int64_t sp_amdgpu_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch)
{
    return take(queue, record, nbytes, epoch, sp_amdgpu_check_dispatch);
}

int64_t sp_amdgpu_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch)
{
    return take(queue, records, nbytes, epoch, sp_amdgpu_check);
}

int64_t sp_amdgpu_run(struct sp_prepared *p)
{
    return take(p->s.queue, p->record, p->s.nbytes, p->s.epoch, unchecked);
}

static int check(const void *queue, const void *record, size_t nbytes)
{
    const struct sp_amdgpu_queue *const q = queue;
    return sp_amdgpu_check_dispatch(q->dev, record, nbytes);
}

static void unref(void *queue)
{
    struct sp_amdgpu_queue *const q = queue;
    if (atomic_fetch_sub(&q->common.refs, 1) != 1)
        return;
    struct sp_amdgpu *dev = q->dev;
    if (q->sending) {
        q->sending->next = q->head;
        q->head = q->sending;
    }
    /* Only a queue that was never closed has submissions here. The kernel driver keeps the running
     * jobs of such a queue alive. */
    while (q->head) {
        struct sp_flight *f = q->head;
        q->head = f->next;
        sp_flight_end(q, f);
    }
    sp_ib_cache_free(q);
    if (!q->common.closed) {
        sp_amdgpu_queue_unmake(q);
        sp_amdgpu_unuse(dev);
    }
    sp_counted_end(dev, &q->counted);
    sp_queue_fini(&q->common);
    free(q->list.at);
    free(q);
    sp_amdgpu_unref(dev);
}

static const struct sp_functions functions = {
    .launch = sp_amdgpu_launch,
    .submit = sp_amdgpu_submit,
    .run = sp_amdgpu_run,
    .resend = sp_amdgpu_resend,
    .submitted = sp_queue_submitted,
    .reached = sp_amdgpu_reached,
    .wait = sp_amdgpu_wait,
    .check = check,
    .unref = unref,
};

int sp_amdgpu_queue_open(struct sp_amdgpu *dev, uint32_t flags, struct sp_amdgpu_queue **out)
{
    if (flags & SP_QUEUE_TIMING && !dev->setup.counter_khz)
        return -EOPNOTSUPP;
    struct sp_amdgpu_queue *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->dev = dev;
    q->push = sp_amdgpu_push;
    q->common = (struct sp_queue){.functions = &functions, .device = &dev->common};
    int rc = sp_queue_init(&q->common, flags);
    if (rc) {
        free(q);
        return rc;
    }
    sp_amdgpu_ref(dev);
    sp_amdgpu_use(dev);
    sp_counted_begin(dev, &q->counted);
    rc = sp_amdgpu_queue_make(q);
    if (rc >= 0 && atomic_load(&dev->suspect))
        rc = sp_amdgpu_canary(q);
    if (rc < 0)
        unref(q);
    else
        *out = q;
    return rc < 0 ? rc : 0;
}

int sp_amdgpu_queue_close(struct sp_amdgpu_queue *q, uint64_t timeout_ns)
{
    int rc = sp_queue_shut(&q->common);
    if (rc)
        return rc;
    if (sp_amdgpu_wait(q, sp_queue_newest(&q->common), timeout_ns) == -ETIMEDOUT)
        return -ETIMEDOUT;
    pthread_mutex_lock(q->common.lock);
    if (!q->common.closed) {
        sp_amdgpu_queue_unmake(q);
        sp_amdgpu_unuse(q->dev);
    }
    q->common.closed = 1;
    pthread_mutex_unlock(q->common.lock);
    return 0;
}
