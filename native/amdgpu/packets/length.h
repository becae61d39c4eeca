/* How long the jobs of a kernel become. */
#ifndef SP_AMDGPU_LENGTH_H
#define SP_AMDGPU_LENGTH_H
#include "ib.h"

/* How many threads of a kernel a job may have. */
static inline uint64_t sp_job_limit(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k)
{
    return dev->setup.job_threads ? atomic_load_explicit(&k->job_threads, memory_order_relaxed) : UINT64_MAX;
}

/* Is a job of so many threads long enough to tell how fast a kernel is? */
static inline int sp_job_tells(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k, uint64_t threads)
{
    return threads >= dev->setup.measured_threads || threads >= sp_job_limit(dev, k) / 2;
}

void sp_job_measure(struct sp_job *job, struct sp_amdgpu_kernel *k, uint64_t threads); /* before its first dispatch */
void sp_job_measure_end(struct sp_job *job);                                           /* of one that is measured */
void sp_amdgpu_learn(struct sp_amdgpu_queue *q, uint64_t done, uint64_t now_done); /* compute jobs that have ended */
#endif
