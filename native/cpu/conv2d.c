/* conv2d_f32: checks the geometry and picks the algorithm. */
#include "conv2d.h"
#include "winograd.h"

#include <errno.h>

enum { MOST_WINDOW_NBYTES = 1 << 20 }; /* of scratch that a direct form may take for each thread */

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

static int is_depthwise(const struct sp_conv *v, enum sp_isa isa)
{
    return v->cg == 1 && v->ocg == 1 && sp_conv_depthwise_window(v, isa) <= MOST_WINDOW_NBYTES;
}

enum sp_conv_form sp_conv_form(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa)
{
    switch (plan->algo) {
    case SP_ALGO_WINOGRAD:
        return SP_CONV_WINOGRAD;
    case SP_ALGO_WINOGRAD2:
        return SP_CONV_WINOGRAD2;
    case SP_ALGO_WINOGRAD6:
        return SP_CONV_WINOGRAD6;
    case SP_ALGO_AUTO:
        if (isa == SP_ISA_REF)
            return SP_CONV_PLAIN;
        break;
    case SP_ALGO_DIRECT:
        break;
    default:
        return SP_CONV_PLAIN;
    }
    if (is_depthwise(v, isa))
        return SP_CONV_PLAIN;
    const int strips = plan->mr && plan->nr ? plan->mr < plan->nr : v->ocg < sp_conv_kernels[isa]->lanes;
    return strips && sp_conv_strips_window(v, isa) <= MOST_WINDOW_NBYTES ? SP_CONV_STRIPS : SP_CONV_PIXELS;
}

static int is_wild(const float *w, int64_t n)
{
    float wild = 0.0f;
    for (int64_t i = 0; i < n; i++)
        wild += w[i] * 0.0f;
    return wild != 0.0f;
}

static int run(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa)
{
    struct sp_conv v;
    struct sp_conv_weights weights;
    const int checked = sp_conv_widen(args, &v);
    if (checked)
        return checked < 0 ? checked : 0;
    const enum sp_conv_form form = sp_conv_form(&v, plan, isa);
    const int is_winograd = sp_winograd_form(form);
    if (is_winograd && !sp_winograd_fits(&v, sp_winograd_tile(form)))
        return -EINVAL;
    const double flops = 2.0 * (double)v.n * (double)v.oc * (double)(v.oh * v.ow) * (double)(v.cg * v.taps);
    const uint32_t threads = sp_gemm_threads(flops, plan, pool);
    const int rc = sp_conv_weights(&v, form, plan, pool, isa, threads, &weights);
    if (rc)
        return rc;
    if (is_winograd)
        return sp_winograd_f32(&v, weights.w, sp_winograd_tile(form), plan, pool, isa, threads);
    if (form == SP_CONV_PIXELS)
        return sp_conv_pixels(&v, &weights, plan, pool, isa, threads);
    if (form == SP_CONV_STRIPS)
        return (sp_conv_panels_take(&v, plan, isa) ? sp_conv_panels : sp_conv_strips)(&v, &weights, plan, pool, isa, threads);
    v.w = weights.w;
    if (plan->algo == SP_ALGO_NAIVE || (plan->algo == SP_ALGO_AUTO && isa == SP_ISA_REF))
        return sp_conv_naive(&v, plan, pool);
    if (plan->algo == SP_ALGO_IM2COL)
        return sp_conv_im2col(&v, plan, pool, isa, threads);
    /* The loops of NHWC skip padding, which zero times infinity forbids. */
    return v.nhwc && is_wild(v.w, v.oc * v.taps) ? sp_conv_naive(&v, plan, pool) : sp_conv_depthwise(&v, pool, isa, threads);
}

#define SP_CONV(isa, which)                                                                                            \
    sp_routine_fn sp_conv2d_f32_##isa;                                                                                 \
    int sp_conv2d_f32_##isa(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                   \
    {                                                                                                                  \
        return run(args, plan, pool, which);                                                                           \
    }
SP_CONV(ref, SP_ISA_REF)
SP_CONV(neon, SP_ISA_NEON)
SP_CONV(avx2, SP_ISA_AVX2)
SP_CONV(avx512, SP_ISA_AVX512)
