/* Layout transforms of 4-D f32 arrays. Each is a batch of matrix transposes between channels and
 * pixels. NCHW is [c][h*w], NHWC is [h*w][c], blocked is [c/block] of [h*w][block] with zeros after
 * the last channel. */
#include "core/args.h"
#include "cpu/runtime/kernel.h"
#include "cpu/vector/transpose.h"

#include <errno.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

sp_routine_fn sp_nchw_to_nhwc_f32_ref;
sp_routine_fn sp_nhwc_to_nchw_f32_ref;
sp_routine_fn sp_nchw_to_blocked_f32_ref;
sp_routine_fn sp_blocked_to_nchw_f32_ref;

/* A tile is a square of TILE x TILE floats: TILE floats fill a cache line. */
enum { TILE = 16, SQUARE = 4, TASK_ELEMENTS = 1 << 15 };

/* Transposes one tile. If the stride of an array is a large power of two, all its rows compete for
 * the same few cache lines. So the loops finish four rows of the array with the longer stride at a
 * time, before these rows are evicted. */
static void turn_tile(float *dst, size_t ld_dst, const float *src, size_t ld_src)
{
    if (ld_src >= ld_dst)
        for (size_t i = 0; i < TILE; i += SQUARE)
            for (size_t j = 0; j < TILE; j += SQUARE)
                sp_transpose_4x4_f32(src + i * ld_src + j, ld_src, dst + j * ld_dst + i, ld_dst);
    else
        for (size_t j = 0; j < TILE; j += SQUARE)
            for (size_t i = 0; i < TILE; i += SQUARE)
                sp_transpose_4x4_f32(src + i * ld_src + j, ld_src, dst + j * ld_dst + i, ld_dst);
}

void sp_transpose_f32(float *dst, size_t ld_dst, const float *src, size_t ld_src, size_t rows, size_t columns)
{
    for (size_t j0 = 0; j0 < columns; j0 += TILE) {
        const size_t nj = columns - j0 < TILE ? columns - j0 : TILE;
        for (size_t i0 = 0; i0 < rows; i0 += TILE) {
            const size_t ni = rows - i0 < TILE ? rows - i0 : TILE;
            const float *const s = src + i0 * ld_src + j0;
            float *const d = dst + j0 * ld_dst + i0;
            if (ni == TILE && nj == TILE)
                turn_tile(d, ld_dst, s, ld_src);
            else
                for (size_t j = 0; j < nj; j++)
                    for (size_t i = 0; i < ni; i++)
                        d[j * ld_dst + i] = s[i * ld_src + j];
        }
    }
}

struct job {
    float *y;
    const float *x;
    /* number of independent matrix transposes, each of up to `block` channels of one image */
    size_t planes;
    size_t pixels;
    size_t runs; /* number of tasks per transpose; a task has consecutive pixels */
    size_t run;
    size_t channels; /* number of channels of the array */
    size_t block;    /* most channels of one transpose; for NHWC all channels of the array */
    size_t blocks;   /* number of matrix transposes per image */
    int to_channels_last;
};

static void one_task(void *ctx, uint32_t index)
{
    const struct job *const job = ctx;
    const size_t plane = index / job->runs;
    const size_t p0 = index % job->runs * job->run;
    const size_t pixels = job->pixels - p0 < job->run ? job->pixels - p0 : job->run;
    const size_t image = plane / job->blocks;
    const size_t c0 = plane % job->blocks * job->block;
    const size_t channels = job->channels - c0 < job->block ? job->channels - c0 : job->block;
    const size_t first = (image * job->channels + c0) * job->pixels + p0; /* offset in NCHW */
    /* offset in the array with channels last (NHWC or blocked) */
    const size_t last = (plane * job->pixels + p0) * job->block;
    if (!job->to_channels_last) {
        sp_transpose_f32(job->y + first, job->pixels, job->x + last, job->block, pixels, channels);
        return;
    }
    sp_transpose_f32(job->y + last, job->block, job->x + first, job->pixels, channels, pixels);
    for (size_t p = 0; p < pixels; p++)
        for (size_t c = channels; c < job->block; c++)
            job->y[last + p * job->block + c] = 0.0f;
}

static int run(struct job *job, uint32_t h, uint32_t w, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    job->pixels = (size_t)h * w;
    if (job->planes == 0 || job->pixels == 0)
        return 0;
    job->run = (TASK_ELEMENTS / job->block + TILE) / TILE * TILE;
    while (job->planes * ((job->pixels + job->run - 1) / job->run) > UINT32_MAX && job->run < job->pixels)
        job->run *= 2;
    job->runs = (job->pixels + job->run - 1) / job->run;
    const size_t tasks = job->planes * job->runs;
    if (tasks > UINT32_MAX)
        return -EINVAL;
    if (tasks * job->run * job->block <= TASK_ELEMENTS)
        for (uint32_t t = 0; t < tasks; t++)
            one_task(job, t);
    else
        sp_pool_run(pool, one_task, job, (uint32_t)tasks, plan->threads);
    return 0;
}

int sp_nchw_to_nhwc_f32_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const struct sp_args_nchw_to_nhwc_f32 *const v = args;
    struct job job = {.y = v->y, .x = v->x, .planes = v->c ? v->n : 0, .channels = v->c, .block = v->c, .blocks = 1,
                      .to_channels_last = 1};
    return run(&job, v->h, v->w, plan, pool);
}

int sp_nhwc_to_nchw_f32_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const struct sp_args_nhwc_to_nchw_f32 *const v = args;
    struct job job = {.y = v->y, .x = v->x, .planes = v->c ? v->n : 0, .channels = v->c, .block = v->c, .blocks = 1};
    return run(&job, v->h, v->w, plan, pool);
}

int sp_nchw_to_blocked_f32_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const struct sp_args_nchw_to_blocked_f32 *const v = args;
    if (v->block == 0)
        return -EINVAL;
    const size_t blocks = ((size_t)v->c + v->block - 1) / v->block;
    struct job job = {.y = v->y, .x = v->x, .planes = v->n * blocks, .channels = v->c, .block = v->block,
                      .blocks = blocks, .to_channels_last = 1};
    return run(&job, v->h, v->w, plan, pool);
}

int sp_blocked_to_nchw_f32_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const struct sp_args_blocked_to_nchw_f32 *const v = args;
    if (v->block == 0)
        return -EINVAL;
    const size_t blocks = ((size_t)v->c + v->block - 1) / v->block;
    struct job job = {.y = v->y, .x = v->x, .planes = v->n * blocks, .channels = v->c, .block = v->block,
                      .blocks = blocks};
    return run(&job, v->h, v->w, plan, pool);
}
