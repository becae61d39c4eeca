/* 2-D cross-correlation, the direct way: one thread, one output. */
__kernel void conv2d_f32(OUT(f32) y, IN(f32) x, IN(f32) w, IN(f32) bias, u32 n, u32 c, u32 h,
                         u32 w_in, u32 oc, u32 kh, u32 kw, u32 oh, u32 ow, u32 sh, u32 sw, u32 ph,
                         u32 pw, u32 dh, u32 dw, u32 groups, u32 nhwc, u32 act)
{
    const u64 at = get_global_id(0);
    if (at >= (u64)n * oc * oh * ow) return;
    u64 rest = at;
    u32 image, o, oy, ox;
    if (nhwc) {
        o = rest % oc, rest /= oc;
        ox = rest % ow, rest /= ow;
        oy = rest % oh, image = rest / oh;
    } else {
        ox = rest % ow, rest /= ow;
        oy = rest % oh, rest /= oh;
        o = rest % oc, image = rest / oc;
    }
    const u32 cg = c / groups, first = o / (oc / groups) * cg;
    /* Where an input of this image is: x0 + channel * of_c + row * of_h + column * of_w. */
    const u64 of_c = nhwc ? 1 : (u64)h * w_in, of_h = nhwc ? (u64)w_in * c : w_in, of_w = nhwc ? c : 1;
    IN(f32) x0 = x + (u64)image * c * h * w_in + first * of_c;
    IN(f32) w0 = w + (u64)o * cg * kh * kw;
    f32 sum = 0;
    for (u32 i = 0; i < cg; i++)
        for (u32 ky = 0; ky < kh; ky++) {
            const i64 iy = (i64)oy * sh + (i64)ky * dh - ph;
            if (iy < 0 || iy >= h) continue;
            for (u32 kx = 0; kx < kw; kx++) {
                const i64 ix = (i64)ox * sw + (i64)kx * dw - pw;
                if (ix < 0 || ix >= w_in) continue;
                sum = fma(x0[i * of_c + iy * of_h + ix * of_w], w0[((u64)i * kh + ky) * kw + kx], sum);
            }
        }
    y[at] = act_of_f32(sum + (bias ? bias[o] : 0), act);
}
