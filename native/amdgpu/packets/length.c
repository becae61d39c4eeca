/* Limits the duration of jobs, because some versions of the kernel driver kill jobs that take 2 s.
 *
 * Only jobs that have run show how many threads fit into a given time. So the first jobs of a
 * kernel are short. The limit of threads in later jobs follows from measured durations, of jobs
 * that hold one piece of a grid and nothing else. The limit shrinks at once, and grows step by
 * step. */
#include "length.h"
#include "amdgpu/device/anchor.h"
#include "clock.h"
#include "order.h"

/* One measured job raises a kernel's limit of threads per job to at most GROWTH times that job's
 * own threads. */
enum { GROWTH = 4 };

uint64_t sp_amdgpu_job_threads(const struct sp_amdgpu_kernel *k)
{
    return atomic_load_explicit(&k->job_threads, memory_order_relaxed);
}

/* Returns the index in `ticks` of the first of the job's two clock values. The first SP_TICKS
 * entries are for timestamps of submissions; the entries of jobs follow. */
static uint32_t tick_of(const struct sp_job *job)
{
    return SP_TICKS + 2 * (uint32_t)(job->flight->engine->jobs % SP_JOBS);
}

void sp_job_measure(struct sp_job *job, struct sp_amdgpu_kernel *k, uint64_t threads)
{
    const struct sp_amdgpu_setup *s = &job->q->dev->setup;
    if (!s->job_threads || !s->job_ns || !s->counter_khz)
        return;
    sp_encode_start(job, job->q->ticks->va + 8 * (uint64_t)tick_of(job));
    job->measured = (struct sp_measured){k, threads};
}

void sp_job_measure_end(struct sp_job *job)
{
    sp_job_order(job);
    sp_encode_clock(job, job->q->ticks->va + 8 * (uint64_t)(tick_of(job) + 1));
}

static void learn(const struct sp_amdgpu *dev, const struct sp_measured *m, uint64_t ns)
{
    uint64_t limit = sp_amdgpu_job_threads(m->kernel);
    unsigned __int128 fit = (unsigned __int128)m->threads * dev->setup.job_ns / (ns ? ns : 1);
    uint64_t most = m->threads > UINT64_MAX / GROWTH ? UINT64_MAX : m->threads * GROWTH;
    uint64_t threads = fit < most ? (uint64_t)fit : most;
    /* Only a job with at least half as many threads as the kernel's limit may raise this limit. */
    if (threads < limit || m->threads >= limit / 2)
        atomic_store_explicit(&m->kernel->job_threads, threads ? threads : 1, memory_order_relaxed);
    if (threads < limit)
        atomic_fetch_add(&m->kernel->dev->kernel_turn, 1);
}

void sp_amdgpu_learn(struct sp_amdgpu_queue *q, uint64_t done, uint64_t now_done)
{
    const volatile uint64_t *ticks = sp_amdgpu_host(q->ticks);
    for (; done < now_done; done++) {
        uint64_t slot = done % SP_JOBS, start = ticks[SP_TICKS + 2 * slot], end = ticks[SP_TICKS + 2 * slot + 1];
        struct sp_measured *m = &q->measured[slot];
        if (m->kernel && end > start)
            learn(q->dev, m, sp_ticks_ns(q->dev, end - start));
        m->kernel = NULL;
    }
}
