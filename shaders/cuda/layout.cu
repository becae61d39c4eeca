/* Changes of layout: one thread, one element of the result, in groups of 256. */
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
