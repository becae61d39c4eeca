/* How long the jobs of a kernel become. */
#ifndef SP_AMDGPU_LENGTH_H
#define SP_AMDGPU_LENGTH_H
#include "ib.h"

uint64_t sp_job_limit(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k);
void sp_job_measure(struct sp_job *job, struct sp_amdgpu_kernel *k, uint64_t threads); /* before its first dispatch */
void sp_job_measure_end(struct sp_job *job);
void sp_amdgpu_learn(struct sp_amdgpu_queue *q, uint64_t done, uint64_t now_done); /* compute jobs that have ended */
#endif
