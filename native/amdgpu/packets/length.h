/* The length of a kernel's jobs. */
#ifndef SP_AMDGPU_LENGTH_H
#define SP_AMDGPU_LENGTH_H
#include "ib.h"

/* Most threads of a kernel in one job. */
static inline uint64_t sp_job_limit(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k)
{
    return dev->setup.job_threads ? atomic_load_explicit(&k->job_threads, memory_order_relaxed) : UINT64_MAX;
}

/* 1 if a job of `threads` is long enough to measure a kernel's speed. */
static inline int sp_job_tells(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k, uint64_t threads)
{
    return threads >= dev->setup.measured_threads || threads >= sp_job_limit(dev, k) / 2;
}

/* before the job's first dispatch */
void sp_job_measure(struct sp_job *job, struct sp_amdgpu_kernel *k, uint64_t threads);
/* at the end of a measured job */
void sp_job_measure_end(struct sp_job *job);
/* learns from ended compute jobs */
void sp_amdgpu_learn(struct sp_amdgpu_queue *q, uint64_t done, uint64_t now_done);
#endif
