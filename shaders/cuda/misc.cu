/* noop (what a launch costs), busy_u32 (a known time), peak_fma (what the FMA units do). */
#include "kernel.h"
#include "vmath.h"

enum : u32 { GROUP = 256 };

KERNEL(1) noop(void) {}

/* Each step needs the one before it: nothing to skip. Every group does the whole chain. */
KERNEL(1) busy_u32(OUT(u32) y, u32 iters)
{
    u32 x = 1;
    for (u32 i = 0; i < iters; i++) {
        x = 1664525u * x + 1013904223u;
        asm volatile("" : "+r"(x)); /* the compiler could do several steps at once, as it is linear */
    }
    y[0] = x;
}

/* Counted, not guessed: groups that there are * threads * rounds * chains * links * 2, in 64 bits.
 *
 * The chains converge to a value that is never 0, which the compiler cannot know: the store after the loop keeps all of
 * them alive and never happens. */
#define PEAK(T, CHAINS)                                                                                                \
    KERNEL(GROUP) peak_fma_##T(OUT(u64) flops, u32 iters)                                                              \
    {                                                                                                                  \
        T c[CHAINS], sum = 0;                                                                                          \
        const T factor = (T)0.999 - (T)(threadIdx.x & 1023u) * (T)1e-6, offset = (T)0.5;                               \
        _Pragma("unroll") for (int k = 0; k < CHAINS; k++) c[k] = (T)k + (T)0.5;                                       \
        for (u32 i = 0; i < iters; i++)                                                                                \
            _Pragma("unroll") for (int link = 0; link < 8; link++)                                                     \
                _Pragma("unroll") for (int k = 0; k < CHAINS; k++) c[k] = sp_fma(c[k], factor, offset);                \
        _Pragma("unroll") for (int k = 0; k < CHAINS; k++) sum += c[k];                                                \
        if (sum == 0) flops[0] = 1;                                                                                    \
        if (threadIdx.x == 0 && blockIdx.x == 0)                                                                       \
            flops[0] = (u64)gridDim.x * GROUP * iters * (8 * CHAINS * 2);                                              \
    }
PEAK(f32, 16)
PEAK(f64, 8)
