/* y[o, i] = sum, max or min over r of x[o, r, i]; NaN wins; f32 sums in double, i32 sums in int64. Any grid will do. */
#include "kernels.h"

#include <math.h>

#define SUM(a, v) ((a) + (v))
#define MAX(a, v) ((v) > (a) || (v) != (v) ? (v) : (a))
#define MIN(a, v) ((v) < (a) || (v) != (v) ? (v) : (a))
#define REDUCE(name, X, ACC, Y, FIRST, STEP)                                                                           \
    static int run_##name(const struct fk_launch *l)                                                                   \
    {                                                                                                                  \
        const struct {                                                                                                 \
            Y *y;                                                                                                      \
            const X *x;                                                                                                \
            uint32_t outer, n, inner;                                                                                  \
        } *const v = (const void *)l->args;                                                                            \
        FK_NEED(v->y, (uint64_t)v->outer * v->inner);                                                                  \
        FK_NEED(v->x, (uint64_t)v->outer * v->n * v->inner);                                                           \
        for (uint64_t o = 0; o < v->outer; o++)                                                                        \
            for (uint64_t i = 0; i < v->inner; i++) {                                                                  \
                ACC acc = FIRST;                                                                                       \
                for (uint64_t r = 0; r < v->n; r++) {                                                                  \
                    const ACC value = (ACC)v->x[(o * v->n + r) * v->inner + i];                                        \
                    acc = STEP(acc, value);                                                                            \
                }                                                                                                      \
                v->y[o * v->inner + i] = (Y)acc;                                                                       \
            }                                                                                                          \
        return 0;                                                                                                      \
    }
REDUCE(reduce_sum_f32, float, double, float, 0, SUM)
REDUCE(reduce_sum_f64, double, double, double, 0, SUM)
REDUCE(reduce_sum_i32, int32_t, int64_t, int64_t, 0, SUM)
REDUCE(reduce_max_f32, float, float, float, -INFINITY, MAX)
REDUCE(reduce_max_f64, double, double, double, -(double)INFINITY, MAX)
REDUCE(reduce_max_i32, int32_t, int32_t, int32_t, INT32_MIN, MAX)
REDUCE(reduce_min_f32, float, float, float, INFINITY, MIN)
REDUCE(reduce_min_f64, double, double, double, (double)INFINITY, MIN)
REDUCE(reduce_min_i32, int32_t, int32_t, int32_t, INT32_MAX, MIN)

#define ROW(name) {#name, "ppuuu", run_##name, {0}}
struct fk_kernel fk_kernels_reduce[] = {
    ROW(reduce_sum_f32), ROW(reduce_sum_f64), ROW(reduce_sum_i32), ROW(reduce_max_f32), ROW(reduce_max_f64),
    ROW(reduce_max_i32), ROW(reduce_min_f32), ROW(reduce_min_f64), ROW(reduce_min_i32), {0},
};
