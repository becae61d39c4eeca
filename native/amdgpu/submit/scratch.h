/* Sizes the scratch memory for the kernels of a queue. */
#ifndef SP_AMDGPU_SCRATCH_H
#define SP_AMDGPU_SCRATCH_H
#include "amdgpu/flight/queue.h"

/* The scratch memory that dispatches need: the most bytes per wave, and the most waves per group.
 * All waves of a group run in one shader engine, so that engine has scratch for all of them at
 * once. */
struct sp_scratch_need {
    uint64_t wave_nbytes;
    uint64_t group_waves;
};
/* Raises `need` so that it covers this dispatch too. */
void sp_scratch_more(struct sp_scratch_need *need, const struct sp_cmd_dispatch *d);
/* Checks the scratch of a dispatch. Returns -E2BIG if one group in each shader engine needs more
 * than SP_AMDGPU_SCRATCH_MOST bytes, otherwise 0. */
int sp_scratch_check(const struct sp_amdgpu *dev, const struct sp_cmd_dispatch *d);
int sp_amdgpu_queue_scratch(struct sp_amdgpu_queue *q, const struct sp_scratch_need *need);
#endif
