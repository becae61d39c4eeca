/* A canary is a job of NOPs that tests the rings of a queue after a reset. */
#ifndef SP_AMDGPU_CANARY_H
#define SP_AMDGPU_CANARY_H
#include "amdgpu/flight/queue.h"

/* Tests the rings of a queue. The caller holds the queue's lock, and the queue's context has no
 * jobs. Returns 0 if the queue's engines run jobs, perhaps in another context on other rings.
 * Returns -ENODEV, and marks the device as lost, if no ring runs a job. If only the copy engine is
 * dead, the device stops using the copy engine. */
int sp_amdgpu_canary(struct sp_amdgpu_queue *q);
#endif
