/* A job of NOPs that tests a queue's rings after a reset. */
#ifndef SP_AMDGPU_CANARY_H
#define SP_AMDGPU_CANARY_H
#include "amdgpu/flight/queue.h"

/* Call it with the queue's lock and a context without jobs. 0: the queue's engines run jobs,
 * perhaps in another context on other rings. -ENODEV: no ring runs a job; the device is lost. If
 * only the copy engine is dead, it is no longer used. */
int sp_amdgpu_canary(struct sp_amdgpu_queue *q);
#endif
