/* c = act(a * b + bias): a group of 16 x 16 threads makes 64 x 64 of c, 4 x 4 a thread, by tiles of 64 x 16 of a and
 * 16 x 64 of b in local memory. Any strides; thread and element are matched so that c is written in runs of 16. */
#include "kernel.h"
#include "vmath.h"

enum { SIDE = 16, TILE = 64, DEPTH = 16, EACH = TILE / SIDE };

#define GEMM(T, FMA)                                                                                                   \
    KERNEL(SIDE, SIDE)                                                                                                 \
    gemm_##T(OUT(T) c, IN(T) a, IN(T) b, IN(T) bias, u32 m, u32 n, u32 k, u32 rsa, u32 csa, u32 rsb, u32 csb, u32 rsc, \
             u32 act)                                                                                                  \
    {                                                                                                                  \
        __local T left[DEPTH][TILE + 1], right[DEPTH][TILE + 1]; /* + 1: other banks for the next row */               \
        const u32 x = local_x(), y = local_y(), me = y * SIDE + x;                                                     \
        const u64 i0 = (u64)group_y() * TILE, j0 = (u64)group_x() * TILE;                                              \
        T sum[EACH][EACH] = {{0}};                                                                                     \
        for (u32 p0 = 0; p0 < k; p0 += DEPTH) {                                                                        \
            _Pragma("unroll") for (u32 e = 0; e < DEPTH * TILE / (SIDE * SIDE); e++)                                   \
            {                                                                                                          \
                const u32 at = e * SIDE * SIDE + me;                                                                   \
                const u32 pa = at % DEPTH, ia = at / DEPTH, jb = at % TILE, pb = at / TILE;                            \
                left[pa][ia] = i0 + ia < m && pa < k - p0 ? a[(i0 + ia) * rsa + (u64)(p0 + pa) * csa] : 0;             \
                right[pb][jb] = j0 + jb < n && pb < k - p0 ? b[(u64)(p0 + pb) * rsb + (j0 + jb) * csb] : 0;            \
            }                                                                                                          \
            barrier_local();                                                                                           \
            for (u32 p = 0; p < DEPTH; p++) {                                                                          \
                T u[EACH], v[EACH];                                                                                    \
                _Pragma("unroll") for (u32 e = 0; e < EACH; e++)                                                       \
                {                                                                                                      \
                    u[e] = left[p][e * SIDE + y];                                                                      \
                    v[e] = right[p][e * SIDE + x];                                                                     \
                }                                                                                                      \
                _Pragma("unroll") for (u32 r = 0; r < EACH; r++)                                                       \
                    _Pragma("unroll") for (u32 s = 0; s < EACH; s++) sum[r][s] = FMA(u[r], v[s], sum[r][s]);           \
            }                                                                                                          \
            barrier_local();                                                                                           \
            if (k - p0 <= DEPTH) break; /* p0 + DEPTH may not fit */                                                   \
        }                                                                                                              \
        _Pragma("unroll") for (u32 r = 0; r < EACH; r++)                                                               \
            _Pragma("unroll") for (u32 s = 0; s < EACH; s++)                                                           \
        {                                                                                                              \
            const u64 i = i0 + r * SIDE + y, j = j0 + s * SIDE + x;                                                    \
            if (i < m && j < n) c[i * rsc + j] = sp_act_##T(sum[r][s] + (bias ? bias[j] : 0), act);                    \
        }                                                                                                              \
    }
GEMM(f32, __builtin_fmaf)
GEMM(f64, __builtin_fma)
