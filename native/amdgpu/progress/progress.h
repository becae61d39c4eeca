/* Tracks the progress of a queue. The caller of each function holds the queue's lock, except for
 * sp_amdgpu_sleep. */
#ifndef SP_AMDGPU_PROGRESS_H
#define SP_AMDGPU_PROGRESS_H
#include "amdgpu/flight/queue.h"

void sp_amdgpu_retire(struct sp_amdgpu_queue *q);
void sp_amdgpu_inspect(struct sp_amdgpu_queue *q);
int sp_amdgpu_recover(struct sp_amdgpu_queue *q, int rc);
/* Waits until fewer than SP_JOBS jobs of the engine are in flight. Returns 0, -EAGAIN at the
 * deadline, or -ENODEV if the queue can run no more jobs. */
int sp_amdgpu_room(struct sp_amdgpu_queue *q, const struct sp_engine *engine, uint64_t deadline_ns);
/* Waits at most 0.1 s until all jobs of the queue have ended. Returns 0, -EAGAIN if some have not,
 * or -ENODEV if the queue can run no more jobs. */
int sp_amdgpu_idle(struct sp_amdgpu_queue *q);
int sp_amdgpu_sleep(struct sp_amdgpu_queue *q, uint64_t value, uint64_t deadline_ns);
#endif
