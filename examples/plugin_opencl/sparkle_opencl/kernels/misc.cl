/* noop (what a launch costs), busy_u32 (a known time), peak_fma (what the FMA units do). */
__kernel void noop(void) {}

/* Each step needs the one before it; volatile, as several at once are as linear as one. */
__kernel void busy_u32(OUT(u32) y, u32 iters)
{
    volatile u32 x = 1;
    for (u32 i = 0; i < iters; i++)
        x = 1664525u * x + 1013904223u;
    y[0] = x;
}

/* Counted, not guessed: threads * rounds * numbers of a chain * chains * links * 2. The chains run to
 * a value that is never 0, which the compiler cannot know: so the store keeps all of them alive. */
#define CHAINS 8
#define LINKS 8
#define PEAK(T, W)                                                                                 \
    __kernel void peak_fma_##T(OUT(u64) flops, u32 iters)                                          \
    {                                                                                              \
        VECTOR_##T c[CHAINS], sum = 0;                                                             \
        const VECTOR_##T factor = (T)0.999 - (T)(get_local_id(0) & 1023) * (T)1e-6;                \
        const VECTOR_##T offset = (T)0.5;                                                          \
        for (int k = 0; k < CHAINS; k++) c[k] = (T)k + (T)0.5;                                     \
        for (u32 i = 0; i < iters; i++)                                                            \
            for (int link = 0; link < LINKS; link++)                                               \
                for (int k = 0; k < CHAINS; k++) c[k] = fma(c[k], factor, offset);                 \
        for (int k = 0; k < CHAINS; k++) sum += c[k];                                              \
        if (sum.s0 + sum.s1 == 0) flops[0] = 1;                                                    \
        if (get_global_id(0) == 0)                                                                 \
            flops[0] = (u64)get_global_size(0) * iters * (W * CHAINS * LINKS * 2);                 \
    }
PEAK(f32, 8)
WITH_F64(PEAK(f64, 4))
