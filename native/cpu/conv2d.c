/* conv2d_f32: checks the geometry, picks the algorithm, hands out the work.
 *
 * im2col without the column matrix: conv is a matrix product whose panels of pixels are packed straight from the
 * image (conv2d.inc), so it runs on the loop nest of gemm.c.
 *   NCHW: y[oc][pixel] = w[oc][(c, ky, kx)] * columns[(c, ky, kx)][pixel], a product for each image and group;
 *   NHWC: y[pixel][oc] = columns[pixel][(c, ky, kx)] * w'[(c, ky, kx)][oc].
 * A group with few output channels fills no micro-tile: those go straight to rows (NCHW) or, with one channel a
 * group, to the depthwise loop (NHWC). */
#include "conv2d.h"

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

enum { DIRECT_CHANNELS = 4 }; /* up to so many output channels a group, packing costs more than it saves */

/* 0, 1 (nothing to compute) or -EINVAL. */
static int widen(const struct sp_args_conv2d_f32 *a, struct sp_conv *v)
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

struct work {
    const struct sp_conv *conv;
    const struct sp_conv_kernel *kernel;
    const struct sp_gemm_kernel *gemm;
    const struct sp_tile_plan *plan;
    struct sp_pool *pool; /* NULL: whoever runs this is one of many already */
    const float *wt;
    int64_t rows, runs; /* output rows a task, tasks a plane */
    int error;
};

/* The matrix product of one group of one image. */
static int product(const struct work *work, int64_t index)
{
    const struct sp_conv *const v = work->conv;
    const int64_t image = index / v->groups;
    const int64_t group = index % v->groups;
    const int64_t c0 = group * v->cg;
    const int64_t o0 = group * v->ocg;
    const size_t pixels = (size_t)(v->oh * v->ow);
    const size_t k = (size_t)(v->cg * v->taps);
    const int is_1x1 = v->taps == 1 && v->sh == 1 && v->sw == 1 && v->ph == 0 && v->pw == 0 && v->oh == v->h &&
                       v->ow == v->w_in;
    const float *const image_x = v->x + image * v->c * v->h * v->w_in;
    const struct sp_conv_group source = {v, v->nhwc ? image_x + c0 : image_x + c0 * v->h * v->w_in};
    const struct sp_strided weights = {v->w + o0 * v->cg * v->taps, k, 1};
    const struct sp_strided image_1x1 = {source.x, v->nhwc ? (size_t)v->c : 1, v->nhwc ? 1 : pixels};
    const void *const columns = is_1x1 ? (const void *)&image_1x1 : &source;
    const float *const bias = v->bias ? v->bias + o0 : NULL;
    struct sp_gemm_job job = {.kernel = work->gemm, .k = k, .act = v->act};
    if (v->nhwc) {
        job.m = pixels;
        job.n = (size_t)v->ocg;
        job.pack_a = is_1x1 ? work->gemm->pack : work->kernel->pixels_nhwc;
        job.a = columns;
        job.pack_b = work->gemm->pack;
        job.b = &weights;
        job.c = v->y + image * (int64_t)pixels * v->oc + o0;
        job.rsc = (size_t)v->oc;
        job.bias_columns = bias;
    } else {
        job.m = (size_t)v->ocg;
        job.n = pixels;
        job.pack_a = work->gemm->pack;
        job.a = &weights;
        job.pack_b = is_1x1 ? work->gemm->pack : work->kernel->pixels_nchw;
        job.b = columns;
        job.b_in_place = is_1x1 ? source.x : NULL;
        job.ldb = pixels;
        job.c = v->y + (image * v->oc + o0) * (int64_t)pixels;
        job.rsc = pixels;
        job.bias_rows = bias;
    }
    sp_gemm_choose(&job, work->plan);
    return work->pool ? sp_gemm_run(&job, work->plan, work->pool) : sp_gemm_block(&job, 0, job.m, 0, job.n);
}

static void one_product(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const int error = product(work, index);
    if (error)
        __atomic_store_n(&work->error, error, __ATOMIC_RELAXED);
}

static int im2col(struct work *work, uint32_t threads)
{
    const int64_t planes = work->conv->n * work->conv->groups;
    if (planes >= 2 * (int64_t)threads && threads > 1 && planes <= UINT32_MAX) {
        struct work alone = *work;
        alone.pool = NULL;
        sp_pool_run(work->pool, one_product, &alone, (uint32_t)planes, threads);
        return alone.error;
    }
    if (threads == 1)
        work->pool = NULL;
    for (int64_t p = 0; p < planes; p++) {
        const int error = product(work, p);
        if (error)
            return error;
    }
    return 0;
}

/* A run of output rows: of one channel (NCHW) or of all (NHWC). */
static void one_run(void *ctx, uint32_t index)
{
    const struct work *const work = ctx;
    const struct sp_conv *const v = work->conv;
    const int64_t plane = index / work->runs;
    const int64_t y0 = index % work->runs * work->rows;
    const int64_t y1 = y0 + work->rows < v->oh ? y0 + work->rows : v->oh;
    if (v->nhwc)
        work->kernel->depthwise_nhwc(v, work->wt, plane, y0, y1);
    else
        work->kernel->rows_nchw(v, plane / v->oc, plane % v->oc, y0, y1);
}

static int direct(struct work *work, uint32_t threads, double flops)
{
    const struct sp_conv *const v = work->conv;
    const int64_t planes = v->nhwc ? v->n : v->n * v->oc;
    if (v->nhwc) { /* once for all tasks, in the caller's scratch */
        float *const wt = sp_scratch(SP_SCRATCH_B, (size_t)(v->taps * v->oc) * sizeof(float));
        if (!wt)
            return -ENOMEM;
        for (int64_t o = 0; o < v->oc; o++)
            for (int64_t t = 0; t < v->taps; t++)
                wt[t * v->oc + o] = v->w[o * v->taps + t];
        work->wt = wt;
    }
    /* Some 100k flops a task. */
    const double rows = 1e5 * (double)(planes * v->oh) / (flops + 1);
    work->rows = rows < 1 ? 1 : rows < (double)v->oh ? (int64_t)rows : v->oh;
    work->runs = (v->oh + work->rows - 1) / work->rows;
    if (planes * work->runs > UINT32_MAX)
        return -EINVAL;
    const uint32_t tasks = (uint32_t)(planes * work->runs);
    if (threads == 1)
        for (uint32_t t = 0; t < tasks; t++)
            one_run(work, t);
    else
        sp_pool_run(work->pool, one_run, work, tasks, threads);
    return 0;
}

static int run(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa)
{
    struct sp_conv v;
    const int checked = widen(args, &v);
    if (checked)
        return checked < 0 ? checked : 0;
    if (plan->algo == SP_ALGO_NAIVE || (plan->algo == SP_ALGO_AUTO && isa == SP_ISA_REF))
        return sp_conv_naive(&v, plan, pool);
    const double flops = 2.0 * (double)v.n * (double)v.oc * (double)(v.oh * v.ow) * (double)(v.cg * v.taps);
    const uint32_t threads = sp_gemm_threads(flops, plan, pool);
    struct work work = {.conv = &v, .kernel = sp_conv_kernels[isa], .gemm = &sp_gemm_kernels[isa][SP_GEMM_F32],
                        .plan = plan, .pool = pool};
    const int has_direct = v.nhwc ? v.cg == 1 && v.ocg == 1 : 1;
    const int wants_direct = v.nhwc || v.ocg <= DIRECT_CHANNELS;
    if (has_direct && (plan->algo == SP_ALGO_DIRECT || (plan->algo == SP_ALGO_AUTO && wants_direct)))
        return direct(&work, threads, flops);
    return im2col(&work, threads);
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
