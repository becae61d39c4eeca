/* An OpenMP program's inner loop, as a library for benchmarks/pool_stalls.py: parallel regions of a given length, in all
 * threads that the runtime has. Its threads spin between regions as the runtime was told (OMP_WAIT_POLICY). */
#include <omp.h>
#include <stdint.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int team_threads(void)
{
    return omp_get_max_threads();
}

/* One region in which every thread works for `ns`; how long it took in all. */
int64_t team_region(int64_t ns)
{
    const int64_t begin = now_ns();
#pragma omp parallel
    {
        const int64_t start = now_ns();
        while (now_ns() - start < ns) {
        }
    }
    return now_ns() - begin;
}
