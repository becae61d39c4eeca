/* Blocking and threads of a Winograd convolution: divides the image into groups of tiles. Each
 * group is transformed, multiplied and transformed back while it is in the cache (winograd.h).
 *
 * With enough groups, each thread computes whole groups. A small image is one group. Then threads
 * divide its input transform by blocks of channels, and its matrix products by panels of output
 * channels. No sum is ever split, so the output has the same bits for any number of threads and any
 * blocking. */
#include "winograd.h"

#include <errno.h>

const struct sp_wino_kernel *const sp_wino_kernels[4] = {
    [SP_ISA_REF] = &sp_wino_ref,
#if defined(__aarch64__)
    [SP_ISA_NEON] = &sp_wino_neon,
#endif
#if defined(__x86_64__)
    [SP_ISA_AVX2] = &sp_wino_avx2,
    [SP_ISA_AVX512] = &sp_wino_avx512,
#endif
};

/* Shares of a core's L2 (512 KiB or more): V_NBYTES for a group's transformed patches, M_NBYTES for
 * the products before the output transform. Images larger than FAR_NBYTES are not in L2. */
enum { V_NBYTES = 512 << 10, M_NBYTES = 256 << 10, FAR_NBYTES = 768 << 10 };

int sp_winograd_fits(const struct sp_conv *v, uint32_t tile)
{
    return (tile == 2 || tile == 4 || tile == 6) && v->kh == 3 && v->kw == 3 && v->sh == v->sw &&
           v->sh <= (tile == 6 ? 1 : 2) && v->dh == 1 && v->dw == 1 && v->groups == 1;
}

int sp_winograd_plan(const struct sp_conv *v, uint32_t tile, enum sp_isa isa, struct sp_wino *out)
{
    const struct sp_wino_kernel *const kernel = sp_wino_kernels[isa];
    if (!sp_winograd_fits(v, tile) || !kernel)
        return -EINVAL;
    struct sp_wino w = {.conv = v, .m = tile, .stride = v->sh, .matrices = (tile + 2) * (tile + 2)};
    w.edge = w.stride == 1 ? tile + 2 : 2 * tile + 1;
    w.frequencies = w.edge * w.edge;
    w.points = w.stride == 1 ? tile + 2 : tile + 1;
    w.parts = w.stride == 1 ? 1 : SP_WINO_PARTS;
    w.across = sp_ceil_div(v->ow, tile);
    w.down = sp_ceil_div(v->oh, tile);
    w.blocks = sp_ceil_div(v->c, kernel->lanes);
    w.panel = kernel->lanes * kernel->vectors;
    w.panels = sp_ceil_div(v->oc, w.panel);
    /* Check that these numbers fit into 64 bits: w.tiles, the number of tiles; `all`, more than the
     * bytes of all transformed tiles; `weights`, the bytes of all weight matrices. */
    int64_t all, one, weights;
    if (__builtin_mul_overflow(v->n, w.across, &w.tiles) || __builtin_mul_overflow(w.tiles, w.down, &w.tiles) ||
        __builtin_mul_overflow(w.tiles, v->c + v->oc + 2 * w.panel, &all) || __builtin_mul_overflow(all, 1024, &all) ||
        __builtin_mul_overflow(v->c + kernel->lanes, w.panels * w.panel, &one) ||
        __builtin_mul_overflow(one, w.matrices * (int64_t)sizeof(float), &weights))
        return -EINVAL;
    *out = w;
    return 0;
}

struct work {
    const struct sp_wino *wino;
    const struct sp_wino_kernel *kernel;
    const struct sp_wino_tile *tile;
    const float *u;
    int64_t group, groups;     /* tiles per group, number of groups */
    int far;                   /* 1: prefetch input and output images, which are too large for L2 */
    /* number of weight panels that are multiplied one after the other before the output transform
     * of all of them */
    int64_t wide;
    struct sp_wino_group only; /* used if there is one group, which all threads share */
    int error;
};

/* State of the prefetch, which alternates between input and output. */
struct reading {
    struct sp_wino_ahead output, input;
    int turn;
};

/* Returns how many channels each partial sum adds in the product with weight matrix f. F(6x6) has
 * the largest rounding errors, because its outputs are small differences of large products. Only
 * F(6x6) has several partial sums. Matrix f belongs to one interpolation point of the rows and one
 * of the columns (tile_6x6.inc). How much an error grows depends on these two points. Returns 128
 * if one of them is +-1. Otherwise returns 32 if one is 0 or infinity, else 64. */
static size_t chunk_of(const struct sp_wino *wino, int64_t f)
{
    static const uint8_t counts[8] = {2, 1, 1, 0, 0, 1, 1, 2};
    if (wino->m != 6)
        return SIZE_MAX;
    return (size_t)128 >> sp_min_i64(counts[f / 8] * counts[f % 8], 2);
}

/* Computes the products of one part (struct sp_wino_part) of the group with weight matrix f of that
 * part, but only with panels [p0, p1) of the matrix. `u` holds all panels of the matrix. */
static void products(const struct work *work, const struct sp_wino_group *group, int part, int64_t f, const float *u,
                     int64_t p0, int64_t p1, struct reading *reading, float *m)
{
    const struct sp_wino *const wino = work->wino;
    const struct sp_conv *const conv = wino->conv;
    const struct sp_wino_part *const of = &group->part[part];
    const int64_t lanes = work->kernel->lanes;
    const size_t chunk = chunk_of(wino, f);
    /* Micro-tiles of equal size are better than a short last one. */
    const int64_t call = sp_ceil_div(of->rows, sp_ceil_div(of->rows, work->kernel->rows));
    for (int64_t p = p0; p < p1; p++, m += group->products * wino->panel) {
        const int64_t vectors = sp_ceil_div(sp_min_i64(wino->panel, conv->oc - p * wino->panel), lanes);
        const int64_t width = vectors * lanes;
        const float *const of_panel = u + p * conv->c * wino->panel;
        for (int64_t t = 0; t < of->rows; t += call) {
            const int64_t rows = sp_min_i64(call, of->rows - t);
            const float *line = of_panel;
            int64_t inner = 0;
            reading->turn = !reading->turn;
            struct sp_wino_ahead *const ahead = reading->turn ? &reading->output : &reading->input;
            if (sp_wino_prefetch_next(ahead, &line))
                inner = ahead->inner;
            work->kernel->ukr[(vectors - 1) * work->kernel->rows + rows - 1](
                (size_t)conv->c, of->v + f * of->stride + t * lanes, (size_t)(of->rows * lanes), of_panel, line, inner,
                chunk, m + (of->m + t * of->products + f) * width, (size_t)(of->products * width));
        }
    }
}

/* Computes the products and outputs of panels [first, end) of a group whose input is
 * transformed. */
static int multiply(const struct work *work, const struct sp_wino_group *group, int64_t first, int64_t end)
{
    const struct sp_wino *const wino = work->wino;
    const int64_t wide = sp_min_i64(work->wide, end - first);
    /* number of floats of one panel's results in `m` */
    const int64_t panel_m = group->products * wino->panel;
    float *const m = sp_scratch(SP_SCRATCH_C, (size_t)(wide * panel_m) * sizeof *m);
    if (!m)
        return -ENOMEM;
    struct reading reading = {.turn = 0};
    if (work->far)
        /* prefetch the input of the next group */
        reading.input = sp_wino_ahead_input(wino, group->first + group->count, group->count);
    for (int64_t p0 = first; p0 < end; p0 += wide) {
        const int64_t p1 = sp_min_i64(p0 + wide, end);
        const float *u = work->u;
        if (work->far)
            reading.output =
                sp_wino_ahead_output(wino, group->first, group->count, p0 * wino->panel, (p1 - p0) * wino->panel);
        reading.turn = 0;
        for (int part = 0; part < wino->parts; part++)
            for (int64_t f = 0; f < sp_wino_matrices(wino, part); f++, u += wino->panels * wino->conv->c * wino->panel)
                products(work, group, part, f, u, p0, p1, &reading, m);
        for (int64_t p = p0; p < p1; p++)
            work->tile->output(group, m + (p - p0) * panel_m, p * wino->panel);
    }
    return 0;
}

/* Describes the group of tiles [first, first + count) in `out`, with scratch memory for its
 * transformed patches. */
static int begin(const struct work *work, int64_t first, int64_t count, struct sp_wino_group *out)
{
    const struct sp_wino *const wino = work->wino;
    const int64_t lanes = work->kernel->lanes;
    struct sp_wino_group group = {.wino = wino, .first = first, .count = count};
    int64_t floats = 0;
    for (int i = 0; i < wino->parts; i++) {
        struct sp_wino_part *const part = &group.part[i];
        part->rows = sp_wino_row(wino, i, first + count) - sp_wino_row(wino, i, first);
        part->m = group.products;
        part->products = sp_wino_matrices(wino, i);
        part->products += part->products == 64;
        group.products += part->rows * part->products;
        /* Make the distance from matrix to matrix an odd number of vectors. A tile stores one
         * vector to each matrix, and these stores then go to different sets of L1. */
        part->stride = (wino->blocks * part->rows | 1) * lanes;
        floats += part->stride * sp_wino_matrices(wino, i);
    }
    float *v = sp_scratch(SP_SCRATCH_A, (size_t)floats * sizeof *v);
    if (!v)
        return -ENOMEM;
    for (int i = 0; i < wino->parts; i++) {
        group.part[i].v = v;
        v += group.part[i].stride * sp_wino_matrices(wino, i);
    }
    *out = group;
    return 0;
}

static void one_group(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const int64_t first = index * work->group;
    struct sp_wino_group group;
    int error = begin(work, first, sp_min_i64(work->group, work->wino->tiles - first), &group);
    if (!error) {
        for (int64_t block = 0; block < work->wino->blocks; block++)
            work->tile->input(&group, block);
        error = multiply(work, &group, 0, work->wino->panels);
    }
    if (error)
        __atomic_store_n(&work->error, error, __ATOMIC_RELAXED);
}

static void one_block(void *ctx, uint32_t block)
{
    const struct work *const work = ctx;
    work->tile->input(&work->only, block);
}

static void one_panel(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const int64_t first = index * work->wide;
    const int error = multiply(work, &work->only, first, sp_min_i64(first + work->wide, work->wino->panels));
    if (error)
        __atomic_store_n(&work->error, error, __ATOMIC_RELAXED);
}

/* Chooses the tiles per group, and the number of panels that are multiplied together. */
static void choose(struct work *work, const struct sp_tile_plan *plan)
{
    const struct sp_wino *const wino = work->wino;
    const int64_t most_rows = work->kernel->rows;
    /* bytes of a transformed patch per channel */
    const int64_t of_a_tile = wino->frequencies * (int64_t)sizeof(float);
    const struct sp_conv *const v = wino->conv;
    int64_t group = plan->mc;
    /* For F(6x6), a group has as many tiles as the largest micro-tile has rows. With 64 channels
     * its transformed patches then fill a quarter of L2. */
    if (!group && wino->m == 6) {
        group = most_rows;
    /* For F(2x2) and F(4x4), a group has at least two micro-tiles. So weights are read from beyond
     * L2 at most half as often as with one micro-tile. */
    } else if (!group) {
        group = V_NBYTES / (of_a_tile * wino->blocks * work->kernel->lanes + 1) / most_rows * most_rows;
        group = group < 2 * most_rows ? 2 * most_rows : group;
    }
    group = sp_min_i64(group, wino->tiles);
    /* equal groups instead of a short last one */
    group = sp_ceil_div(wino->tiles, sp_ceil_div(wino->tiles, group));
    work->group = group;
    work->groups = sp_ceil_div(wino->tiles, group);
    work->wide = plan->nc ? sp_ceil_div(plan->nc, wino->panel) : M_NBYTES / (of_a_tile * group * wino->panel);
    work->wide = work->wide < 1 ? 1 : sp_min_i64(work->wide, wino->panels);
    /* Prefetch the images only if they are too large for L2 and the transformed patches of a group
     * stay in the cache. Larger patches only stream through the cache, like the weights. */
    work->far = (v->n * v->c * v->h * v->w_in + v->n * v->oc * v->oh * v->ow) > FAR_NBYTES / (int64_t)sizeof(float) &&
                of_a_tile * group * v->c <= 3 * V_NBYTES / 2;
}

int sp_winograd_f32(const struct sp_conv *v, const float *u, uint32_t tile, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    struct sp_wino wino;
    const int error = sp_winograd_plan(v, tile, isa, &wino);
    if (error)
        return error;
    struct work work = {.wino = &wino, .kernel = sp_wino_kernels[isa], .u = u};
    work.tile = &work.kernel->tile[wino.stride - 1][tile / 2 - 1];
    choose(&work, plan);
    if (work.groups > UINT32_MAX || wino.blocks > UINT32_MAX)
        return -EINVAL;
    if (threads == 1) {
        for (int64_t g = 0; g < work.groups && !work.error; g++)
            one_group(&work, (uint32_t)g);
    } else if (work.groups >= 2 * (int64_t)threads || wino.panels == 1) {
        sp_pool_run(pool, one_group, &work, (uint32_t)work.groups, threads);
    } else {
        for (int64_t g = 0; g < work.groups && !work.error; g++) {
            const int64_t first = g * work.group;
            const int rc = begin(&work, first, sp_min_i64(work.group, wino.tiles - first), &work.only);
            if (rc)
                return rc;
            sp_pool_run(pool, one_block, &work, (uint32_t)wino.blocks, threads);
            work.wide = sp_min_i64(work.wide, sp_ceil_div(wino.panels, threads));
            sp_pool_run(pool, one_panel, &work, (uint32_t)sp_ceil_div(wino.panels, work.wide), threads);
        }
    }
    return work.error;
}
