/* Copies memory from the host (an upload). The caller may change the data once the call returns, so
 * the call waits until the last piece is in a page-locked slot. To reuse a slot, the call waits at
 * most PATIENCE_NS until the slot's piece has crossed the bus. After a longer time it stops
 * waiting, and puts each remaining piece into a new slot. */
#include "cuda/flight/failure.h"
#include "cuda/flight/order.h"
#include "cuda/flight/slots.h"
#include "cuda/progress/enter.h"
#include "cuda/progress/progress.h"
#include "cuda/progress/staging.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* Longest wait for a piece to cross the bus. A piece takes 3 ms on the slowest bus that we know
 * (1.5 GB/s). The remaining 17 ms are for transfers of other users of the bus. */
static const uint64_t PATIENCE_NS = 20000000;

struct upload {
    struct sp_cuda_queue *q;
    struct sp_cuda_flight *f;
    uint32_t nslots;
    int again;  /* 1 if a slot may be used again once its piece has crossed the bus */
    int direct; /* 1 if the pieces use only the queue's stream */
};

/* Waits for the piece in the oldest slot to cross the bus. Returns 1 when the piece has crossed, or
 * -ENODEV if the device is lost. Returns 0 in all other cases: after PATIENCE_NS, if the slot has
 * no event, or after another error. */
static int wait_oldest(struct upload *u)
{
    uint64_t until = sp_clock_ns() + PATIENCE_NS;
    int result = CU_NOT_READY;
    void *event = u->f->slots->event;
    while (event && sp_cuda_not_ready(result = sp_cuEventQuery(event)) && sp_clock_ns() < until)
        sched_yield();
    if (result == CU_OK)
        return 1;
    u->again = 0;
    return !sp_cuda_not_ready(result) && sp_cuda_failed(u->q, "cuEventQuery", result) == -ENODEV ? -ENODEV : 0;
}

static int free_slot(struct upload *u, uint64_t nbytes, struct sp_cuda_slot **slot)
{
    if (u->again && u->nslots >= SP_CUDA_SLOTS) {
        int rc = wait_oldest(u);
        if (rc > 0)
            *slot = sp_cuda_slot_turn(u->f);
        if (rc)
            return rc > 0 ? 0 : rc;
    }
    u->nslots++;
    return sp_cuda_slot_add(u->q, u->f, nbytes, slot);
}

/* Submits the copy of one piece. `stream` receives the stream on which the piece crosses the
 * bus. */
static int send(struct upload *u, uint64_t dst, const void *host, uint64_t nbytes, void **stream)
{
    struct sp_cuda_queue *q = u->q;
    uint64_t between;
    if (u->direct || !sp_cuda_staging_alloc(q, nbytes, &q->up, NULL, &between)) {
        u->direct = 1;
        *stream = q->stream;
        return sp_cuda_failed(q, "cuMemcpyHtoDAsync", sp_cuMemcpyHtoDAsync_v2(dst, host, nbytes, q->stream));
    }
    *stream = q->up;
    int rc = sp_cuda_failed(q, "cuMemcpyHtoDAsync", sp_cuMemcpyHtoDAsync_v2(between, host, nbytes, q->up));
    if (rc == 0)
        rc = sp_cuda_chain(q, q->up, q->stream);
    if (rc == 0)
        rc = sp_cuda_failed(q, "cuMemcpyAsync", sp_cuMemcpyAsync(dst, between, nbytes, q->stream));
    /* After a failure, the queue's stream may not wait for the copy into `between`. So the
     * stream of that copy, `up`, frees the memory. */
    sp_cuMemFreeAsync(between, rc ? q->up : q->stream);
    return rc;
}

static int send_all(struct upload *u, uint64_t dst, const char *data, uint64_t nbytes)
{
    uint64_t most = nbytes < SP_CUDA_PIECE_NBYTES ? nbytes : SP_CUDA_PIECE_NBYTES;
    for (uint64_t at = 0; at < nbytes;) {
        uint64_t piece = nbytes - at < most ? nbytes - at : most;
        struct sp_cuda_slot *slot;
        void *stream;
        int rc = free_slot(u, most, &slot);
        if (rc)
            return rc;
        memcpy(slot->host, data + at, piece);
        /* counted even if the call fails, because the driver may still read the slot */
        u->f->ncalls++;
        rc = send(u, dst + at, slot->host, piece, &stream);
        if (rc)
            return rc;
        at += piece;
        if (at < nbytes && u->again && sp_cuda_slot_mark(u->q, slot, stream) == -ENODEV)
            return -ENODEV;
    }
    return 0;
}

int64_t sp_cuda_upload(struct sp_cuda_queue *q, uint64_t address, const void *data, uint64_t nbytes)
{
    struct upload u = {.q = q, .again = nbytes > (uint64_t)SP_CUDA_SLOTS * SP_CUDA_PIECE_NBYTES};
    int rc = sp_cuda_queue_enter(q, SP_ANY_EPOCH);
    if (rc)
        return rc;
    if (nbytes == 0)
        return sp_cuda_queue_leave(q, (int64_t)sp_queue_newest(&q->q));
    if (u.again)
        sp_cuda_progress(q);
    if (atomic_load(&q->dev->common.lost))
        return sp_cuda_queue_leave(q, -ENODEV);
    /* If all earlier work of the queue has ended, a copy on a separate stream would overlap with
     * nothing. So the queue's own stream copies directly. */
    u.direct = sp_cuda_reached_so_far(q) == sp_queue_newest(&q->q);
    rc = sp_cuda_transfer_begin(q, address, (uint64_t)(uintptr_t)data, nbytes, &u.f);
    if (rc == 0)
        rc = send_all(&u, address, data, nbytes);
    return sp_cuda_queue_leave(q, sp_cuda_transfer_end(q, u.f, q->stream, rc));
}
