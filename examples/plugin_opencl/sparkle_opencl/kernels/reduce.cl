/* y[o, i] = sum, max or min over r of x[o, r, i]; NaN wins, i32 sums into i64. Groups of 64.
 *
 * A group of threads adds up one output after the other, each thread every 64th term of it; then one
 * thread adds up what they have. */
#define GROUP 64

#define REDUCE(name, X, Y, FIRST, STEP)                                                            \
    __kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))                                    \
    void name(OUT(Y) y, IN(X) x, u32 outer, u32 n, u32 inner)                                      \
    {                                                                                              \
        __local Y part[GROUP];                                                                     \
        const u32 me = get_local_id(0);                                                            \
        const u64 outputs = (u64)outer * inner;                                                    \
        for (u64 q = get_group_id(0); q < outputs; q += get_num_groups(0)) {                       \
            IN(X) from = x + q / inner * n * inner + q % inner;                                    \
            Y sum = FIRST;                                                                         \
            for (u64 r = me; r < n; r += GROUP) sum = STEP(sum, (Y)from[r * inner]);               \
            part[me] = sum;                                                                        \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
            if (me == 0) {                                                                         \
                for (u32 t = 1; t < GROUP; t++) sum = STEP(sum, part[t]);                          \
                y[q] = sum;                                                                        \
            }                                                                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                          \
        }                                                                                          \
    }
#define ADD(a, b) ((a) + (b))
#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))
#define FLOATING(T)                                                                                \
    REDUCE(reduce_sum_##T, T, T, 0, ADD)                                                           \
    REDUCE(reduce_max_##T, T, T, -(T)INFINITY, max_of_##T)                                         \
    REDUCE(reduce_min_##T, T, T, (T)INFINITY, min_of_##T)
FLOATING(f32)
WITH_F64(FLOATING(f64))
REDUCE(reduce_sum_i32, i32, i64, 0, ADD)
REDUCE(reduce_max_i32, i32, i32, INT_MIN, MORE)
REDUCE(reduce_min_i32, i32, i32, INT_MAX, LESS)
