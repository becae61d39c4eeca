/* Marks: a mark is an event that is recorded after several launches, which have no events of their
 * own. */
#include "mark.h"
#include "cuda/device/context.h"
#include "flight.h"
#include "order.h"

void sp_cuda_mark(struct sp_cuda_queue *q)
{
    struct sp_cuda_flight *f = sp_cuda_flight_new(NULL, 0);
    if (!f)
        return;
    f->mark = 1;
    f->value = sp_queue_newest(&q->q);
    if (sp_cuda_event_take(q, q->timing, &f->end) || sp_cuEventRecord(f->end, q->stream)) {
        /* without a mark, queries of the stream show when the launches end */
        sp_cuda_flight_drop(q, f);
        return;
    }
    f->submitted_ns = sp_clock_ns();
    q->marked = f->value;
    if (q->tail)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
}

void sp_cuda_mark_asked(struct sp_cuda_queue *q)
{
    if (q->asked == sp_queue_newest(&q->q) && sp_cuda_make_current(q->dev) == 0)
        sp_cuda_mark(q);
    q->asked = 0;
}
