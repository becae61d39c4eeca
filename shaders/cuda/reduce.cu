/* y[o, i] = sum, max or min over r of x[o, r, i]; NaN wins, i32 sums into i64. Groups of 256.
 *
 * `lanes` threads, a power of two, share an output; a group does 256 / lanes of them at once and goes on to the next
 * while there are any, so that any grid will do. Threads next to each other read elements next to each other. */
#include "kernel.h"
#include "vmath.h"

enum : u32 { GROUP = 256 };

#define REDUCE(name, X, Y, FIRST, STEP)                                                                                \
    KERNEL(GROUP) name(OUT(Y) y, IN(X) x, u32 outer, u32 n, u32 inner)                                                 \
    {                                                                                                                  \
        __shared__ Y part[GROUP];                                                                                      \
        const u64 outputs = (u64)outer * inner;                                                                        \
        const u32 me = threadIdx.x;                                                                                    \
        u32 lanes = 1;                                                                                                 \
        while (lanes < GROUP && lanes < n) lanes *= 2;                                                                 \
        const u32 each = GROUP / lanes; /* outputs at once */                                                          \
        const u32 lane = inner == 1 ? me % lanes : me / each, column = inner == 1 ? me / lanes : me % each;            \
        for (u64 q0 = (u64)blockIdx.x * each; q0 < outputs; q0 += (u64)gridDim.x * each) {                             \
            const u64 q = q0 + column;                                                                                 \
            Y acc = FIRST;                                                                                             \
            if (q < outputs) {                                                                                         \
                IN(X) from = x + q / inner * n * inner + q % inner;                                                    \
                for (u64 r = lane; r < n; r += lanes) acc = STEP(acc, (Y)from[r * inner]);                             \
            }                                                                                                          \
            part[lane * each + column] = acc;                                                                          \
            for (u32 step = lanes / 2; step > 0; step /= 2) {                                                          \
                __syncthreads();                                                                                       \
                if (lane < step)                                                                                       \
                    part[lane * each + column] =                                                                       \
                        STEP(part[lane * each + column], part[(lane + step) * each + column]);                         \
            }                                                                                                          \
            if (lane == 0 && q < outputs) y[q] = part[column];                                                         \
            __syncthreads();                                                                                           \
        }                                                                                                              \
    }
#define ADD(a, b) ((a) + (b))
REDUCE(reduce_sum_f32, f32, f32, 0, ADD)
REDUCE(reduce_sum_f64, f64, f64, 0, ADD)
REDUCE(reduce_sum_i32, i32, i64, 0, ADD)
REDUCE(reduce_max_f32, f32, f32, -__builtin_inff(), sp_max)
REDUCE(reduce_max_f64, f64, f64, -__builtin_inf(), sp_max)
REDUCE(reduce_max_i32, i32, i32, -2147483647 - 1, sp_max)
REDUCE(reduce_min_f32, f32, f32, __builtin_inff(), sp_min)
REDUCE(reduce_min_f64, f64, f64, __builtin_inf(), sp_min)
REDUCE(reduce_min_i32, i32, i32, 2147483647, sp_min)
