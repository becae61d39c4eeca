/* Checks the geometry of conv2d_f32 and converts it to 64-bit numbers. Has the table of the inner
 * loops for each instruction set. */
#include "shape.h"

#include <errno.h>

const struct sp_conv_kernel *const sp_conv_kernels[4] = {
    [SP_ISA_REF] = &sp_conv_ref,
#if defined(__aarch64__)
    [SP_ISA_NEON] = &sp_conv_neon,
#endif
#if defined(__x86_64__)
    [SP_ISA_AVX2] = &sp_conv_avx2,
    [SP_ISA_AVX512] = &sp_conv_avx512,
#endif
};

int sp_conv_widen(const struct sp_args_conv2d_f32 *a, struct sp_conv *v)
{
    const uint32_t all[] = {a->n,  a->c,  a->h,  a->w_in, a->oc, a->kh, a->kw, a->oh,     a->ow,
                            a->sh, a->sw, a->ph, a->pw,   a->dh, a->dw, a->groups};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] > INT32_MAX)
            return -EINVAL;
    if (a->groups == 0 || a->c % a->groups || a->oc % a->groups || a->act > SP_ACT_SIGMOID || a->nhwc > 1)
        return -EINVAL;
    if (a->kh == 0 || a->kw == 0 || a->sh == 0 || a->sw == 0 || a->dh == 0 || a->dw == 0)
        return -EINVAL;
    *v = (struct sp_conv){
        .x = a->x, .w = a->w, .bias = a->bias, .y = a->y,
        .n = a->n, .c = a->c, .h = a->h, .w_in = a->w_in, .oc = a->oc, .kh = a->kh, .kw = a->kw, .oh = a->oh,
        .ow = a->ow, .sh = a->sh, .sw = a->sw, .ph = a->ph, .pw = a->pw, .dh = a->dh, .dw = a->dw,
        .groups = a->groups, .cg = a->c / a->groups, .ocg = a->oc / a->groups, .taps = (int64_t)a->kh * a->kw,
        .act = a->act, .nhwc = (int)a->nhwc,
    };
    return v->n == 0 || v->oc == 0 || v->oh == 0 || v->ow == 0;
}

void sp_conv_flatten(struct sp_conv *v)
{
    if (!sp_conv_is_pixel_by_pixel(v))
        return;
    v->ow = v->w_in = v->h * v->w_in * (v->nhwc ? v->n : 1);
    v->oh = v->h = 1;
    if (v->nhwc)
        v->n = 1;
}
