/* Implements the clock, the fork guard and the counts of live objects. */
#include "base.h"

#include <pthread.h>
#include <time.h>

static _Atomic uint32_t fork_generation;
static struct sp_live_atomic live;

static void in_child(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

/* Registers a fork handler when the library is loaded. dlclose removes the handler, so it never
 * runs in an unloaded library. */
__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

uint32_t sp_fork_generation(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

static uint64_t clock_of(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sp_clock_ns(void)
{
    return clock_of(CLOCK_MONOTONIC);
}

uint64_t sp_clock_coarse_ns(void)
{
    return clock_of(CLOCK_MONOTONIC_COARSE);
}

struct sp_live_atomic *sp_live(void)
{
    return &live;
}

void sp_live_counts(struct sp_live *out)
{
    out->devices = atomic_load(&live.devices);
    out->queues = atomic_load(&live.queues);
    out->kernels = atomic_load(&live.kernels);
    out->allocations = atomic_load(&live.allocations);
    out->allocated_nbytes = atomic_load(&live.allocated_nbytes);
}
