/* The product of two tiles, shared by gemm and conv2d: 16 x 16 threads make SIDE x SIDE sums, EACH x EACH a thread.
 *
 * A thread's rows and columns come in packs of 16 bytes, the packs SIDE / PACKS apart: one load of shared memory each,
 * and threads next to each other read packs next to each other. */
enum : u32 { ACROSS = 16, GROUP = ACROSS * ACROSS, DEPTH = 16 };

template <class T> struct alignas(16) Pack { T v[16 / sizeof(T)]; };

template <class T, u32 PACKS> struct Tile {
    static constexpr u32 WIDTH = 16 / sizeof(T), EACH = PACKS * WIDTH, SIDE = ACROSS * EACH;
    static constexpr u32 LOADS = DEPTH * SIDE / GROUP; /* elements of a tile that a thread brings */
    alignas(16) T at[DEPTH][SIDE + WIDTH];             /* + WIDTH: other banks for the next row */

    /* Which row or column of the tile the e-th sum of thread `x` (0 to 15) is. */
    static __device__ __forceinline__ u32 place(u32 x, u32 e) { return e / WIDTH * (SIDE / PACKS) + x * WIDTH + e % WIDTH; }

    __device__ __forceinline__ void load(T (&into)[EACH], u32 p, u32 x) const
    {
#pragma unroll
        for (u32 q = 0; q < PACKS; q++) {
            const Pack<T> pack = *(const Pack<T> *)&at[p][place(x, q * WIDTH)];
#pragma unroll
            for (u32 e = 0; e < WIDTH; e++) into[q * WIDTH + e] = pack.v[e];
        }
    }
};

/* sum[r][s] += left[p][r] * right[p][s] over all p, in their order. */
template <class T, u32 PACKS, u32 EACH>
DEVICE void multiply(T (&sum)[EACH][EACH], const Tile<T, PACKS> &left, const Tile<T, PACKS> &right, u32 x, u32 y)
{
#pragma unroll 4
    for (u32 p = 0; p < DEPTH; p++) {
        T u[EACH], v[EACH];
        left.load(u, p, y);
        right.load(v, p, x);
#pragma unroll
        for (u32 r = 0; r < EACH; r++)
#pragma unroll
            for (u32 s = 0; s < EACH; s++) sum[r][s] = sp_fma(u[r], v[s], sum[r][s]);
    }
}
