/* The C baseline of cuda_launch.py: ns of a cuLaunchKernel, over a burst of `count`; negative: its CUresult. */
#include <stdint.h>
#include <time.h>

typedef int launch_function(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                            void **);

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

double burst(launch_function *launch, void *kernel, void *stream, void **args, int count)
{
    const double start = now();
    for (int i = 0; i < count; i++) {
        const int result = launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, args, 0);
        if (result) return -result;
    }
    return (now() - start) / count;
}
