/* Jobs that nothing orders. All under the machine's lock. */
#ifndef SP_EMU_KMD_JOBS_ORDER_H
#define SP_EMU_KMD_JOBS_ORDER_H
#include "emu/kmd/state/state.h"

#include "emu/order/log.h"

/* A job is submitted, before others see its fence: it comes after those whose fences it waits for. */
void kmd_order_push(struct kmd_job *job);
/* It begins: `watch` looks at what it shares with others, if there are any. 1: packets of its ring's last job may still be under
 * way, for nothing made it wait for them. */
int kmd_order_begin(const struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Its packets have been executed. 1: `watch` has found what it must not share. */
int kmd_order_executed(struct kmd_ring *ring, const struct kmd_job *job, struct sp_watch *watch);
/* Somebody may know that it has ended: what is submitted from now on comes after it. */
void kmd_order_end(struct kmd_job *job);
void kmd_order_free(struct kmd_machine *machine);
#endif
