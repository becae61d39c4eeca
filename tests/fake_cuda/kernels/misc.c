/* Kernels that exist for what they cost: noop, busy_u32, peak_fma. */
#include "kernels.h"

static int run_noop(const struct fk_launch *l)
{
    (void)l;
    return 0;
}

struct busy_u32_args {
    uint32_t *y;
    uint32_t iters;
};
static int run_busy_u32(const struct fk_launch *l)
{
    const struct busy_u32_args v = *(const struct busy_u32_args *)l->args;
    uint32_t x = 1;
    FK_NEED(v.y, 1);
    for (uint32_t i = 0; i < v.iters; i++)
        x = 1664525u * x + 1013904223u;
    *v.y = x;
    return 0;
}

struct peak_args {
    uint64_t *flops;
    uint32_t iters;
};
enum { CHAINS = 16 };

/* Two operations a fused multiply-add, CHAINS of them a round, on every thread: really done, by one thread here. */
#define PEAK(name, T)                                                                                                  \
    static int run_##name(const struct fk_launch *l)                                                                   \
    {                                                                                                                  \
        const struct peak_args v = *(const struct peak_args *)l->args;                                                 \
        volatile T sink;                                                                                               \
        T chain[CHAINS] = {0};                                                                                         \
        FK_NEED(v.flops, 1);                                                                                           \
        for (uint32_t i = 0; i < v.iters; i++)                                                                         \
            for (int c = 0; c < CHAINS; c++)                                                                           \
                chain[c] = chain[c] * (T)0.999 + (T)0.5;                                                               \
        for (int c = 0; c < CHAINS; c++)                                                                               \
            sink = chain[c];                                                                                           \
        (void)sink;                                                                                                    \
        *v.flops = (uint64_t)v.iters * CHAINS * 2;                                                                     \
        return 0;                                                                                                      \
    }
PEAK(peak_fma_f32, float)
PEAK(peak_fma_f64, double)

struct fk_kernel fk_kernels_misc[] = {
    {"noop", "", run_noop, {0}},
    {"busy_u32", "pu", run_busy_u32, {0}},
    {"peak_fma_f32", "pu", run_peak_fma_f32, {0}},
    {"peak_fma_f64", "pu", run_peak_fma_f64, {0}},
    {0},
};
