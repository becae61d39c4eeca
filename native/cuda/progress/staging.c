/* The common part of uploads and downloads. A transfer goes in pieces through page-locked memory,
 * one slot for each piece. So the host copies one piece while the device moves another, and a
 * transfer of any size needs only a few slots.
 *
 * A piece of SMALL_NBYTES or more crosses the bus on a separate stream, to or from temporary memory
 * of the GPU. Meanwhile the queue's stream runs earlier work. The queue's stream itself copies the
 * bytes between the temporary memory and their place in the GPU's memory, in order. */
#include "staging.h"
#include "cuda/flight/events.h"
#include "cuda/flight/failure.h"
#include "cuda/flight/flight.h"
#include "cuda/flight/order.h"
#include "cuda/flight/submission.h"

#include <errno.h>

/* Smallest piece that uses a separate stream. A smaller copy over the bus (2 us at 32 GB/s) costs
 * no more than the events for such a stream. */
static const uint64_t SMALL_NBYTES = 64 << 10;

int sp_cuda_slot_mark(struct sp_cuda_queue *q, struct sp_cuda_slot *slot, void *stream)
{
    int rc = slot->event ? 0 : sp_cuda_event_take(q, 0, &slot->event);
    if (rc == 0)
        rc = sp_cuda_failed(q, "cuEventRecord", sp_cuEventRecord(slot->event, stream));
    /* if the device is lost, `slot` may be freed already, so do not access it */
    if (rc == -ENODEV && atomic_load(&q->dev->common.lost))
        return rc;
    if (rc) { /* the event was not recorded, so it cannot show the end of the slot's copy */
        sp_cuda_event_give(q, 0, slot->event);
        slot->event = NULL;
    }
    return rc;
}

static int side_stream(struct sp_cuda_queue *q, void **stream)
{
    void *made = NULL;
    if (*stream)
        return 0;
    int rc = SP_CUDA_Q(q, cuStreamCreate, &made, CU_STREAM_NON_BLOCKING);
    pthread_mutex_lock(&q->dev->lock);
    *stream = made;
    pthread_mutex_unlock(&q->dev->lock);
    return rc;
}

int sp_cuda_staging_alloc(struct sp_cuda_queue *q, uint64_t nbytes, void **stream, void *order, uint64_t *address)
{
    if (nbytes < SMALL_NBYTES || !q->dev->pool || side_stream(q, stream))
        return 0;
    return sp_cuMemAllocAsync(address, nbytes, order ? order : *stream) == CU_OK;
}

int sp_cuda_transfer_begin(struct sp_cuda_queue *q, uint64_t dst, uint64_t src, uint64_t nbytes, struct sp_cuda_flight **out)
{
    struct sp_cmd_copy c = {.kind = SP_CMD_COPY, .nbytes = sizeof c, .dst = dst, .src = src, .count = nbytes};
    struct sp_cuda_flight *f = sp_cuda_flight_new(&c, sizeof c);
    *out = f;
    return f ? sp_cuda_flight_begin(q, f) : -ENOMEM;
}

int64_t sp_cuda_transfer_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc)
{
    if (!f)
        return rc;
    for (struct sp_cuda_slot *slot = rc ? f->slots : NULL; slot; slot = slot->next)
        /* after an error the slot's bytes are undefined, so none are copied to `out` */
        slot->out = NULL;
    return sp_cuda_flight_end(q, f, stream, rc);
}
