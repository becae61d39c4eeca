/* Replays command records as driver calls in one stream, which runs them in order. */
#include "replay.h"
#include "cuda/device/pinned.h"
#include "cuda/flight/failure.h"
#include "cuda/flight/order.h"
#include "cuda/memory/kernel.h"

#include <errno.h>
#include <stdlib.h>

int sp_cuda_dispatch(struct sp_cuda_queue *q, const struct sp_cmd_dispatch *d)
{
    const struct sp_cuda_kernel *k = (const void *)(uintptr_t)d->kernel;
    char *args = (char *)(uintptr_t)(d + 1);
    void *at[SP_MAX_ARGS];
    if (!d->groups[0] || !d->groups[1] || !d->groups[2])
        return CU_OK; /* the driver refuses a grid of no groups */
    for (uint32_t i = 0; i < k->sig.nargs; i++)
        at[i] = args + k->sig.args[i].offset;
    return sp_cuLaunchKernel(k->function, d->groups[0], d->groups[1], d->groups[2], d->group_size[0], d->group_size[1],
                             d->group_size[2], d->shared_nbytes, q->stream, at, NULL);
}

int sp_cuda_overlaps(const struct sp_cmd_copy *c)
{
    uint64_t distance = c->dst > c->src ? c->dst - c->src : c->src - c->dst;
    return distance != 0 && distance < c->count;
}

/* Copies memory on the device. Overlapping ranges go through page-locked memory, because the
 * driver's copies are undefined for them. */
static int copy(struct sp_cuda_queue *q, struct sp_cuda_flight *f, const struct sp_cmd_copy *c)
{
    if (c->count == 0 || c->dst == c->src)
        return CU_OK;
    if (!sp_cuda_overlaps(c))
        return sp_cuMemcpyAsync(c->dst, c->src, c->count, q->stream);
    int result = sp_cuMemcpyDtoHAsync_v2(f->staging, c->src, c->count, q->stream);
    return result ? result : sp_cuMemcpyHtoDAsync_v2(c->dst, f->staging, c->count, q->stream);
}

static int fill_elements(struct sp_cuda_queue *q, uint64_t dst, uint32_t pattern, uint32_t width, uint64_t count)
{
    if (width == 1)
        return sp_cuMemsetD8Async(dst, (unsigned char)pattern, count, q->stream);
    if (width == 2)
        return sp_cuMemsetD16Async(dst, (unsigned short)pattern, count, q->stream);
    return sp_cuMemsetD32Async(dst, pattern, count, q->stream);
}

static int fill_bytes(struct sp_cuda_queue *q, uint64_t dst, uint32_t pattern, uint32_t begin, uint32_t end)
{
    int result = CU_OK;
    for (uint32_t i = begin; result == CU_OK && i < end; i++)
        result = fill_elements(q, dst + i, pattern >> 8 * i, 1, 1);
    return result;
}

uint32_t sp_cuda_fill_ahead(const struct sp_cmd_fill *f)
{
    return (uint32_t)-f->dst & (f->pattern_nbytes - 1);
}

/* Fills memory with a pattern. If the start is not aligned, fills the bytes before the first
 * aligned element, then whole aligned elements with the pattern rotated to match, then the
 * remaining bytes. */
static int fill(struct sp_cuda_queue *q, const struct sp_cmd_fill *f)
{
    const uint32_t width = f->pattern_nbytes, ahead = sp_cuda_fill_ahead(f);
    if (f->count == 0)
        return CU_OK;
    if (ahead == 0)
        return fill_elements(q, f->dst, f->pattern, width, f->count / width);
    const uint64_t last = f->count - width, whole = last / width;
    int result = fill_bytes(q, f->dst, f->pattern, 0, ahead);
    if (result == CU_OK && whole) {
        const uint32_t pattern = width == 2 ? f->pattern & 0xffff : f->pattern;
        const uint32_t turned = pattern >> 8 * ahead | pattern << 8 * (width - ahead);
        result = fill_elements(q, f->dst + ahead, turned, width, whole);
    }
    return result ? result : fill_bytes(q, f->dst + last, f->pattern, ahead, width);
}

/* Makes the queue's stream wait for the streams of another queue. The device's lock keeps those
 * streams alive. The lock of the other queue is not taken, because this thread may hold only one
 * queue's lock. */
static int wait_for(struct sp_cuda_queue *q, const struct sp_cmd_wait *w)
{
    struct sp_cuda_queue *other = (void *)(uintptr_t)w->queue;
    if (other == q || sp_cuda_reached_so_far(other) >= w->value)
        return 0;
    pthread_mutex_lock(&q->dev->lock);
    int rc = other->stream ? sp_cuda_chain(q, other->stream, q->stream) : 0;
    if (rc == 0 && other->down)
        rc = sp_cuda_chain(q, other->down, q->stream);
    pthread_mutex_unlock(&q->dev->lock);
    return rc;
}

static int stamp(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    void *event;
    int rc = sp_cuda_event_take(q, 1, &event);
    if (rc)
        return rc;
    f->stamps[f->nstamps++] = event;
    return SP_CUDA_Q(q, cuEventRecord, event, q->stream);
}

static int replay_one(struct sp_cuda_queue *q, struct sp_cuda_flight *f, const struct sp_cmd *head)
{
    const void *record = head;
    switch (head->kind) {
    case SP_CMD_DISPATCH:
        return sp_cuda_failed(q, "cuLaunchKernel", sp_cuda_dispatch(q, record));
    case SP_CMD_COPY:
        return sp_cuda_failed(q, "cuMemcpyAsync", copy(q, f, record));
    case SP_CMD_FILL:
        return sp_cuda_failed(q, "cuMemsetAsync", fill(q, record));
    case SP_CMD_WAIT:
        return wait_for(q, record);
    case SP_CMD_TIMESTAMP:
        return stamp(q, f);
    default:
        return 0; /* a stream is in order, so a barrier needs no call */
    }
}

static int prepare(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    uint64_t most = 0;
    size_t stamps = 0;
    for (size_t at = 0; at < f->nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + at);
        const struct sp_cmd_copy *c = (const void *)head;
        stamps += head->kind == SP_CMD_TIMESTAMP;
        if (head->kind == SP_CMD_COPY && sp_cuda_overlaps(c) && c->count > most)
            most = c->count;
        at += head->nbytes;
    }
    if (stamps && !(f->stamps = calloc(stamps, sizeof *f->stamps)))
        return -ENOMEM;
    return most ? sp_cuda_pinned_take(q->dev, most, &f->staging, &f->staging_nbytes) : 0;
}

int sp_cuda_replay(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    int rc = prepare(q, f);
    for (size_t at = 0; rc == 0 && at < f->nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + at);
        rc = replay_one(q, f, head);
        f->ncalls += rc == 0;
        at += head->nbytes;
    }
    return rc;
}
