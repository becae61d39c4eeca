/* Direct convolution of NCHW images by strips: divides the work into tasks, and packs weights that
 * come as a plain array. The loops are in strips.inc.
 *
 * A strip is a piece of an output row for a few output channels. A piece is computed for all output
 * channels of a task while its input rows are in L1. The input rows are read in place, or copied to
 * a window with zeros for padding. */
#include "direct.h"

#include <errno.h>

enum {
    /* largest number of terms of a partial sum if the plan sets no kc; few, to keep rounding errors
     * small */
    TERMS = 512,
    /* A task computes as many channel tiles at a time as have at most this many bytes of packed
     * weights (but at least one). The weights then stay in L2 while the task computes one piece of
     * a row after the other. */
    RESIDENT_NBYTES = 1 << 19,
    MOST_COLUMNS = 4096 /* the largest number of columns of a piece of a row, for any plan */
};

struct work {
    struct sp_conv v;
    struct sp_conv_strips task;
    const struct sp_conv_kernel *kernel;
    float *packed;
    /* number of channel tiles that a task computes at a time, so that their weights stay in L2 */
    int64_t resident;
    int64_t tile_parts, piece_parts;
    size_t window_nbytes;
    uint32_t is_wild;
    int failed;
};

static void pack_tile(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const struct sp_conv *const v = &work->v;
    const int64_t first = index / work->task.tiles * v->ocg;
    const int64_t tile = index % work->task.tiles;
    const int64_t o0 = first + tile * v->ocg / work->task.tiles;
    const int64_t o1 = first + (tile + 1) * v->ocg / work->task.tiles;
    if (work->kernel->pack_strip(v, o0, o1 - o0, work->packed + o0 * v->cg * v->taps))
        __atomic_store_n(&work->is_wild, 1, __ATOMIC_RELAXED);
}

static struct work begin(const struct sp_conv *v, enum sp_isa isa)
{
    struct work work = {.v = *v, .kernel = sp_conv_kernels[isa]};
    work.task.tiles = sp_ceil_div(v->ocg, 2 * work.kernel->run);
    return work;
}

int sp_conv_strips_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    struct work work = begin(v, isa);
    if (v->groups * work.task.tiles > UINT32_MAX)
        return -EINVAL;
    work.packed = to;
    sp_pool_run(pool, pack_tile, &work, (uint32_t)(v->groups * work.task.tiles), threads);
    return (int)work.is_wild;
}

static void one_task(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const int64_t all = work->v.n * work->v.oh * work->task.pieces;
    const int64_t part = index % work->piece_parts;
    const int64_t tile_part = index / work->piece_parts % work->tile_parts;
    const int64_t group = index / work->piece_parts / work->tile_parts;
    const int64_t t1 = (tile_part + 1) * work->task.tiles / work->tile_parts;
    float *const window = sp_scratch(SP_SCRATCH_A, work->window_nbytes);
    if (!window) {
        __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t t = tile_part * work->task.tiles / work->tile_parts; t < t1; t += work->resident)
        work->kernel->strips(&work->task, window, group, t, sp_min_i64(t + work->resident, t1),
                             part * all / work->piece_parts, (part + 1) * all / work->piece_parts);
}

int sp_conv_strips(const struct sp_conv *conv, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    struct work work = begin(conv, isa);
    struct sp_conv *const v = &work.v;
    struct sp_conv_strips *const task = &work.task;
    sp_conv_flatten(v);
    const int64_t lanes = work.kernel->lanes;
    const int64_t terms = v->cg * v->taps;
    const int64_t chunk = plan->kc ? plan->kc : TERMS;
    task->v = v;
    task->piece = sp_conv_cut(v, v->cg * v->kh, sp_min_i64(plan->nc, MOST_COLUMNS), lanes);
    task->taps = sp_conv_taps(v, &task->piece);
    if (!task->taps)
        return -ENOMEM;
    task->weights = packed->w;
    task->pieces = sp_conv_pieces(v, &task->piece, lanes);
    task->rows = sp_max_i64(chunk / v->kw, 1);
    task->is_aliased = sp_conv_is_aliased(v);
    work.window_nbytes = (size_t)(v->cg * v->kh * task->piece.row) * sizeof(float);
    const int64_t of_tile = terms * sp_ceil_div(v->ocg, task->tiles) * (int64_t)sizeof(float);
    work.resident = sp_max_i64(plan->mc ? plan->mc / (2 * work.kernel->run) : RESIDENT_NBYTES / of_tile, 1);

    work.tile_parts = work.piece_parts = 1;
    if (threads > 1)
        work.piece_parts = sp_min_i64(4 * (int64_t)threads, v->n * v->oh * task->pieces);
    const int64_t tasks = v->groups * work.piece_parts;
    if (tasks > UINT32_MAX)
        return -EINVAL;
    sp_pool_run(pool, one_task, &work, (uint32_t)tasks, threads);
    return work.failed ? -ENOMEM : 0;
}
