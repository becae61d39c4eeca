/* Submissions in flight: how they begin, enter the queue's list, and end. */
#ifndef SP_AMDGPU_FLIGHT_H
#define SP_AMDGPU_FLIGHT_H
#include "queue.h"

/* Allocates the struct of a submission. If `recorded` is not NULL, the submission uses the records
 * stored in `recorded`. Otherwise it gets a copy of `records`. */
struct sp_flight *sp_flight_begin(struct sp_amdgpu_queue *q, struct sp_cached_ib *recorded, const void *records, size_t nbytes);
void sp_flight_end(struct sp_amdgpu_queue *q, struct sp_flight *f);
/* Appends the submission `f` to the queue's list of submissions in flight. */
static inline void sp_flight_append(struct sp_amdgpu_queue *q, struct sp_flight *f)
{
    f->job = f->engine->jobs;
    if (q->tail)
        q->tail->next = f;
    else
        q->head = f;
    q->tail = f;
    atomic_store_explicit(&q->sent, f->value, memory_order_release);
}
/* Counts a job of engine `e` that the kernel driver has accepted with sequence number `seq`. */
static inline void sp_flight_count_job(struct sp_amdgpu_queue *q, struct sp_engine *e, uint64_t seq, uint32_t ndw, uint32_t ndispatches)
{
    e->jobs++;
    e->base = e->jobs - seq;
    sp_count(&q->counted.jobs, 1);
    sp_count(&q->counted.dma_jobs, e->ip == AMDGPU_HW_IP_DMA);
    sp_count(&q->counted.ib_ndw, ndw);
    sp_count(&q->counted.dispatches, ndispatches);
}
#endif
