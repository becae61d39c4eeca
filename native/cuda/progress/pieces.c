/* Downloads (copies to the host) in pieces. A download of a few pieces is submitted at once. A
 * larger one stays open: only its first pieces are submitted. Each piece that arrives frees a slot
 * for the next piece, whenever a waiting thread checks the queue.
 *
 * Later work, on this queue or waiting for this queue, must come after the whole download. So
 * before such work the rest of the download is submitted at once, in as many slots as it needs. */
#include "pieces.h"
#include "cuda/device/context.h"
#include "cuda/flight/query.h"
#include "cuda/flight/failure.h"
#include "cuda/flight/order.h"
#include "cuda/flight/slots.h"
#include "staging.h"

#include <errno.h>
#include <string.h>

static int fetch(struct sp_cuda_queue *q, uint64_t src, void *host, uint64_t nbytes, void **last)
{
    uint64_t between;
    *last = q->stream;
    if (!sp_cuda_staging_alloc(q, nbytes, &q->down, q->stream, &between))
        return sp_cuda_failed(q, "cuMemcpyDtoHAsync", sp_cuMemcpyDtoHAsync_v2(host, src, nbytes, q->stream));
    int rc = sp_cuda_failed(q, "cuMemcpyAsync", sp_cuMemcpyAsync(between, src, nbytes, q->stream));
    if (rc == 0)
        rc = sp_cuda_chain(q, q->stream, q->down);
    if (rc == 0)
        rc = sp_cuda_failed(q, "cuMemcpyDtoHAsync", sp_cuMemcpyDtoHAsync_v2(host, between, nbytes, q->down));
    sp_cuMemFreeAsync(between, rc ? q->stream : q->down);
    *last = q->down;
    return rc;
}

/* Submits the copy of the next piece into `slot`. With `aside`, the copy over the bus runs on a
 * separate stream and leaves the queue's stream free for other work. */
static int send_for(struct sp_cuda_queue *q, struct sp_cuda_flight *f, struct sp_cuda_slot *slot, int aside, void **last)
{
    slot->nbytes = f->rest_nbytes < SP_CUDA_PIECE_NBYTES ? f->rest_nbytes : SP_CUDA_PIECE_NBYTES;
    slot->out = f->rest_out;
    f->ncalls++; /* counted even if the call fails: the driver may still write to the slot */
    *last = q->stream;
    int rc = aside ? fetch(q, f->rest_src, slot->host, slot->nbytes, last)
                   : sp_cuda_failed(q, "cuMemcpyDtoHAsync",
                                    sp_cuMemcpyDtoHAsync_v2(slot->host, f->rest_src, slot->nbytes, q->stream));
    if (rc)
        return rc;
    f->rest_out += slot->nbytes;
    f->rest_src += slot->nbytes;
    f->rest_nbytes -= slot->nbytes;
    /* The only piece of a download needs no event of its own: the end event of the flight covers
     * it. */
    if (f->slots == slot && !f->rest_nbytes)
        return 0;
    rc = sp_cuda_slot_mark(q, slot, *last);
    /* `rc` is an error if the slot's event could not be recorded. That error fails the download if
     * the device is lost, or if a later piece needs the event to learn when the slot is free.
     * Otherwise the flight's end event covers this piece too. */
    return rc == -ENODEV || (f->rest_nbytes && !aside) ? rc : 0;
}

int sp_cuda_pieces(struct sp_cuda_queue *q, struct sp_cuda_flight *f, uint64_t count, int aside, void **last)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < count && f->rest_nbytes; i++) {
        uint64_t most = f->rest_nbytes < SP_CUDA_PIECE_NBYTES && !f->slots ? f->rest_nbytes : SP_CUDA_PIECE_NBYTES;
        struct sp_cuda_slot *slot;
        rc = sp_cuda_slot_add(q, f, most, &slot);
        if (rc == 0)
            rc = send_for(q, f, slot, aside, last);
    }
    return rc;
}

/* Ends an open download: submits no more pieces, and records the flight's end event. After an error
 * `rc`, the fence of the download reports that error. */
static void end_download(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc)
{
    /* if the device is lost, sp_cuda_fail_all has already freed the flight */
    if (rc == -ENODEV && atomic_load(&q->dev->common.lost))
        return;
    sp_cuda_not_open(q);
    f->rest_nbytes = 0;
    if (rc == 0)
        rc = sp_cuda_failed(q, "cuEventRecord", sp_cuEventRecord(f->end, stream));
    else if (rc != -ENODEV && sp_cuda_failed(q, "cuEventRecord", sp_cuEventRecord(f->end, q->stream)) == -ENODEV)
        rc = -ENODEV;
    /* if the device was lost just now, sp_cuda_fail_all has freed the flight */
    if (rc == 0 || atomic_load(&q->dev->common.lost))
        return;
    sp_cuda_keep_words(q, f->value);
    f->rc = rc;
}

int sp_cuda_receive_pieces(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    void *last;
    /* Number of pieces that this call has copied to the caller's memory. One call copies at most
     * SP_CUDA_SLOTS pieces, so that a query of the progress does not take long. */
    uint32_t count = 0;
    while (f->slots && f->slots->out && f->slots->event) {
        struct sp_cuda_slot *slot = f->slots;
        if (count++ == SP_CUDA_SLOTS || !sp_cuda_ended(q, slot->event))
            return 0;
        memcpy(slot->out, slot->host, slot->nbytes);
        if (!f->rest_nbytes) {
            sp_cuda_slot_drop(q, f);
            continue;
        }
        int rc = sp_cuda_enter(q->dev);
        if (rc == 0)
            rc = send_for(q, f, sp_cuda_slot_turn(f), 0, &last);
        if (rc || !f->rest_nbytes)
            end_download(q, f, q->stream, rc);
        if (atomic_load(&q->dev->common.lost))
            return 0;
    }
    return 1;
}

void sp_cuda_settle(struct sp_cuda_queue *q)
{
    struct sp_cuda_flight *f = q->open;
    void *last = q->stream;
    int rc = sp_cuda_enter(q->dev);
    if (rc == 0)
        rc = sp_cuda_pieces(q, f, UINT64_MAX, 1, &last);
    end_download(q, f, last, rc);
}

void sp_cuda_settle_others(struct sp_cuda_queue *q, const void *records, size_t nbytes)
{
    const unsigned char *p = records;
    if (sp_cuda_check(q->dev, records, nbytes)) /* the submission itself will report this error */
        return;
    for (size_t at = 0; at < nbytes; at += ((const struct sp_cmd *)(const void *)(p + at))->nbytes) {
        const struct sp_cmd_wait *w = (const void *)(p + at);
        struct sp_cuda_queue *other = w->kind == SP_CMD_WAIT ? (void *)(uintptr_t)w->queue : NULL;
        if (!other || other == q)
            continue;
        pthread_mutex_lock(other->q.lock);
        if (other->open)
            sp_cuda_settle(other);
        pthread_mutex_unlock(other->q.lock);
    }
    sp_cuda_leave();
}
