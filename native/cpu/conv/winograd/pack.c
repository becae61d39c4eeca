/* Packs the weights of a Winograd convolution: u = G w G^T, in the order in which micro-kernels
 * read them. For each matrix (frequency), one panel of output channels follows the other. Plain C
 * serves all instruction sets, because constant weights are packed once. */
#include "winograd.h"

#include <errno.h>
#include <string.h>

/* The matrices G of F(2x2), F(4x4) and F(6x6). Row i of G belongs to interpolation point p = p_i
 * (tile.inc, tile_6x6.inc) and is (1, p, p^2) / prod_{j != i} (p_i - p_j). The last row, for the
 * point infinity, is (0, 0, 1). */
static const double G2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
#define A 0.70710678118654752440
#define B 1.41421356237309504880
static const double G4[6][3] = {{1, 0, 0},
                                {-2.0 / 3, -2.0 / 3 * A, -1.0 / 3},
                                {-2.0 / 3, 2.0 / 3 * A, -1.0 / 3},
                                {1.0 / 6, B / 6, 1.0 / 3},
                                {1.0 / 6, -B / 6, 1.0 / 3},
                                {0, 0, 1}};
#undef A
#undef B
static const double G6[8][3] = {{1, 0, 0},
                                {32.0 / 45, 16.0 / 45, 8.0 / 45},
                                {32.0 / 45, -16.0 / 45, 8.0 / 45},
                                {-2.0 / 9, -2.0 / 9, -2.0 / 9},
                                {-2.0 / 9, 2.0 / 9, -2.0 / 9},
                                {1.0 / 90, 1.0 / 45, 2.0 / 45},
                                {1.0 / 90, -1.0 / 45, 2.0 / 45},
                                {0, 0, 1}};
/* The matrices G for stride 2. The last row holds the middle tap, which multiplies odd pixels. The
 * rows before it combine the first and the last tap, which are convolved with even pixels. */
static const double G2_STRIDE2[4][3] = {{1, 0, 0}, {1, 0, 1}, {0, 0, 1}, {0, 1, 0}};
static const double G4_STRIDE2[6][3] = {{-16.0 / 21, 0, -8.0 / 21},
                                        {16.0 / 21, 0, -8.0 / 21},
                                        {32.0 / 105, 0, 8.0 / 21},
                                        {-32.0 / 105, 0, 8.0 / 21},
                                        {0, 0, 1},
                                        {0, 1, 0}};

struct packing {
    const struct sp_wino *wino;
    const double (*g)[3];
    int64_t lanes;
    float *u;
};

/* Number of filters that are transformed together. Their elements fill one cache line of each
 * matrix. The matrices lie a power of two apart, so they would evict each other's lines before a
 * second visit. */
enum { TOGETHER = 16 };

/* Computes sum_k x[k] * g[k] for each of the filters. */
static void dot(const double (*x)[TOGETHER], const double *g, double *out)
{
    for (int l = 0; l < TOGETHER; l++)
        out[l] = x[0][l] * g[0] + x[1][l] * g[1] + x[2][l] * g[2];
}

/* Transforms `count` filters of one input channel, which lie `step` floats apart from `w` on.
 * Writes the filters' elements of one matrix side by side, those of the next matrix `stride` floats
 * further on. */
static void transform(const struct packing *packing, const float *w, int64_t step, int64_t count, float *to, int64_t width,
                      int64_t stride)
{
    const struct sp_wino *const wino = packing->wino;
    /* `taps` is indexed by [column][row][filter], `half` by [row][column][filter] */
    double taps[3][3][TOGETHER] = {{{0}}}, half[SP_WINO_MAX_WEIGHTS][3][TOGETHER];
    for (int64_t l = 0; l < count; l++)
        for (int k = 0; k < 9; k++)
            taps[k % 3][k / 3][l] = (double)w[l * step + k];
    for (int64_t i = 0; i < wino->m + 2; i++)
        for (int j = 0; j < 3; j++)
            dot(taps[j], packing->g[i], half[i][j]);
    for (int part = 0; part < wino->parts; part++)
        for (int64_t i = 0; i < sp_wino_points_of(wino, part >> 1); i++)
            for (int64_t j = 0; j < sp_wino_points_of(wino, part & 1); j++, to += stride) {
                double made[TOGETHER];
                float rounded[TOGETHER];
                dot(half[part >> 1 ? wino->points : i], packing->g[part & 1 ? wino->points : j], made);
                for (int l = 0; l < TOGETHER; l++)
                    rounded[l] = (float)made[l];
                memcpy(to, rounded, (size_t)width * sizeof *to);
            }
}

static void one_panel(void *ctx, uint32_t index)
{
    const struct packing *const packing = ctx;
    const struct sp_wino *const wino = packing->wino;
    const struct sp_conv *const v = wino->conv;
    const int64_t o0 = index * wino->panel;
    const int64_t channels = sp_min_i64(wino->panel, v->oc - o0);
    const int64_t width = (channels + packing->lanes - 1) / packing->lanes * packing->lanes;
    for (int64_t c = 0; c < v->c; c++)
        /* Each o below `width` is also below `channels`, because o is a multiple of a vector, and
         * `width` is `channels` rounded up to whole vectors. So `transform` always gets a
         * filter. */
        for (int64_t o = 0; o < width; o += TOGETHER)
            transform(packing, v->w + ((o0 + o) * v->c + c) * 9, v->c * 9, sp_min_i64(TOGETHER, channels - o),
                      packing->u + index * v->c * wino->panel + c * width + o, sp_min_i64(TOGETHER, width - o),
                      wino->panels * v->c * wino->panel);
}

int64_t sp_winograd_floats(const struct sp_conv *v, uint32_t tile, enum sp_isa isa)
{
    struct sp_wino wino;
    if (sp_winograd_plan(v, tile, isa, &wino))
        return 0;
    return wino.matrices * wino.panels * v->c * wino.panel;
}

int sp_winograd_pack_f32(const struct sp_conv *v, uint32_t tile, struct sp_pool *pool, enum sp_isa isa, uint32_t threads,
                         float *u)
{
    struct sp_wino wino;
    const int error = sp_winograd_plan(v, tile, isa, &wino);
    if (error)
        return error;
    if (wino.panels > UINT32_MAX)
        return -EINVAL;
    const double(*const g[2][3])[3] = {{G2, G4, G6}, {G2_STRIDE2, G4_STRIDE2}};
    struct packing packing = {&wino, g[wino.stride - 1][tile / 2 - 1], sp_wino_kernels[isa]->lanes, u};
    sp_pool_run(pool, one_panel, &packing, (uint32_t)wino.panels, threads);
    return 0;
}
