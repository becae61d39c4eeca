/* The entry of conv2d_f32: runs the algorithm that the tile plan names, or else one that suits the
 * geometry. */
#include "algorithms.h"
#include "cpu/conv/depthwise/depthwise.h"
#include "cpu/conv/direct/direct.h"
#include "cpu/conv/winograd/winograd.h"

#include <errno.h>

static int has_nonfinite(const float *w, int64_t n)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++)
        sum += w[i] * 0.0f;
    return sum != 0.0f;
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
    if (v.cg == 0 || plan->algo == SP_ALGO_NAIVE || (plan->algo == SP_ALGO_AUTO && isa == SP_ISA_REF))
        return sp_conv_naive(&v, plan, pool);
    if (plan->algo == SP_ALGO_IM2COL)
        return sp_conv_im2col(&v, plan, pool, isa, threads);
    /* The NHWC loops skip the padding. But an infinite or NaN weight times a zero of the padding
     * is NaN. So the oracle computes convolutions with such weights. */
    return v.nhwc && has_nonfinite(v.w, v.oc * v.taps) ? sp_conv_naive(&v, plan, pool) : sp_conv_depthwise(&v, pool, isa, threads);
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
