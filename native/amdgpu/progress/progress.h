/* Progress of a queue. Callers hold the queue's lock, except for sleep. */
#ifndef SP_AMDGPU_PROGRESS_H
#define SP_AMDGPU_PROGRESS_H
#include "amdgpu/flight/queue.h"

void sp_amdgpu_retire(struct sp_amdgpu_queue *q);
void sp_amdgpu_inspect(struct sp_amdgpu_queue *q);
int sp_amdgpu_recover(struct sp_amdgpu_queue *q, int rc);
/* Waits for a free slot. 0, -EAGAIN, or the error of the queue. */
int sp_amdgpu_room(struct sp_amdgpu_queue *q, const struct sp_engine *engine, uint64_t deadline_ns);
/* Waits 0.1 s until no submission is in flight. 0, -EAGAIN, or the error of the queue. */
int sp_amdgpu_idle(struct sp_amdgpu_queue *q);
int sp_amdgpu_sleep(struct sp_amdgpu_queue *q, uint64_t value, uint64_t deadline_ns);
#endif
