/* The oracle of gemm_f32 and gemm_f64: three plain loops, over a run of columns at a time. f32
 * products are accumulated in double, in order of p, and rounded once. The error is one rounding
 * unit, unless the sum cancels to almost nothing. */
#define SP_USE_LIBM 1
#include "cpu/vector/activation.h"
#include "core/args.h"
#include "gemm.h"

#include <errno.h>

enum { COLUMNS = 256 };

struct naive {
    const void *args;
    uint32_t runs; /* number of pieces of at most COLUMNS columns that a row of c is divided into */
};

#define NAIVE(name, T, ACT)                                                                                            \
    static void name##_task(void *ctx, uint32_t index)                                                                 \
    {                                                                                                                  \
        const struct naive *const job = ctx;                                                                           \
        const struct sp_args_##name *const v = job->args;                                                              \
        const size_t i = index / job->runs;                                                                            \
        const size_t j0 = (size_t)(index % job->runs) * COLUMNS;                                                       \
        const size_t columns = v->n - j0 < COLUMNS ? v->n - j0 : COLUMNS;                                              \
        double acc[COLUMNS] = {0};                                                                                     \
        for (size_t p = 0; p < v->k; p++)                                                                              \
            for (size_t j = 0; j < columns; j++)                                                                       \
                acc[j] += (double)v->a[i * v->rsa + p * v->csa] * (double)v->b[p * v->rsb + (j0 + j) * v->csb];        \
        for (size_t j = 0; j < columns; j++)                                                                           \
            v->c[i * v->rsc + j0 + j] = ACT((T)(acc[j] + (v->bias ? (double)v->bias[j0 + j] : 0.0)), v->act);          \
    }                                                                                                                  \
    int sp_##name##_naive(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                     \
    {                                                                                                                  \
        const struct sp_args_##name *const v = args;                                                                   \
        struct naive job = {v, (v->n + COLUMNS - 1) / COLUMNS};                                                        \
        const uint64_t tasks = (uint64_t)v->m * job.runs;                                                              \
        if (tasks > UINT32_MAX)                                                                                        \
            return -EINVAL;                                                                                            \
        if (tasks == 0)                                                                                                \
            return 0;                                                                                                  \
        const double flops = 2.0 * (double)v->m * (double)v->n * (double)v->k;                                         \
        const uint32_t threads = sp_gemm_threads(flops, plan, pool);                                                   \
        if (threads == 1)                                                                                              \
            for (uint32_t t = 0; t < tasks; t++)                                                                       \
                name##_task(&job, t);                                                                                  \
        else                                                                                                           \
            sp_pool_run(pool, name##_task, &job, (uint32_t)tasks, threads);                                            \
        return 0;                                                                                                      \
    }

NAIVE(gemm_f32, float, sp_act_f32)
NAIVE(gemm_f64, double, sp_act_f64)
