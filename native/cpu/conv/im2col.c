/* Convolution by im2col without a column matrix: a matrix product whose panels of pixels are packed
 * straight from the image (im2col.inc). It runs on the loop nest of gemm/nest.c. Each group of each
 * image is one product.
 *   NCHW: y[oc][pixel] = w[oc][(c, ky, kx)] * columns[(c, ky, kx)][pixel]
 *   NHWC: y[pixel][oc] = columns[pixel][(c, ky, kx)] * w'[(c, ky, kx)][oc] */
#include "algorithms.h"

#include <errno.h>

struct work {
    const struct sp_conv *conv;
    const struct sp_conv_kernel *kernel;
    const struct sp_gemm_kernel *gemm;
    const struct sp_tile_plan *plan;
    struct sp_pool *pool; /* NULL when the caller is itself one of many parallel tasks */
    int error;
};

/* Computes the matrix product of one group of one image. */
static int product(const struct work *work, int64_t index)
{
    const struct sp_conv *const v = work->conv;
    const int64_t image = index / v->groups;
    const int64_t group = index % v->groups;
    const int64_t c0 = group * v->cg;
    const int64_t o0 = group * v->ocg;
    const size_t pixels = (size_t)(v->oh * v->ow);
    const size_t k = (size_t)(v->cg * v->taps);
    const int is_1x1 = sp_conv_is_pixel_by_pixel(v);
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

int sp_conv_im2col(const struct sp_conv *v, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa,
                   uint32_t threads)
{
    struct work work_of_all = {.conv = v, .kernel = sp_conv_kernels[isa], .gemm = &sp_gemm_kernels[isa][SP_GEMM_F32],
                               .plan = plan, .pool = pool};
    struct work *const work = &work_of_all;
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
