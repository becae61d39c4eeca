/* Convolutions against seven loops: all parameters, both layouts, all algorithms. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Random geometry; 3x3 more often than chance has it, because that has paths of its own. */
static struct sp_args_conv2d_f32 geometry(void)
{
    struct sp_args_conv2d_f32 v = {.n = PICK(1, 1, 2, 3), .sh = 1, .sw = 1, .dh = 1, .dw = 1, .groups = 1};
    const uint32_t kind = rnd_below(7);
    v.groups = kind == 0 ? PICK(2, 3, 4) : 1;
    v.c = v.groups * PICK(1, 2, 3, 4, 5, 8, 16, 17);
    v.oc = v.groups * PICK(1, 2, 3, 4, 5, 8, 16, 17, 31, 33);
    if (kind == 1) { /* depthwise, with a multiplier */
        v.groups = v.c = PICK(1, 2, 3, 7, 8, 16, 17, 33);
        v.oc = v.c * PICK(1, 1, 1, 2);
    }
    if (kind == 6)
        v.groups = v.c = v.oc = rnd_between(1, 5);
    v.h = rnd_between(1, 17);
    v.w_in = rnd_between(1, kind == 6 ? 70 : 35);
    v.kh = kind < 4 || kind == 6 ? 3 : PICK(1, 1, 2, 3, 5, 7);
    v.kw = kind < 4 || kind == 6 ? 3 : PICK(1, 1, 2, 3, 4, 7);
    if (kind < 2 || kind == 5) {
        v.sh = PICK(1, 2, 3);
        v.sw = PICK(1, 2, 3);
        v.dh = PICK(1, 1, 2);
        v.dw = PICK(1, 1, 3);
    }
    if (kind == 3 || kind == 6)
        v.sh = v.sw = PICK(1, 2);
    v.ph = rnd_below(v.kh + 1);
    v.pw = rnd_below(v.kw + 1);
    v.nhwc = rnd_below(2);
    v.act = rnd_below(4);
    /* Below and to the right there may be more padding than anything reads, or none. */
    const uint32_t below = rnd_below(2) ? v.ph : rnd_below(v.kh + 3);
    const uint32_t right = rnd_below(2) ? v.pw : rnd_below(v.kw + 3);
    const int64_t rows = (int64_t)v.h + v.ph + below - (int64_t)v.dh * (v.kh - 1) - 1;
    const int64_t columns = (int64_t)v.w_in + v.pw + right - (int64_t)v.dw * (v.kw - 1) - 1;
    v.oh = rows < 0 ? 0 : (uint32_t)(rows / v.sh + 1);
    v.ow = columns < 0 ? 0 : (uint32_t)(columns / v.sw + 1);
    return v;
}

/* Some of them infinite or NaN. */
static void spoil(float *x, size_t n)
{
    static const float wild[] = {INFINITY, -INFINITY, NAN};
    for (uint32_t left = rnd_below(4); n && left; left--)
        x[rnd() % n] = wild[rnd_below(3)];
}

/* Padding is zeros, to weights that are not finite too. */
static double plain(const struct sp_args_conv2d_f32 *v, uint32_t image, uint32_t o, uint32_t y, uint32_t x)
{
    const uint32_t cg = v->c / v->groups;
    const uint32_t first = o / (v->oc / v->groups) * cg;
    double sum = v->bias ? (double)v->bias[o] : 0;
    for (uint32_t ky = 0; ky < v->kh; ky++)
        for (uint32_t kx = 0; kx < v->kw; kx++) {
            const int64_t iy = (int64_t)y * v->sh + (int64_t)ky * v->dh - v->ph;
            const int64_t ix = (int64_t)x * v->sw + (int64_t)kx * v->dw - v->pw;
            const int is_padding = iy < 0 || ix < 0 || iy >= v->h || ix >= v->w_in;
            for (uint32_t c = 0; c < cg; c++) {
                const float w = v->w[(((size_t)o * cg + c) * v->kh + ky) * v->kw + kx];
                if (is_padding) {
                    sum += 0 * (double)w;
                    continue;
                }
                const size_t at = v->nhwc ? (((size_t)image * v->h + (size_t)iy) * v->w_in + (size_t)ix) * v->c + first + c
                                          : (((size_t)image * v->c + first + c) * v->h + (size_t)iy) * v->w_in + (size_t)ix;
                sum += (double)v->x[at] * (double)w;
            }
        }
    return activated(sum, v->act);
}

void check_conv2d(void)
{
    struct sp_args_conv2d_f32 v = geometry();
    const size_t outputs = (size_t)v.n * v.oc * v.oh * v.ow;
    const uint32_t terms = v.c / v.groups * v.kh * v.kw;
    const int fits_winograd =
        v.kh == 3 && v.kw == 3 && v.sh == v.sw && v.sh <= 2 && v.dh == 1 && v.dw == 1 && v.groups == 1;
    struct sp_tile_plan plan = {.threads = PICK(0, 0, 1, 2), .flags = PICK(0, SP_PLAN_DETERMINISTIC)};
    plan.algo = PICK(SP_ALGO_AUTO, SP_ALGO_NAIVE, SP_ALGO_DIRECT, SP_ALGO_DIRECT, SP_ALGO_IM2COL);
    if (fits_winograd && v.c > 1 && rnd_below(2))
        plan.algo = PICK(SP_ALGO_WINOGRAD, SP_ALGO_WINOGRAD2, v.sh == 1 ? SP_ALGO_WINOGRAD6 : SP_ALGO_WINOGRAD);
    float *const y = f32_new(outputs);
    float *const x = f32_new((size_t)v.n * v.c * v.h * v.w_in);
    float *const w = f32_new((size_t)v.oc * terms);
    if (v.groups == v.c && v.c == v.oc && rnd_below(3) == 0) {
        spoil(x, (size_t)v.n * v.c * v.h * v.w_in);
        spoil(w, (size_t)v.oc * terms);
    }
    v.x = x;
    v.w = w;
    v.bias = rnd_below(2) ? f32_new(v.oc) : NULL;
    v.y = y;
    case_is("n %u c %u %ux%u oc %u kernel %ux%u out %ux%u stride %u,%u pad %u,%u dilation %u,%u groups %u nhwc %u bias %d "
            "act %u algo %u threads %u",
            v.n, v.c, v.h, v.w_in, v.oc, v.kh, v.kw, v.oh, v.ow, v.sh, v.sw, v.ph, v.pw, v.dh, v.dw, v.groups, v.nhwc,
            v.bias != NULL, v.act, plan.algo, plan.threads);
    const struct sp_args_conv2d_f32 matrix = v;
    if (outputs && rnd_below(3) == 0) {
        struct sp_args_pack_conv2d_f32 how = {.w = v.w};
        memcpy(&how.n, &v.n, offsetof(struct sp_args_conv2d_f32, act) - offsetof(struct sp_args_conv2d_f32, n));
        if (!(v.w = packed("pack_conv2d_f32", &how, "conv2d_f32", &v, (const void **)(void *)&v.w, &plan)))
            return;
        plan.pack = 1;
        plan.blob_nbytes = UINT64_MAX;
    }
    const int rc = routine("conv2d_f32", &v, &plan);
    if (rc) {
        fail("returned %d", rc);
        return;
    }
    double *const found = f64_new(outputs);
    double *const wanted = f64_new(outputs);
    size_t at = 0;
    for (uint32_t image = 0; image < v.n; image++)
        for (uint32_t o = 0; o < v.oc; o++)
            for (uint32_t i = 0; i < v.oh; i++)
                for (uint32_t j = 0; j < v.ow; j++) {
                    const size_t last = ((size_t)(image * v.oh + i) * v.ow + j) * v.oc + o;
                    wanted[at] = plain(&matrix, image, o, i, j);
                    found[at] = (double)y[v.nhwc ? last : at];
                    at++;
                }
    const int exact = plan.algo == SP_ALGO_DIRECT || plan.algo == SP_ALGO_IM2COL || plan.algo == SP_ALGO_NAIVE;
    compare("y", found, wanted, outputs, exact ? TOLERANCE_DIRECT : TOLERANCE_WINOGRAD,
            sqrt(terms) * 4 / 3);
}
