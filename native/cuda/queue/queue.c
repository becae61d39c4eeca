/* Queues of the cuda device, one stream each. The submitting thread takes the timeline value under
 * the queue's lock. */
#include "cuda/device/context.h"
#include "cuda/device/lost.h"
#include "cuda/device/open.h"
#include "cuda/flight/events.h"
#include "cuda/flight/failure.h"
#include "cuda/flight/flight.h"
#include "cuda/flight/order.h"
#include "cuda/flight/submission.h"
#include "cuda/progress/enter.h"
#include "cuda/records/check.h"
#include "cuda/records/graph.h"
#include "cuda/records/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_EVERY = 64 /* largest number of launches without an event between them */ };

/* Copies at least 16 bytes, like memcpy. If gcc knows only a bound of the size, gcc turns memcpy
 * into the single instruction rep movs. That instruction costs 5 ns of the 20 that a launch takes
 * besides the driver's time. */
static inline void copy_record(unsigned char *to, const unsigned char *from, size_t nbytes)
{
    for (size_t at = 0; at + 16 < nbytes; at += 16)
        memcpy(to + at, from + at, 16);
    memcpy(to + nbytes - 16, from + nbytes - 16, 16);
}

/* Submits a checked launch to the driver. Allocates nothing and makes no event. The caller holds
 * the queue's lock, by sp_cuda_queue_enter. */
static inline int64_t launch(struct sp_cuda_queue *q, const void *record, size_t nbytes)
{
    int rc = sp_cuda_make_current(q->dev);
    if (rc == 0)
        rc = sp_cuda_order_memory(q);
    if (rc)
        return rc;
    int result = sp_cuda_dispatch(q, record);
    /* Another library may have changed this thread's current context since our last check. */
    if (__builtin_expect(sp_cuda_elsewhere(result), 0) && sp_cuda_enter(q->dev) == 0)
        result = sp_cuda_dispatch(q, record);
    if (__builtin_expect(result != CU_OK, 0))
        return sp_cuda_failed(q, "cuLaunchKernel", result);
    uint64_t value = sp_queue_take_value(&q->q);
    struct sp_cuda_recent *r = &q->recent[value % SP_CUDA_RECENT];
    r->value = value;
    r->nbytes = (uint32_t)nbytes;
    copy_record(r->record, record, nbytes <= sizeof r->record ? nbytes : sizeof(struct sp_cmd_dispatch));
    if (value - q->marked >= MARK_EVERY)
        sp_cuda_mark(q);
    return (int64_t)value;
}

/* Submits checked records, with an event after them. The caller holds the queue's lock, by
 * sp_cuda_queue_enter. */
static int64_t enqueue(struct sp_cuda_queue *q, const void *records, size_t nbytes)
{
    struct sp_cuda_flight *f = sp_cuda_flight_new(records, nbytes);
    if (!f)
        return -ENOMEM;
    int rc = sp_cuda_flight_begin(q, f), done = 0;
    if (rc == 0)
        done = sp_cuda_run_graph(q, f, &rc);
    if (rc == 0 && !done) {
        atomic_fetch_add_explicit(&q->dev->replayed, 1, memory_order_relaxed);
        rc = sp_cuda_replay(q, f);
    }
    return sp_cuda_flight_end(q, f, q->stream, rc);
}

int64_t sp_cuda_launch(void *queue, const void *record, size_t nbytes, uint64_t epoch)
{
    struct sp_cuda_queue *const q = queue;
    int64_t rc = sp_cuda_queue_enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_cuda_check_dispatch(q->dev, record, nbytes);
    if (rc)
        sp_cu_say_nothing();
    else
        rc = q->timing ? enqueue(q, record, nbytes) : launch(q, record, nbytes);
    return sp_cuda_queue_leave(q, rc);
}

int64_t sp_cuda_run(struct sp_prepared *p)
{
    struct sp_cuda_queue *q = p->s.queue;
    int rc = sp_cuda_queue_enter(q, p->s.epoch);
    if (rc)
        return rc;
    return sp_cuda_queue_leave(q, q->timing ? enqueue(q, p->record, p->s.nbytes) : launch(q, p->record, p->s.nbytes));
}

int64_t sp_cuda_submit(void *queue, const void *records, size_t nbytes, uint64_t epoch)
{
    struct sp_cuda_queue *const q = queue;
    if (__builtin_expect(atomic_load_explicit(&q->dev->open_downloads, memory_order_relaxed) != 0, 0))
        sp_cuda_settle_others(q, records, nbytes);
    int64_t rc = sp_cuda_queue_enter(q, epoch);
    if (rc)
        return rc;
    rc = sp_cuda_check(q->dev, records, nbytes);
    if (rc)
        sp_cu_say_nothing();
    return sp_cuda_queue_leave(q, rc ? rc : enqueue(q, records, nbytes));
}

static int check(const void *queue, const void *record, size_t nbytes)
{
    const struct sp_cuda_queue *const q = queue;
    int rc = sp_cuda_check_dispatch(q->dev, record, nbytes);
    if (rc)
        sp_cu_say_nothing();
    return rc;
}

/* Clears the handles of the queue's driver objects, which a reset destroyed with the context. */
static void forget(struct sp_cuda_queue *q)
{
    for (int i = 0; i < SP_CUDA_GRAPH_SLOTS; i++)
        q->graphs[i].graph = q->graphs[i].exec = NULL;
    q->nidle[0] = q->nidle[1] = 0;
    pthread_mutex_lock(&q->dev->lock);
    q->stream = q->up = q->down = NULL;
    pthread_mutex_unlock(&q->dev->lock);
}

/* Destroys the queue's streams and events. Takes the device's lock to clear the stream handles,
 * because other queues may read them. */
static void take_down(struct sp_cuda_queue *q)
{
    if (sp_cuda_enter(q->dev) && atomic_load(&q->dev->reset))
        forget(q);
    sp_cuda_graphs_drop(q);
    sp_cuda_events_drop(q);
    pthread_mutex_lock(&q->dev->lock);
    void *streams[] = {q->stream, q->up, q->down};
    q->stream = q->up = q->down = NULL;
    pthread_mutex_unlock(&q->dev->lock);
    for (int i = 0; i < 3; i++)
        if (streams[i])
            sp_cuStreamDestroy_v2(streams[i]);
    sp_cuda_leave();
    q->q.closed = 1;
}

static void unref(void *queue)
{
    struct sp_cuda_queue *const q = queue;
    if (atomic_fetch_sub(&q->q.refs, 1) != 1)
        return;
    struct sp_cuda *dev = q->dev;
    sp_cuda_not_open(q);
    /* The queue still has flights only if it was never closed. sp_cuda_flight_abandon keeps their
     * page-locked memory, which the driver may still write to. */
    while (q->head) {
        struct sp_cuda_flight *f = q->head;
        q->head = f->next;
        sp_cuda_flight_abandon(q, f);
    }
    if (!q->q.closed)
        take_down(q);
    sp_queue_fini(&q->q);
    free(q->recent);
    free(q->faults);
    free(q);
    sp_cuda_unref(dev);
}

static const struct sp_functions functions = {
    .launch = sp_cuda_launch,
    .submit = sp_cuda_submit,
    .run = sp_cuda_run,
    .submitted = sp_queue_submitted,
    .reached = sp_cuda_reached,
    .wait = sp_cuda_wait,
    .check = check,
    .unref = unref,
};

int sp_cuda_queue_open(struct sp_cuda *dev, uint32_t flags, struct sp_cuda_queue **out)
{
    struct sp_cuda_queue *q = sp_cuda_usable(dev) && sp_cuda_gone(dev) ? NULL : calloc(1, sizeof *q);
    if (!q)
        return atomic_load(&dev->common.lost) ? -ENODEV : -ENOMEM;
    q->q.functions = &functions;
    q->q.device = &dev->common;
    int rc = sp_queue_init(&q->q, flags);
    if (rc) {
        free(q);
        return rc;
    }
    q->dev = dev;
    q->timing = (flags & SP_QUEUE_TIMING) != 0;
    atomic_store(&q->good, UINT64_MAX);
    sp_cuda_ref(dev);
    q->recent = calloc(SP_CUDA_RECENT, sizeof *q->recent);
    q->faults = calloc(SP_CUDA_FAULTS, sizeof *q->faults);
    rc = q->recent && q->faults ? sp_cuda_enter(dev) : -ENOMEM;
    if (rc == 0)
        rc = SP_CUDA_RC(dev, cuStreamCreate, &q->stream, CU_STREAM_NON_BLOCKING);
    sp_cuda_leave();
    if (rc)
        unref(q);
    else
        *out = q;
    return rc;
}

int sp_cuda_queue_close(struct sp_cuda_queue *q, uint64_t timeout_ns)
{
    int rc = sp_queue_shut(&q->q);
    if (rc)
        return rc;
    if (sp_cuda_wait(q, sp_queue_newest(&q->q), timeout_ns) == -ETIMEDOUT)
        return -ETIMEDOUT;
    pthread_mutex_lock(q->q.lock);
    if (!q->q.closed)
        take_down(q);
    pthread_mutex_unlock(q->q.lock);
    return 0;
}

void *sp_cuda_stream(const struct sp_cuda_queue *q)
{
    return q->stream;
}
