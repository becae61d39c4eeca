/* noop (what a launch costs), busy_u32 (a known time), peak_fma (what the FMA units do). */
#include "kernel.h"

KERNEL(1, 1) noop(void) {}

/* Each step needs the one before it: nothing to skip. Every group does the whole chain. */
KERNEL(1, 1) busy_u32(OUT(u32) y, u32 iters)
{
    u32 x = 1;
    for (u32 i = 0; i < iters; i++) {
        x = 1664525u * x + 1013904223u;
        __asm__ volatile("" : "+v"(x)); /* the compiler could do several steps at once, as it is linear */
    }
    y[0] = x;
}

/* Counted, not guessed: groups that there are * threads * rounds * chains * links * 2, in 64 bits. The number of groups
 * is a hidden argument (code object v5 and later: hidden_block_count_x is the first), as a device is best filled by a
 * multiple of its compute units.
 *
 * The chains converge to a value that is never 0, which the compiler cannot know: the store after the loop keeps all of
 * them alive and never happens. */
#define PEAK(T, CHAINS)                                                                                                \
    KERNEL(256, 1) peak_fma_##T(OUT(u64) flops, u32 iters)                                                             \
    {                                                                                                                  \
        T c[CHAINS], sum = 0;                                                                                          \
        const T factor = (T)0.999 - (T)(local_x() & 1023u) * (T)1e-6, offset = (T)0.5;                                 \
        _Pragma("unroll") for (int k = 0; k < CHAINS; k++) c[k] = (T)k + (T)0.5;                                       \
        for (u32 i = 0; i < iters; i++)                                                                                \
            _Pragma("unroll") for (int link = 0; link < 8; link++)                                                     \
                _Pragma("unroll") for (int k = 0; k < CHAINS; k++) c[k] = FMA_##T(c[k], factor, offset);               \
        _Pragma("unroll") for (int k = 0; k < CHAINS; k++) sum += c[k];                                                \
        if (sum == 0) flops[0] = 1;                                                                                    \
        if (local_x() == 0 && group_x() == 0) {                                                                        \
            const u32 groups = *(__constant const u32 *)__builtin_amdgcn_implicitarg_ptr();                            \
            flops[0] = (u64)groups * 256 * iters * (8 * CHAINS * 2);                                                   \
        }                                                                                                              \
    }
#define FMA_f32 __builtin_fmaf
#define FMA_f64 __builtin_fma
PEAK(f32, 16)
PEAK(f64, 8)
