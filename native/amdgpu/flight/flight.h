/* Submissions in flight: begun, enqueued, retired. */
#ifndef SP_AMDGPU_FLIGHT_H
#define SP_AMDGPU_FLIGHT_H
#include "queue.h"

/* Begins a submission. With `recorded`, the records are already stored there. */
struct sp_flight *sp_flight_begin(struct sp_amdgpu_queue *q, struct sp_recorded *recorded, const void *records, size_t nbytes);
void sp_flight_end(struct sp_amdgpu_queue *q, struct sp_flight *f);
/* Appends it to the submissions in flight. */
static inline void sp_flight_line_up(struct sp_amdgpu_queue *q, struct sp_flight *f)
{
    f->job = f->engine->jobs;
    if (q->tail)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
    atomic_store_explicit(&q->sent, f->value, memory_order_release);
}
/* The kernel has accepted a job of this engine with sequence number `seq`. */
static inline void sp_flight_took(struct sp_amdgpu_queue *q, struct sp_engine *e, uint64_t seq, uint32_t ndw, uint32_t ndispatches)
{
    e->jobs++;
    e->base = e->jobs - seq;
    sp_count(&q->counted.jobs, 1);
    sp_count(&q->counted.dma_jobs, e->ip == AMDGPU_HW_IP_DMA);
    sp_count(&q->counted.ib_ndw, ndw);
    sp_count(&q->counted.dispatches, ndispatches);
}
#endif
