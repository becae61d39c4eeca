/* 2-D cross-correlation as a product of matrices that are nowhere written down: the weights of one of the `groups`,
 * (outputs x terms), times its inputs, (terms x pixels), a term being a channel and a place in the window. 16 x 16
 * threads make 64 outputs of 64 pixels, 16 terms at a time. Where a group has few outputs (depthwise), one thread makes
 * one at a time, straight from memory: a tile would be nearly empty. */
#include "kernel.h"
#include "vmath.h"
#include "tile.h"

using Tiles = Tile<f32, 1>;
enum : u32 { SIDE = Tiles::SIDE, EACH = Tiles::EACH, FEW = 8 };

struct Shape {
    u32 c, h, w, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, nhwc;
    u64 pixels; /* of all images */
};

/* The input that an output pixel starts from, and where its outputs go. */
struct Pixel {
    u64 input, output; /* offsets of the image's first channel, of the pixel's first output */
    i64 top, left;
    bool there;

    __device__ __forceinline__ Pixel(const Shape &s, u64 at)
    {
        const u32 ox = at % s.ow, oy = at / s.ow % s.oh;
        const u64 image = at / s.ow / s.oh;
        there = at < s.pixels;
        input = image * s.c * s.h * s.w;
        output = s.nhwc ? at * s.oc : image * s.oc * s.oh * s.ow + (u64)oy * s.ow + ox;
        top = (i64)oy * s.sh - s.ph;
        left = (i64)ox * s.sw - s.pw;
    }

    /* The input under place (ky, kx) of the window in a channel: 0 on the padding. */
    __device__ __forceinline__ f32 read(const Shape &s, IN(f32) x, u64 channel, u32 ky, u32 kx) const
    {
        const i64 iy = top + (i64)ky * s.dh, ix = left + (i64)kx * s.dw;
        if (!there || iy < 0 || iy >= s.h || ix < 0 || ix >= s.w) return 0;
        return x[input + (s.nhwc ? ((u64)iy * s.w + ix) * s.c + channel : (channel * s.h + iy) * s.w + ix)];
    }

    __device__ __forceinline__ u64 to(const Shape &s, u32 o) const
    {
        return output + (s.nhwc ? o : (u64)o * s.oh * s.ow);
    }
};

KERNEL(GROUP)
conv2d_f32(OUT(f32) y, IN(f32) x, IN(f32) w, IN(f32) bias, u32 n, u32 c, u32 h, u32 w_in, u32 oc, u32 kh, u32 kw, u32 oh,
           u32 ow, u32 sh, u32 sw, u32 ph, u32 pw, u32 dh, u32 dw, u32 groups, u32 nhwc, u32 act)
{
    __shared__ Tiles left, right;
    const Shape s = {c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, nhwc, (u64)n * oh * ow};
    const u32 tx = threadIdx.x, ty = threadIdx.y, me = ty * ACROSS + tx;
    const u32 cg = c / groups, og = oc / groups, window = kh * kw, heights = og / SIDE + (og % SIDE != 0);
    const u64 terms = (u64)cg * window;
    if (heights == 0) return;
    /* Groups of threads count outputs first: those that read the same inputs are near each other. */
    const u32 part = blockIdx.x % (groups * heights);
    const u64 pixel0 = (u64)(blockIdx.x / (groups * heights)) * SIDE;
    const u32 group = part / heights, o0 = part % heights * SIDE, first = group * cg;
    IN(f32) weights = w + (u64)group * og * terms;
    if (pixel0 >= s.pixels) return; /* all of the group */
    if (og <= FEW) {
        for (u32 at = me; at < SIDE * og; at += GROUP) {
            const Pixel pixel(s, pixel0 + at % SIDE);
            const u32 o = at / SIDE;
            f32 sum = 0;
            if (!pixel.there) continue;
            for (u32 i = 0; i < cg; i++)
                for (u32 ky = 0; ky < kh; ky++)
                    for (u32 kx = 0; kx < kw; kx++)
                        sum = sp_fma(weights[o * terms + ((u64)i * kh + ky) * kw + kx],
                                     pixel.read(s, x, (u64)first + i, ky, kx), sum);
            y[pixel.to(s, group * og + o)] = sp_act(sum + (bias ? bias[group * og + o] : 0), act);
        }
        return;
    }
    const Pixel mine(s, pixel0 + me % SIDE);
    f32 sum[EACH][EACH] = {{0}};
    for (u64 t0 = 0; t0 < terms; t0 += DEPTH) {
#pragma unroll
        for (u32 e = 0; e < Tiles::LOADS; e++) {
            const u32 at = e * GROUP + me, o = at / DEPTH, p = at / SIDE;
            const u64 t = t0 + at % DEPTH, term = t0 + p;
            left.at[at % DEPTH][o] = o0 + o < og && t < terms ? weights[(o0 + o) * terms + t] : 0;
            f32 input = 0;
            if (term < terms) {
                const u32 channel = term / window, place = term % window;
                input = mine.read(s, x, (u64)first + channel, place / kw, place % kw);
            }
            right.at[p][me % SIDE] = input;
        }
        __syncthreads();
        multiply(sum, left, right, tx, ty);
        __syncthreads();
    }
#pragma unroll
    for (u32 q = 0; q < EACH; q++) {
        const Pixel pixel(s, pixel0 + Tiles::place(tx, q));
#pragma unroll
        for (u32 r = 0; r < EACH; r++) {
            const u32 o = o0 + Tiles::place(ty, r), at = group * og + o;
            if (pixel.there && o < og) y[pixel.to(s, at)] = sum[r][q] + (bias ? bias[at] : 0);
        }
    }
    if (act == 0) return;
    /* In a loop of its own, over what this thread has just written: unrolled with the above it is 16 times tanh. */
#pragma unroll 1
    for (u32 e = 0; e < EACH * EACH; e++) {
        const Pixel pixel(s, pixel0 + Tiles::place(tx, e / EACH));
        const u32 o = o0 + Tiles::place(ty, e % EACH);
        if (!pixel.there || o >= og) continue;
        const u64 at = pixel.to(s, group * og + o);
        y[at] = sp_act(y[at], act);
    }
}
