/* y[o, i] = sum, max or min over r of x[o, r, i]; NaN wins, i32 sums into i64. Groups of 256.
 *
 * `lanes` threads, a power of two, share an output; a group does 256 / lanes of them at once and goes on to the next
 * while there are any, so that any grid will do. Threads next to each other read elements next to each other. */
#include "kernel.h"
#include "vmath.h"

enum { GROUP = 256 };

#define REDUCE(name, X, Y, FIRST, STEP)                                                                                \
    KERNEL(GROUP, 1) name(OUT(Y) y, IN(X) x, u32 outer, u32 n, u32 inner)                                              \
    {                                                                                                                  \
        __local Y part[GROUP];                                                                                         \
        const u64 outputs = (u64)outer * inner;                                                                        \
        const u32 me = local_x();                                                                                      \
        u32 lanes = 1;                                                                                                 \
        while (lanes < GROUP && lanes < n) lanes *= 2;                                                                 \
        const u32 each = GROUP / lanes; /* outputs at once */                                                          \
        const u32 lane = inner == 1 ? me % lanes : me / each, column = inner == 1 ? me / lanes : me % each;            \
        const u32 groups = *(__constant const u32 *)__builtin_amdgcn_implicitarg_ptr();                                \
        for (u64 q0 = (u64)group_x() * each; q0 < outputs; q0 += (u64)groups * each) {                                 \
            const u64 q = q0 + column;                                                                                 \
            Y acc = FIRST;                                                                                             \
            if (q < outputs) {                                                                                         \
                IN(X) from = x + q / inner * n * inner + q % inner;                                                    \
                for (u64 r = lane; r < n; r += lanes) acc = STEP(acc, (Y)from[r * inner]);                             \
            }                                                                                                          \
            part[lane * each + column] = acc;                                                                          \
            for (u32 step = lanes / 2; step > 0; step /= 2) {                                                          \
                barrier_local();                                                                                       \
                if (lane < step)                                                                                       \
                    part[lane * each + column] =                                                                       \
                        STEP(part[lane * each + column], part[(lane + step) * each + column]);                         \
            }                                                                                                          \
            if (lane == 0 && q < outputs) y[q] = part[column];                                                         \
            barrier_local();                                                                                           \
        }                                                                                                              \
    }
#define ADD(a, b) ((a) + (b))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))
REDUCE(reduce_sum_f32, f32, f32, 0, ADD)
REDUCE(reduce_sum_f64, f64, f64, 0, ADD)
REDUCE(reduce_sum_i32, i32, i64, 0, ADD)
REDUCE(reduce_max_f32, f32, f32, -__builtin_inff(), sp_max_f32)
REDUCE(reduce_max_f64, f64, f64, -__builtin_inf(), sp_max_f64)
REDUCE(reduce_max_i32, i32, i32, -2147483647 - 1, MORE)
REDUCE(reduce_min_f32, f32, f32, __builtin_inff(), sp_min_f32)
REDUCE(reduce_min_f64, f64, f64, __builtin_inf(), sp_min_f64)
REDUCE(reduce_min_i32, i32, i32, 2147483647, LESS)
