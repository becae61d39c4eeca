/* Changes of layout: one thread, one element of the result. */
__kernel void nchw_to_nhwc_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w)
{
    const u64 at = get_global_id(0), plane = (u64)h * w;
    if (at >= n * plane * c) return;
    const u64 ch = at % c, pixel = at / c % plane, image = at / c / plane;
    y[at] = x[(image * c + ch) * plane + pixel];
}

__kernel void nhwc_to_nchw_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w)
{
    const u64 at = get_global_id(0), plane = (u64)h * w;
    if (at >= n * plane * c) return;
    const u64 pixel = at % plane, ch = at / plane % c, image = at / plane / c;
    y[at] = x[(image * plane + pixel) * c + ch];
}

__kernel void nchw_to_blocked_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w, u32 block)
{
    const u64 at = get_global_id(0), plane = (u64)h * w;
    if (block == 0) return;
    const u64 blocks = ((u64)c + block - 1) / block;
    if (at >= n * blocks * plane * block) return;
    const u64 pixel = at / block % plane, rest = at / block / plane;
    const u64 ch = rest % blocks * block + at % block, image = rest / blocks;
    y[at] = ch < c ? x[(image * c + ch) * plane + pixel] : 0;
}

__kernel void blocked_to_nchw_f32(OUT(f32) y, IN(f32) x, u32 n, u32 c, u32 h, u32 w, u32 block)
{
    const u64 at = get_global_id(0), plane = (u64)h * w;
    if (block == 0 || at >= n * plane * c) return;
    const u64 blocks = ((u64)c + block - 1) / block;
    const u64 pixel = at % plane, ch = at / plane % c, image = at / plane / c;
    y[at] = x[((image * blocks + ch / block) * plane + pixel) * block + ch % block];
}
