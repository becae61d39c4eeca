/* Limits the duration of a kernel's jobs. */
#ifndef SP_AMDGPU_LENGTH_H
#define SP_AMDGPU_LENGTH_H
#include "ib.h"

/* Returns the largest number of threads that one job of this kernel may have. */
static inline uint64_t sp_job_limit(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k)
{
    return dev->setup.job_threads ? atomic_load_explicit(&k->job_threads, memory_order_relaxed) : UINT64_MAX;
}

/* Returns 1 if a job of this kernel with `threads` threads is long enough to measure the
 * kernel's speed. */
static inline int sp_job_tells(const struct sp_amdgpu *dev, const struct sp_amdgpu_kernel *k, uint64_t threads)
{
    return threads >= dev->setup.measured_threads || threads >= sp_job_limit(dev, k) / 2;
}

/* Encodes the start of the measurement of a job's duration, before the job's first dispatch. */
void sp_job_measure(struct sp_job *job, struct sp_amdgpu_kernel *k, uint64_t threads);
/* Encodes the end of the measurement of a job's duration, at the end of the IB. */
void sp_job_measure_end(struct sp_job *job);
/* Adapts how many threads one job of each kernel may have. Uses the durations of the compute
 * jobs that have ended since the count of ended jobs was `done`. `now_done` is the count now. */
void sp_amdgpu_learn(struct sp_amdgpu_queue *q, uint64_t done, uint64_t now_done);
#endif
