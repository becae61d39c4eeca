/* What a launch costs its caller in the fake itself. From the root:
 *   gcc -O2 -o build/fake/launch tests/fake_cuda/cost/launch.c build/fake/libcuda.so.1 -Wl,-rpath,'$ORIGIN'
 * Bursts of 2000 fit into the ring; the best of 200 is the cost itself, the long run shows the stream's thread too. */
#include "../include/api.h"

#include <stdio.h>
#include <time.h>

enum { BURST = 2000, BURSTS = 200, LONG = 400000 };
static const char PTX[] = ".version 8.0\n.target sm_80\n.visible .entry noop() { ret; }\n"
                          ".visible .entry saxpy_f32(.param .u64 y, .param .u64 x, .param .f32 a, .param .u32 n) { ret; }\n";

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static double each(CUfunction f, CUstream s, void **args, int n)
{
    const double begin = now();
    for (int i = 0; i < n; i++)
        cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, args, NULL);
    const double took = now() - begin;
    cuStreamSynchronize(s);
    return took / n;
}

int main(void)
{
    CUcontext context;
    CUmodule module;
    CUfunction functions[2];
    CUstream stream;
    CUdeviceptr memory;
    float a = 2;
    unsigned n = 0;
    void *args[] = {&memory, &memory, &a, &n};
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuStreamCreate(&stream, 1) ||
        cuModuleLoadData(&module, PTX) || cuModuleGetFunction(&functions[0], module, "noop") ||
        cuModuleGetFunction(&functions[1], module, "saxpy_f32") || cuMemAlloc_v2(&memory, 4096))
        return 1;
    for (int k = 0; k < 2; k++) {
        double best = 1e9;
        for (int i = 0; i < BURSTS; i++) {
            const double took = each(functions[k], stream, k ? args : NULL, BURST);
            best = took < best ? took : best;
        }
        printf("%d arguments: %.1f ns, %.1f ns in a long run\n", 4 * k, best,
               each(functions[k], stream, k ? args : NULL, LONG));
    }
    return 0;
}
