/* Submits a flight: records an event after the flight's work, and appends the flight to the queue's
 * list. */
#include "submission.h"
#include "cuda/device/context.h"
#include "failure.h"
#include "flight.h"
#include "order.h"

#include <errno.h>

int sp_cuda_flight_begin(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    int rc = sp_cuda_enter(q->dev);
    if (rc == 0)
        rc = sp_cuda_order_memory(q);
    if (rc == 0 && q->timing && (rc = sp_cuda_event_take(q, 1, &f->start)) == 0)
        rc = sp_cuda_failed(q, "cuEventRecord", sp_cuEventRecord(f->start, q->stream));
    return rc ? rc : sp_cuda_event_take(q, q->timing, &f->end);
}

int64_t sp_cuda_flight_end(struct sp_cuda_queue *q, struct sp_cuda_flight *f, void *stream, int rc)
{
    if (rc == 0 || (rc != -ENODEV && f->ncalls)) {
        if (rc) /* the rest of the submission failed: a wait for its value reports that */
            sp_cuda_keep_words(q, sp_queue_newest(&q->q) + 1);
        f->rc = rc;
        rc = sp_cuda_failed(q, "cuEventRecord", sp_cuEventRecord(f->end, stream));
    }
    if (rc) {
        /* If the driver has accepted a call of this flight, a copy may still use the flight's
         * page-locked memory. No event shows when that use ends. So that memory is never freed. */
        (f->ncalls ? sp_cuda_flight_abandon : sp_cuda_flight_drop)(q, f);
        return rc;
    }
    return sp_cuda_flight_list(q, f);
}

int64_t sp_cuda_flight_list(struct sp_cuda_queue *q, struct sp_cuda_flight *f)
{
    f->submitted_ns = sp_clock_ns();
    f->value = sp_queue_take_value(&q->q);
    q->marked = f->value;
    if (q->tail)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
    return (int64_t)f->value;
}
