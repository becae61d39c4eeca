/* Jobs without an order. All functions under the machine's lock. */
#ifndef SP_EMU_KMD_JOBS_ORDER_H
#define SP_EMU_KMD_JOBS_ORDER_H
#include "emu/kmd/state/state.h"

#include "emu/order/log.h"

/* A job is submitted, before its fence becomes visible: it comes after the jobs whose fences it
 * waits for. */
void kmd_order_push(struct kmd_job *job);
/* A job begins: `watch` checks its accesses against those of concurrent jobs. 1: packets of its
 * ring's last job may still be under way, because it did not have to wait for them. */
int kmd_order_begin(const struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Its packets have been executed. 1: `watch` has found a conflict. */
int kmd_order_executed(struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Its end is visible: jobs submitted from now on come after it. */
void kmd_order_end(struct kmd_job *job);
void kmd_order_free(struct kmd_machine *machine);
#endif
