/* 2-D cross-correlation as shaders/manifest.json describes it, by definition: sums in double. */
#include "kernels.h"

#include "activation.h"

struct conv2d_f32_args {
    float *y;
    const float *x, *w, *bias;
    uint32_t n, c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups, nhwc, act;
};

static double at(const struct conv2d_f32_args *v, int64_t image, int64_t o, int64_t oy, int64_t ox)
{
    const int64_t cg = v->c / v->groups, c0 = o / (v->oc / v->groups) * cg;
    double sum = v->bias ? (double)v->bias[o] : 0;
    for (int64_t ci = 0; ci < cg; ci++)
        for (int64_t ky = 0; ky < v->kh; ky++)
            for (int64_t kx = 0; kx < v->kw; kx++) {
                const int64_t iy = oy * v->sh + ky * v->dh - v->ph, ix = ox * v->sw + kx * v->dw - v->pw;
                if (iy < 0 || iy >= v->h || ix < 0 || ix >= v->w_in)
                    continue;
                const int64_t index = v->nhwc ? ((image * v->h + iy) * v->w_in + ix) * v->c + c0 + ci
                                              : ((image * v->c + c0 + ci) * v->h + iy) * v->w_in + ix;
                sum += (double)v->x[index] * (double)v->w[((o * cg + ci) * v->kh + ky) * v->kw + kx];
            }
    return sum;
}

static int run_conv2d_f32(const struct fk_launch *l)
{
    const struct conv2d_f32_args v = *(const struct conv2d_f32_args *)l->args;
    if (v.groups == 0 || v.oc % v.groups != 0 || v.c % v.groups != 0)
        return CUDA_ERROR_LAUNCH_FAILED; /* a division by zero on a GPU is anything */
    FK_NEED(v.y, (uint64_t)v.n * v.oc * v.oh * v.ow);
    FK_NEED(v.x, (uint64_t)v.n * v.c * v.h * v.w_in);
    FK_NEED(v.w, (uint64_t)v.oc * (v.c / v.groups) * v.kh * v.kw);
    if (v.bias)
        FK_NEED(v.bias, v.oc);
    for (int64_t image = 0; image < v.n; image++)
        for (int64_t o = 0; o < v.oc; o++)
            for (int64_t oy = 0; oy < v.oh; oy++)
                for (int64_t ox = 0; ox < v.ow; ox++) {
                    const int64_t index = v.nhwc ? ((image * v.oh + oy) * v.ow + ox) * v.oc + o
                                                 : ((image * v.oc + o) * v.oh + oy) * v.ow + ox;
                    v.y[index] = (float)fk_activate((double)(float)at(&v, image, o, oy, ox), v.act);
                }
    return 0;
}

struct fk_kernel fk_kernels_conv2d[] = {
    {"conv2d_f32", "ppppuuuuuuuuuuuuuuuuuu", run_conv2d_f32, {0}},
    {0},
};
