/* Finds jobs that have no order between them. Call all functions with the machine's lock. */
#ifndef SP_EMU_KMD_JOBS_ORDER_H
#define SP_EMU_KMD_JOBS_ORDER_H
#include "emu/kmd/state/state.h"

#include "emu/order/log.h"

/* Records that a job is submitted. Call this function before the job's fence becomes visible. The
 * jobs whose fences the job waits for precede it. */
void kmd_order_push(struct kmd_job *job);
/* Call this function when a job begins. It prepares `watch` to check the job's accesses against
 * those of concurrent jobs. Returns 1 if packets of the previous job on `ring` may still be under
 * way, because nothing made this job wait for them. */
int kmd_order_begin(const struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Call this function when the job's packets have been executed. Returns 1 if `watch` has found a
 * conflict: this job and a job without order to it touched the same memory. */
int kmd_order_executed(struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Call this function when the job's end becomes visible. This job precedes every job that is
 * submitted after this call. */
void kmd_order_end(struct kmd_job *job);
void kmd_order_free(struct kmd_machine *machine);
#endif
