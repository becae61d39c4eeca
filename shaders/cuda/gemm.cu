/* c = act(a * b + bias): a group of 16 x 16 threads makes a tile of c, 128 x 128 in f32 and 64 x 64 in f64, from tiles
 * of a and b in shared memory, 16 of k at a time; the next ones are on their way in registers meanwhile. Any strides. */
#include "kernel.h"
#include "vmath.h"
#include "tile.h"

/* A thread's part of a tile of x, whose element (i, p) is x[i * si + p * sp], i < ni, p < k: 0 beyond. Threads run along
 * whichever of the two lies closer together. */
template <class T, u32 PACKS> struct Part {
    using Tiles = Tile<T, PACKS>;
    T value[Tiles::LOADS];

    static __device__ __forceinline__ void place(bool along_p, u32 me, u32 e, u32 *i, u32 *p)
    {
        const u32 at = e * GROUP + me;
        *i = along_p ? at / DEPTH : at % Tiles::SIDE;
        *p = along_p ? at % DEPTH : at / Tiles::SIDE;
    }

    __device__ __forceinline__ void fetch(IN(T) x, u64 i0, u32 ni, u32 si, u64 p0, u32 k, u32 sp, u32 me)
    {
#pragma unroll
        for (u32 e = 0; e < Tiles::LOADS; e++) {
            u32 i, p;
            place(sp <= si, me, e, &i, &p);
            value[e] = i0 + i < ni && p0 + p < k ? x[(i0 + i) * si + (p0 + p) * sp] : 0;
        }
    }

    __device__ __forceinline__ void store(Tiles &tile, u32 si, u32 sp, u32 me) const
    {
#pragma unroll
        for (u32 e = 0; e < Tiles::LOADS; e++) {
            u32 i, p;
            place(sp <= si, me, e, &i, &p);
            tile.at[p][i] = value[e];
        }
    }
};

#define GEMM(T)                                                                                                        \
    KERNEL(GROUP)                                                                                                      \
    gemm_##T(OUT(T) c, IN(T) a, IN(T) b, IN(T) bias, u32 m, u32 n, u32 k, u32 rsa, u32 csa, u32 rsb, u32 csb, u32 rsc, \
             u32 act)                                                                                                  \
    {                                                                                                                  \
        using Tiles = Tile<T, 2>;                                                                                      \
        constexpr u32 SIDE = Tiles::SIDE, EACH = Tiles::EACH;                                                          \
        __shared__ Tiles left, right;                                                                                  \
        Part<T, 2> from_a, from_b;                                                                                     \
        const u32 x = threadIdx.x, y = threadIdx.y, me = y * ACROSS + x;                                               \
        const u32 wide = n / SIDE + (n % SIDE != 0), high = m / SIDE + (m % SIDE != 0);                                \
        if (n == 0 || blockIdx.x / wide >= high) return; /* all of the group */                                        \
        const u64 i0 = (u64)(blockIdx.x / wide) * SIDE, j0 = (u64)(blockIdx.x % wide) * SIDE;                          \
        T sum[EACH][EACH] = {{0}};                                                                                     \
        from_a.fetch(a, i0, m, rsa, 0, k, csa, me);                                                                    \
        from_b.fetch(b, j0, n, csb, 0, k, rsb, me);                                                                    \
        for (u64 p0 = 0; p0 < k; p0 += DEPTH) {                                                                        \
            from_a.store(left, rsa, csa, me);                                                                          \
            from_b.store(right, csb, rsb, me);                                                                         \
            __syncthreads();                                                                                           \
            from_a.fetch(a, i0, m, rsa, p0 + DEPTH, k, csa, me);                                                       \
            from_b.fetch(b, j0, n, csb, p0 + DEPTH, k, rsb, me);                                                       \
            multiply(sum, left, right, x, y);                                                                          \
            __syncthreads();                                                                                           \
        }                                                                                                              \
        _Pragma("unroll") for (u32 r = 0; r < EACH; r++)                                                               \
            _Pragma("unroll") for (u32 s = 0; s < EACH; s++)                                                           \
        {                                                                                                              \
            const u64 i = i0 + Tiles::place(y, r), j = j0 + Tiles::place(x, s);                                        \
            if (i < m && j < n) c[i * rsc + j] = sum[r][s] + (bias ? bias[j] : 0);                                     \
        }                                                                                                              \
        if (act == 0) return;                                                                                          \
        /* In a loop of its own, over what this thread has just written: unrolled with the above it is 64 times tanh. */ \
        _Pragma("unroll 1") for (u32 e = 0; e < EACH * EACH; e++)                                                      \
        {                                                                                                              \
            const u64 i = i0 + Tiles::place(y, e / EACH), j = j0 + Tiles::place(x, e % EACH);                          \
            if (i < m && j < n) c[i * rsc + j] = sp_act(c[i * rsc + j], act);                                          \
        }                                                                                                              \
    }
GEMM(f32)
GEMM(f64)
