/* Changes of layout, and strided copies: one thread, one element of the result, in groups of 256. */
#include "kernel.h"

enum : u32 { GROUP = 256 };

KERNEL(GROUP) nchw_to_nhwc_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w)
{
    const u64 at = element(GROUP), plane = (u64)h * w;
    if (at >= n * plane * c) return;
    const u64 ch = at % c, pixel = at / c % plane, image = at / c / plane;
    y[at] = x[(image * c + ch) * plane + pixel];
}

KERNEL(GROUP) nhwc_to_nchw_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w)
{
    const u64 at = element(GROUP), plane = (u64)h * w;
    if (at >= n * plane * c) return;
    const u64 pixel = at % plane, ch = at / plane % c, image = at / plane / c;
    y[at] = x[(image * plane + pixel) * c + ch];
}

KERNEL(GROUP) nchw_to_blocked_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w, u32 block)
{
    const u64 at = element(GROUP), plane = (u64)h * w;
    if (block == 0) return;
    const u64 blocks = ((u64)c + block - 1) / block;
    if (at >= n * blocks * plane * block) return;
    const u64 pixel = at / block % plane, rest = at / block / plane;
    const u64 ch = rest % blocks * block + at % block, image = rest / blocks;
    y[at] = ch < c ? x[(image * c + ch) * plane + pixel] : 0;
}

KERNEL(GROUP) blocked_to_nchw_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w, u32 block)
{
    const u64 at = element(GROUP), plane = (u64)h * w;
    if (block == 0 || at >= n * plane * c) return;
    const u64 blocks = ((u64)c + block - 1) / block;
    const u64 pixel = at % plane, ch = at / plane % c, image = at / plane / c;
    y[at] = x[((image * blocks + ch / block) * plane + pixel) * block + ch % block];
}

typedef unsigned char u8;
typedef unsigned short u16;

/* One body for elements of every size. Positions wrap within 32 bits, and no position beyond dst_n or src_n is touched:
 * numbers that make no sense move less, but never write elsewhere. */
#define STRIDED(T)                                                                                                     \
    KERNEL(GROUP) strided_##T(OUT(T) dst, IN(T) src, u32 n0, u32 n1, u32 n2, u32 n3, u32 dst_stride0,                   \
                              u32 dst_stride1, u32 dst_stride2, u32 dst_stride3, u32 src_stride0, u32 src_stride1,     \
                              u32 src_stride2, u32 src_stride3, u32 dst_offset, u32 src_offset, u32 dst_n, u32 src_n)  \
    {                                                                                                                  \
        const u64 at = element(GROUP);                                                                               \
        if (at >= (u64)n0 * n1 * n2 * n3) return;                                                                      \
        const u32 i = (u32)at, i3 = i % n3, row = i / n3, i2 = row % n2, plane = row / n2, i1 = plane % n1;            \
        const u32 i0 = plane / n1;                                                                                     \
        const u32 to = dst_offset + i0 * dst_stride0 + i1 * dst_stride1 + i2 * dst_stride2 + i3 * dst_stride3;         \
        const u32 from = src_offset + i0 * src_stride0 + i1 * src_stride1 + i2 * src_stride2 + i3 * src_stride3;       \
        if (to < dst_n && from < src_n) dst[to] = src[from];                                                           \
    }
STRIDED(u8)
STRIDED(u16)
STRIDED(u32)
STRIDED(u64)
