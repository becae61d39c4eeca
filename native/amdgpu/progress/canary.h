/* A job of nothing, before a queue goes on after a reset. */
#ifndef SP_AMDGPU_CANARY_H
#define SP_AMDGPU_CANARY_H
#include "amdgpu/flight/queue.h"

/* With the queue's lock and a context without jobs: 0 when the queue's engines run jobs (maybe in another context, on other
 * rings), -ENODEV when the device is lost: no ring runs any. An engine for copies that does not is given up alone. */
int sp_amdgpu_canary(struct sp_amdgpu_queue *q);
#endif
