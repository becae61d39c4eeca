/* Scratch memory of a queue's kernels. */
#ifndef SP_AMDGPU_SCRATCH_H
#define SP_AMDGPU_SCRATCH_H
#include "amdgpu/flight/queue.h"

int sp_amdgpu_queue_scratch(struct sp_amdgpu_queue *q, uint64_t wave_nbytes);
#endif
