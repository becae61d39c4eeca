/* Direct convolution of NCHW images by panels (pixels copied in the order in which the micro-kernel
 * reads them): divides the work into tasks. The loops are in panels.inc. The micro-kernel and the
 * packed weights are those of strips (strips.c). */
#include "direct.h"

#include <errno.h>

enum {
    /* target for the number of products in a partial sum; few, to keep rounding errors small */
    TERMS = 512,
    PANELS_NBYTES = 128 << 10, /* default limit of the panels of a stretch of pixels, in bytes */
    /* target for a number of bytes of weights. All panels use these weights before the next
     * ones, so the weights stay in L2. */
    NEAR_NBYTES = 128 << 10,
    MOST_NBYTES = 4 << 20,     /* limit of the scratch memory per thread, in bytes */
    MOST_TERMS = 1 << 16,
    /* With at most this many input channels, a window of input rows stays in L1. Panels then gain
     * nothing. */
    FEW_CHANNELS = 16,
    /* FEW_TILES: with at most this many tiles of output channels, packing a panel costs more
     * than it saves. x is then read in place, under two more conditions. Each input plane is one
     * long row, and the micro-kernel's steps are long enough to hide L2's latency. On Zen 4
     * steps of 14 x 2 vectors of 64 bytes are long enough; steps of 6 x 2 vectors of 32 bytes
     * are not. FEWEST_TILES is the limit if an output is a sum of fewer than SOME_TERMS terms,
     * because each call of the micro-kernel is short then. Where x is read in place, stretches
     * of pixels are short: a long one would save no copying, and its outputs would evict the
     * prefetched input lines from L2. */
    FEWEST_TILES = 12,
    FEW_TILES = 20,
    SOME_TERMS = 128,
    IN_PLACE_LANES = 16,
    IN_PLACE_PANELS = 2,
    IN_PLACE_NBYTES = 128 << 10
};

struct work {
    struct sp_conv v;
    struct sp_conv_strips task;
    const struct sp_conv_kernel *kernel;
    /* A task computes one of `parts` ranges of stretches, for one of `bands` ranges of channel
     * tiles. Each task packs its own panels. */
    int64_t parts, bands;
    size_t scratch_nbytes;
    int failed;
};

/* Returns the largest number of pixels of a stretch (output pixels whose panels are packed
 * together) whose panels stay in L2. */
static int64_t wanted(const struct work *work, const struct sp_tile_plan *plan)
{
    const struct sp_conv *const v = &work->v;
    const int64_t nbytes = v->cg * v->taps * (int64_t)sizeof(float);
    const int64_t pixels = sp_min_i64(plan->nc ? plan->nc : PANELS_NBYTES / nbytes, MOST_NBYTES / 2 / nbytes);
    const int64_t most = IN_PLACE_PANELS * 2 * work->kernel->lanes;
    return work->task.in_place ? sp_min_i64(pixels, sp_min_i64(IN_PLACE_NBYTES / nbytes, most)) : pixels;
}

/* Divides an output plane into stretches of pixels and computes the sizes of scratch memory. */
static void cut(struct work *work, const struct sp_tile_plan *plan)
{
    struct sp_conv *const v = &work->v;
    struct sp_conv_strips *const task = &work->task;
    const int64_t lanes = work->kernel->lanes;
    const int64_t wide = 2 * lanes;
    const int64_t plane = v->oh * v->ow;
    task->tiles = sp_ceil_div(v->ocg, 2 * work->kernel->run);
    /* sp_conv_flatten has made each image one row if the convolution is 1x1 with stride 1 */
    task->is_row = sp_conv_is_pixel_by_pixel(v) && v->h == 1;
    task->in_place = task->is_row && lanes >= IN_PLACE_LANES && plane >= lanes &&
                     task->tiles <= (v->cg < SOME_TERMS ? FEWEST_TILES : FEW_TILES) &&
                     !sp_conv_is_aliased(v) && v->cg * wide * (int64_t)sizeof(float) <= IN_PLACE_NBYTES;
    const int64_t pixels = wanted(work, plan);
    const int64_t columns = sp_max_i64(sp_min_i64(pixels, SP_CONV_MOST_STRETCH) / wide, 1) * wide;
    /* divide the output plane into stretches of equal size */
    task->piece.columns = sp_ceil_div(sp_ceil_div(plane, sp_ceil_div(plane, columns)), wide) * wide;
    task->pieces = sp_ceil_div(plane, task->piece.columns);
    task->panel = (v->cg * v->taps + 1) * wide;
    task->images = task->pieces == 1 && !task->in_place ? sp_max_i64(sp_min_i64(v->n, pixels / task->piece.columns), 1) : 1;
    task->panels_floats = task->images * (task->piece.columns / wide) * task->panel;
    const int64_t outputs = sp_min_i64((task->piece.columns - 1) / v->ow + 2, v->oh);
    const int64_t rows = sp_conv_depthwise_rows(v, outputs);
    task->rows_of = sp_conv_cut(v, rows, v->ow, lanes);
    work->scratch_nbytes = (size_t)(task->panels_floats + rows * task->rows_of.row + wide) * sizeof(float);
}

int sp_conv_panels_take(const struct sp_conv *conv, const struct sp_tile_plan *plan, enum sp_isa isa)
{
    struct work work = {.v = *conv, .kernel = sp_conv_kernels[isa]};
    struct sp_conv *const v = &work.v;
    sp_conv_flatten(v);
    if (v->nhwc || v->cg <= FEW_CHANNELS || (v->kw - 1) * v->dw > INT32_MAX || v->kh * v->dh > INT32_MAX)
        return 0;
    if (v->cg * v->taps > MOST_TERMS)
        return 0;
    cut(&work, plan);
    return work.task.rows_of.phases <= SP_CONV_MOST_PHASES && work.scratch_nbytes <= MOST_NBYTES;
}

static int64_t stretches(const struct sp_conv_strips *task)
{
    return sp_ceil_div(task->v->n, task->images) * task->pieces;
}

static void one_task(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const int64_t all = stretches(&work->task);
    const int64_t part = index % work->parts;
    const int64_t band = index / work->parts % work->bands;
    const int64_t group = index / work->parts / work->bands;
    const int64_t tiles = work->task.tiles;
    float *const scratch = sp_scratch(SP_SCRATCH_A, work->scratch_nbytes);
    if (scratch)
        work->kernel->panels(&work->task, scratch, group, band * tiles / work->bands, (band + 1) * tiles / work->bands,
                             part * all / work->parts, (part + 1) * all / work->parts);
    else
        __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
}

/* Divides the work among the threads by stretches of pixels. A convolution with many weights has
 * few stretches, so its tiles of output channels are divided among the threads too. */
static void share_out(struct work *work, int64_t threads)
{
    const int64_t all = stretches(&work->task);
    const int64_t several = 4 * threads;
    work->parts = threads > 1 ? sp_min_i64(several, all) : 1;
    work->bands = 1;
    if (threads == 1 || work->parts * work->v.groups >= several)
        return;
    while (work->parts * work->v.groups * work->bands % threads && work->bands < sp_min_i64(threads, work->task.tiles))
        work->bands++;
}

int sp_conv_panels(const struct sp_conv *conv, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    static const int64_t no_tap = 0;
    struct work work = {.v = *conv, .kernel = sp_conv_kernels[isa]};
    struct sp_conv *const v = &work.v;
    struct sp_conv_strips *const task = &work.task;
    sp_conv_flatten(v);
    cut(&work, plan);
    task->v = v;
    task->no_tap = &no_tap;
    task->weights = packed->w;
    task->taps = sp_conv_taps(v, &task->rows_of);
    if (!task->taps)
        return -ENOMEM;
    const int64_t terms = v->cg * v->taps;
    task->rows = sp_ceil_div(terms, sp_ceil_div(terms, plan->kc ? plan->kc : TERMS));
    const int64_t near = plan->mc ? plan->mc : NEAR_NBYTES / (int64_t)sizeof(float) / task->rows;
    task->near_tiles = sp_max_i64(near / (2 * work.kernel->run), 1);
    share_out(&work, threads);
    const int64_t tasks = v->groups * work.parts * work.bands;
    if (tasks > UINT32_MAX)
        return -EINVAL;
    sp_pool_run(pool, one_task, &work, (uint32_t)tasks, threads);
    return work.failed ? -ENOMEM : 0;
}
