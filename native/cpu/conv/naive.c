/* The oracle of conv2d_f32: plain loops, which accumulate in double and round once. A task is one
 * output channel of one image. */
#define SP_USE_LIBM 1
#include "cpu/vector/activation.h"
#include "algorithms.h"

#include <errno.h>

static double at(const struct sp_conv *v, int64_t image, int64_t o, int64_t oy, int64_t ox)
{
    const int64_t c0 = o / v->ocg * v->cg;
    double sum = 0;
    for (int64_t ci = 0; ci < v->cg; ci++)
        for (int64_t ky = 0; ky < v->kh; ky++)
            for (int64_t kx = 0; kx < v->kw; kx++) {
                const int64_t iy = oy * v->sh + ky * v->dh - v->ph;
                const int64_t ix = ox * v->sw + kx * v->dw - v->pw;
                const int inside = iy >= 0 && iy < v->h && ix >= 0 && ix < v->w_in;
                const int64_t c = c0 + ci;
                /* Padding is multiplied too, because zero times infinity is NaN. */
                const float x = !inside  ? 0.0f
                                : v->nhwc ? v->x[((image * v->h + iy) * v->w_in + ix) * v->c + c]
                                        : v->x[((image * v->c + c) * v->h + iy) * v->w_in + ix];
                sum += (double)x * (double)v->w[((o * v->cg + ci) * v->kh + ky) * v->kw + kx];
            }
    return sum + (v->bias ? (double)v->bias[o] : 0.0);
}

static void plane(void *ctx, uint32_t index)
{
    const struct sp_conv *const v = ctx;
    const int64_t image = index / v->oc;
    const int64_t o = index % v->oc;
    for (int64_t oy = 0; oy < v->oh; oy++)
        for (int64_t ox = 0; ox < v->ow; ox++) {
            float *const y = v->nhwc ? &v->y[((image * v->oh + oy) * v->ow + ox) * v->oc + o]
                                     : &v->y[((image * v->oc + o) * v->oh + oy) * v->ow + ox];
            *y = sp_act_f32((float)at(v, image, o, oy, ox), v->act);
        }
}

int sp_conv_naive(const struct sp_conv *conv, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    struct sp_conv v = *conv;
    const int64_t planes = v.n * v.oc;
    if (planes > UINT32_MAX)
        return -EINVAL;
    const double flops = 2.0 * (double)planes * (double)(v.oh * v.ow) * (double)v.cg * (double)v.taps;
    if (sp_gemm_threads(flops, plan, pool) == 1)
        for (uint32_t p = 0; p < planes; p++)
            plane(&v, p);
    else
        sp_pool_run(pool, plane, &v, (uint32_t)planes, plan->threads);
    return 0;
}
