/* Direct convolution by pixel tiles: divides the work into tasks, and packs weights that come as a
 * plain array. The loops are in pixels.inc.
 *
 * A block is one or two vectors of output channels. A task takes as many blocks as stay in L2 and
 * computes all its pixels for them, then takes the next blocks. The image is not blocked, because a
 * tile's window is read in place. */
#include "direct.h"

#include <errno.h>
#include <string.h>

enum {
    /* largest number of terms of a partial sum if the plan sets no kc; few, to keep rounding errors
     * small */
    CHANNEL_TERMS = 512,
    /* A task computes as many blocks of output channels at a time as have at most this many bytes
     * of packed weights (but at least one). The weights then stay in L2 while the task computes one
     * pixel tile after the other. */
    RESIDENT_NBYTES = 1 << 19,
    MOST_RESIDENT = 64
};

struct work {
    struct sp_conv v;
    struct sp_conv_task task;
    const struct sp_conv_kernel *kernel;
    float *weights;
    const float *bias;
    int64_t blocks;   /* blocks of output channels per group */
    /* number of blocks that a task computes at a time, so that their weights stay in L2 */
    int64_t resident;
    int64_t block_parts, tile_parts;
    uint32_t is_wild;
};

/* Returns the number of output channels of a group, rounded up to whole vectors. So the group's
 * last block of output channels has one or two vectors. */
static int64_t lanes_of_group(const struct work *work)
{
    return sp_ceil_div(work->v.ocg, work->kernel->lanes) * work->kernel->lanes;
}

/* Describes block `b` of output channels of group `group`. */
static struct sp_conv_block block_of(const struct work *work, int64_t group, int64_t b)
{
    const struct sp_conv *const v = &work->v;
    const int64_t wide = 2 * work->kernel->lanes;
    const int64_t terms = v->cg * v->taps;
    const int64_t of_group = lanes_of_group(work);
    const int64_t here = sp_min_i64(wide, of_group - b * wide);
    return (struct sp_conv_block){
        .w = work->weights + (group * of_group + b * wide) * terms,
        .bias = work->bias + group * of_group + b * wide,
        .first = group * v->ocg + b * wide,
        .channels = sp_min_i64(wide, v->ocg - b * wide),
        .nv = (int)(here / work->kernel->lanes),
        .is_wild = (int)__atomic_load_n(&work->is_wild, __ATOMIC_RELAXED),
    };
}

static void pack_block(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const struct sp_conv_block block = block_of(work, index / work->blocks, index % work->blocks);
    float *const to = work->weights + (block.w - work->weights);
    if (work->kernel->pack(&work->v, block.first, block.channels, block.nv * work->kernel->lanes, to))
        __atomic_store_n(&work->is_wild, 1, __ATOMIC_RELAXED);
}

/* Copies the bias to scratch memory, one value for each lane of each block. Returns NULL when there
 * is no memory. */
static const float *spread_bias(const struct work *work)
{
    const struct sp_conv *const v = &work->v;
    const size_t floats = (size_t)(lanes_of_group(work) * v->groups);
    float *const bias = sp_scratch(SP_SCRATCH_C, floats * sizeof(float));
    if (!bias)
        return NULL;
    memset(bias, 0, floats * sizeof(float));
    for (int64_t g = 0; g < v->groups && v->bias; g++)
        memcpy(bias + g * lanes_of_group(work), v->bias + g * v->ocg, (size_t)v->ocg * sizeof(float));
    return bias;
}

static void one_task(void *ctx, uint32_t index)
{
    const struct work *const work = ctx;
    const int64_t all = work->v.n * work->task.tiles;
    const int64_t part = index % work->tile_parts;
    const int64_t blocks_part = index / work->tile_parts % work->block_parts;
    const int64_t group = index / work->tile_parts / work->block_parts;
    const int64_t t0 = part * all / work->tile_parts;
    const int64_t t1 = (part + 1) * all / work->tile_parts;
    const int64_t b1 = (blocks_part + 1) * work->blocks / work->block_parts;
    struct sp_conv_block blocks[MOST_RESIDENT];
    for (int64_t b = blocks_part * work->blocks / work->block_parts; b < b1; b += work->resident) {
        const int64_t count = sp_min_i64(work->resident, b1 - b);
        for (int64_t i = 0; i < count; i++)
            blocks[i] = block_of(work, group, b + i);
        work->kernel->pixels(&work->task, blocks, count, group, t0, t1);
    }
}

static struct work begin(const struct sp_conv *v, enum sp_isa isa)
{
    struct work work = {.v = *v, .kernel = sp_conv_kernels[isa]};
    work.blocks = sp_ceil_div(v->ocg, 2 * work.kernel->lanes);
    return work;
}

int64_t sp_conv_pixels_floats(const struct sp_conv *v, enum sp_isa isa)
{
    const struct work work = begin(v, isa);
    return lanes_of_group(&work) * v->groups * v->cg * v->taps;
}

int sp_conv_pixels_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    struct work work = begin(v, isa);
    if (v->groups * work.blocks > UINT32_MAX)
        return -EINVAL;
    work.weights = to;
    sp_pool_run(pool, pack_block, &work, (uint32_t)(v->groups * work.blocks), threads);
    return (int)work.is_wild;
}

int sp_conv_pixels(const struct sp_conv *conv, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    struct work work = begin(conv, isa);
    struct sp_conv *const v = &work.v;
    const int64_t wide = 2 * work.kernel->lanes;
    const int64_t terms = v->cg * v->taps;
    sp_conv_flatten(v);
    work.weights = (float *)(uintptr_t)packed->w;
    work.is_wild = packed->is_wild;
    work.bias = spread_bias(&work);
    if (!work.bias)
        return -ENOMEM;
    const int64_t chunk = plan->kc ? plan->kc : CHANNEL_TERMS;
    const int64_t resident = plan->mc ? plan->mc / wide : RESIDENT_NBYTES / (int64_t)sizeof(float) / (terms * wide);
    const int64_t most = resident < 1 ? 1 : sp_min_i64(resident, MOST_RESIDENT);
    /* A task computes `resident` blocks of output channels at a time, and reads its part of x again
     * for each such set of blocks. So make as few sets as possible, and make them equally large. */
    work.resident = sp_ceil_div(work.blocks, sp_ceil_div(work.blocks, most));
    struct sp_conv_task *const task = &work.task;
    task->v = v;
    task->memory = v->nhwc ? (struct sp_conv_memory){1, v->w_in * v->c, v->c, 1, v->kw * v->cg, v->cg}
                           : (struct sp_conv_memory){v->h * v->w_in, v->w_in, 1, v->taps, v->kw, 1};
    task->rows = v->ow <= work.kernel->run && v->oh > 1 ? 2 : 1;
    task->across = sp_ceil_div(v->ow, 2 * work.kernel->run);
    task->tiles = sp_ceil_div(v->oh, task->rows) * task->across;
    task->channels = chunk / v->taps < 1 ? 1 : chunk / v->taps;

    work.block_parts = work.tile_parts = 1;
    if (threads > 1) {
        const int64_t parts = 4 * (int64_t)threads;
        work.tile_parts = work.resident >= work.blocks || v->groups > 1 ? sp_min_i64(parts, v->n * task->tiles) : 1;
        work.block_parts = work.tile_parts > 1 ? 1 : sp_min_i64(parts, work.blocks);
    }
    const int64_t tasks = v->groups * work.block_parts * work.tile_parts;
    if (tasks > UINT32_MAX)
        return -EINVAL;
    sp_pool_run(pool, one_task, &work, (uint32_t)tasks, threads);
    return 0;
}
