/* Finds jobs that have no order between them. Call all functions with the machine's lock. */
#ifndef SP_EMU_KMD_JOBS_ORDER_H
#define SP_EMU_KMD_JOBS_ORDER_H
#include "emu/kmd/state/state.h"

#include "emu/order/log.h"

/* Call it when a job is submitted, before its fence becomes visible. The job comes after the jobs
 * whose fences it waits for. */
void kmd_order_push(struct kmd_job *job);
/* Call it when a job begins: `watch` will check the job's accesses against those of concurrent
 * jobs. Returns 1 if packets of the ring's last job may still be under way, because this job did
 * not have to wait for them. */
int kmd_order_begin(const struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Call it when the job's packets have been executed. Returns 1 if `watch` has found a
 * conflict: this job and an unordered job touched the same memory. */
int kmd_order_executed(struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Call it when the job's end becomes visible. Jobs submitted from now on come after this job. */
void kmd_order_end(struct kmd_job *job);
void kmd_order_free(struct kmd_machine *machine);
#endif
