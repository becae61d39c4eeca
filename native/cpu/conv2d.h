/* conv2d_f32: its geometry, checked and widened once, and what each instruction set brings (conv2d.inc). */
#ifndef SP_CPU_CONV2D_H
#define SP_CPU_CONV2D_H
#include "args.h"
#include "gemm.h"

/* Signed, because an output pixel's window may begin in the padding. conv2d.c lets no factor beyond 2**31 through, so
 * no product of two overflows. */
struct sp_conv {
    const float *x, *w, *bias;
    float *y;
    int64_t n, c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups;
    int64_t cg, ocg; /* channels of a group, in and out */
    int64_t taps;    /* kh * kw */
    uint32_t act;
    int nhwc;
};

/* A group of an image as a source of panels. */
struct sp_conv_group {
    const struct sp_conv *conv;
    const float *x; /* its first channel */
};

struct sp_conv_kernel {
    sp_pack_fn *pixels_nchw; /* of a sp_conv_group: i is an output pixel, p = (channel, ky, kx) */
    sp_pack_fn *pixels_nhwc; /* the same of an NHWC image */
    /* Output rows [y0, y1) of output channel `o` of image `image`, NCHW: no packing, good for few channels a group. */
    void (*rows_nchw)(const struct sp_conv *conv, int64_t image, int64_t o, int64_t y0, int64_t y1);
    /* Output rows [y0, y1) of all channels, NHWC with one channel a group; wt is w transposed to [kh*kw][oc]. */
    void (*depthwise_nhwc)(const struct sp_conv *conv, const float *wt, int64_t image, int64_t y0, int64_t y1);
};
extern const struct sp_conv_kernel sp_conv_ref, sp_conv_neon, sp_conv_avx2, sp_conv_avx512;
extern const struct sp_conv_kernel *const sp_conv_kernels[4]; /* [enum sp_isa]; NULL: not here */

/* The oracle: seven loops, double accumulators. */
int sp_conv_naive(const struct sp_conv *conv, const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
