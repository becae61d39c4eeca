/* c = act(a * b + bias), any strides of a and b. A thread makes 4 rows of W columns, in vectors of W
 * where b lies in rows and all W columns are there: this suits CPUs and does no harm on GPUs. */
#define ROWS 4

#define GEMM(T, W)                                                                                 \
    __kernel void gemm_##T(OUT(T) c, IN(T) a, IN(T) b, IN(T) bias, u32 m, u32 n, u32 k, u32 rsa,   \
                           u32 csa, u32 rsb, u32 csb, u32 rsc, u32 act)                            \
    {                                                                                              \
        const u64 j0 = (u64)get_global_id(0) * W, i0 = (u64)get_global_id(1) * ROWS;               \
        if (j0 >= n || i0 >= m) return;                                                            \
        const bool whole = csb == 1 && j0 + W <= n;                                                \
        u64 row[ROWS]; /* those beyond the last are the last: computed again, not stored */        \
        VECTOR_##T sum[ROWS];                                                                      \
        for (int r = 0; r < ROWS; r++) {                                                           \
            row[r] = min(i0 + r, (u64)m - 1) * rsa;                                                \
            sum[r] = 0;                                                                            \
        }                                                                                          \
        for (u32 p = 0; p < k; p++) {                                                              \
            VECTOR_##T right;                                                                      \
            if (whole) {                                                                           \
                right = vload##W(0, b + (u64)p * rsb + j0);                                        \
            } else {                                                                               \
                T each[W];                                                                         \
                for (int s = 0; s < W; s++)                                                        \
                    each[s] = j0 + s < n ? b[(u64)p * rsb + (j0 + s) * csb] : 0;                   \
                right = vload##W(0, each);                                                         \
            }                                                                                      \
            for (int r = 0; r < ROWS; r++)                                                         \
                sum[r] = fma((VECTOR_##T)(a[row[r] + (u64)p * csa]), right, sum[r]);               \
        }                                                                                          \
        for (int r = 0; r < ROWS && i0 + r < m; r++) {                                             \
            T each[W];                                                                             \
            vstore##W(sum[r], 0, each);                                                            \
            for (int s = 0; s < W && j0 + s < n; s++)                                              \
                c[(i0 + r) * rsc + j0 + s] = act_of_##T(each[s] + (bias ? bias[j0 + s] : 0), act); \
        }                                                                                          \
    }
GEMM(f32, 8)
WITH_F64(GEMM(f64, 4))
