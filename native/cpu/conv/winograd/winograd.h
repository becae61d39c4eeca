/* Winograd convolution as a batch of small matrix products: 3x3 taps, stride 1 or 2 (only 1 for m =
 * 6), dilation 1, one group.
 *
 * F(m x m, 3x3) computes an m x m tile of outputs from an (m+2) x (m+2) patch of the image: Y = A^T
 * [ (G g G^T) . (B^T d B) ] A, where "." multiplies element by element, summed over channels (A.
 * Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, CVPR 2016). Each of the
 * (m+2)^2 elements, a "frequency", is a matrix product of its own: tiles x channels by channels x
 * output channels.
 *
 * With stride 2 an output y[i] = g0 d[2i] + g1 d[2i+1] + g2 d[2i+2] is the sum of two convolutions.
 * The first convolves the even pixels with the taps (g0, g2) at stride 1, by F(m, 2) with m + 1
 * "points". The second multiplies each odd pixel by g1: m plain products. Together these are 2m + 1
 * products, from a patch of 2m + 1 pixels. In two dimensions both numbers are squared: at m = 4
 * there are 81 products for 16 outputs. Direct convolution has 144.
 *
 * The m odd products share one weight, so they are separate rows of one matrix product. Rows beyond
 * the image's edge are left out. So the frequencies have four parts: in each dimension, a part has
 * either the even or the odd pixels. There are (m+2)^2 matrices of weights. Stride 1 has as many
 * matrices, all in the first part.
 *
 * winograd.c divides the tiles into groups whose transformed patches stay in the L2 cache. For each
 * group it runs three steps of the instruction set (winograd.inc): input transform, products,
 * output transform. */
#ifndef SP_CPU_WINOGRAD_H
#define SP_CPU_WINOGRAD_H
#include "cpu/conv/shape/shape.h"

enum { SP_WINO_MAX_WEIGHTS = 8, SP_WINO_PARTS = 4 };

/* A convolution divided into tiles. Counts are in elements unless they say otherwise. No count is
 * negative. */
struct sp_wino {
    const struct sp_conv *conv;
    int64_t m, stride;         /* a tile has m x m outputs; stride of the convolution */
    int64_t edge, frequencies; /* side of a patch; its square, the number of products of a tile */
    /* Number of frequencies (see the top of this file) in one dimension. With stride 2 only the even
     * pixels are transformed to frequencies, so only these count. */
    int64_t points;
    /* number of parts (struct sp_wino_part): 1 or 4; number of weight matrices in all parts */
    int64_t parts, matrices;
    /* tiles per output row, tiles per output column, tiles of all images in the order (image, row,
     * column) */
    int64_t across, down, tiles;
    int64_t blocks;        /* blocks of channels, each one vector */
    int64_t panel, panels; /* output channels of a panel of weights; number of panels */
};

/* The matrix products of one part. Stride 1 has a single part. Stride 2 has four: bit 0 of a part's
 * number is 1 for odd pixel columns, bit 1 for odd pixel rows. v is the transformed input of the
 * products; the array m of their results belongs to all parts.
 *
 * A row of v is a tile in part 0, and an output pixel in part 3. In part 1 it is an output column
 * of a tile, in part 2 an output row of a tile. Columns and rows outside the image are left out.
 * The rows of a tile are neighbours, columns innermost.
 *
 * v is [matrix][channel block][row][lane]. The results are [row][product][column of the panel],
 * with a product for each matrix. If a part has 64 matrices, its results have a gap behind each
 * row, so that rows use different sets of L1. */
struct sp_wino_part {
    int64_t rows, stride; /* number of rows of v; floats from one matrix of v to the next */
    float *v;
    /* Where this part's results begin in the array m, counted in products: the number of products
     * of earlier parts. A product has a float for each output channel of a panel. */
    int64_t m;
    /* Distance from one row of this part's results to the next, counted in products. It includes
     * the gap, if there is one. */
    int64_t products;
};

/* A group: tiles [first, first + count), and the memory for their matrix products. */
struct sp_wino_group {
    const struct sp_wino *wino;
    int64_t first, count;
    /* number of products for one output channel, of all parts together */
    int64_t products;
    struct sp_wino_part part[SP_WINO_PARTS];
};

static inline int64_t sp_wino_points_of(const struct sp_wino *wino, int odd)
{
    return odd ? 1 : wino->points;
}
/* Returns the number of weight matrices of part `part` of the convolution (struct sp_wino_part). */
static inline int64_t sp_wino_matrices(const struct sp_wino *wino, int part)
{
    return sp_wino_points_of(wino, part >> 1) * sp_wino_points_of(wino, part & 1);
}
/* Returns how many rows of part `part` (rows of `v` in struct sp_wino_part) belong to tiles before
 * `tile`, over all images. */
static inline int64_t sp_wino_row(const struct sp_wino *wino, int part, int64_t tile)
{
    const struct sp_conv *const v = wino->conv;
    const int64_t x = tile % wino->across;
    const int64_t y = tile / wino->across % wino->down;
    const int64_t image = tile / wino->across / wino->down;
    const int64_t width = part & 1 ? v->ow : wino->across;
    /* Of a row of tiles, only the last one can cross the image's edge. So all tiles before `tile`
     * have m output columns. */
    const int64_t before = part & 1 ? x * wino->m : x;
    if (!(part >> 1))
        return (image * wino->down + y) * width + before;
    return (image * v->oh + y * wino->m) * width + sp_min_i64(wino->m, v->oh - y * wino->m) * before;
}

/* A micro-kernel: m[i * row_stride + j] = sum_p v[p / lanes * v_stride + i * lanes + p % lanes] *
 * u[p][j] for a fixed number of rows i and a panel's columns j. Each sum adds partial sums of
 * `chunk` products each, a multiple of lanes. It also prefetches ahead[p * inner], which may be any
 * address. */
typedef void sp_wino_ukr_fn(size_t k, const float *v, size_t v_stride, const float *u, const float *ahead, int64_t inner,
                            size_t chunk, float *m, size_t row_stride);

struct sp_wino_tile {
    /* Computes B^T d B for channel block `block` of the group's tiles. */
    void (*input)(const struct sp_wino_group *group, int64_t block);
    /* Computes A^T m A, adds the bias, applies the activation and stores output channels [o, o +
     * panel) of the group's tiles. */
    void (*output)(const struct sp_wino_group *group, const float *m, int64_t o);
};

struct sp_wino_kernel {
    struct sp_wino_tile tile[2][3]; /* indexed by [stride - 1][m / 2 - 1] */
    /* micro-kernels; that of tiles of r rows and v vectors has index (v - 1) * `rows` + r - 1 */
    sp_wino_ukr_fn *const *ukr;
    /* lanes of a vector; rows and vectors of the largest micro-tile */
    int64_t lanes, rows, vectors;
};
extern const struct sp_wino_kernel sp_wino_ref, sp_wino_neon, sp_wino_avx2, sp_wino_avx512;
/* indexed by enum sp_isa; NULL: the build lacks this instruction set */
extern const struct sp_wino_kernel *const sp_wino_kernels[4];

/* Returns 1 if Winograd can compute this convolution: tiles of 2, 4 or 6; 3x3; stride 1 (or 2,
 * except tiles of 6); dilation 1; one group. */
int sp_winograd_fits(const struct sp_conv *v, uint32_t tile);
/* Divides a convolution into tiles. Returns 0, or -EINVAL if Winograd cannot compute this
 * convolution or a size overflows. */
int sp_winograd_plan(const struct sp_conv *v, uint32_t tile, enum sp_isa isa, struct sp_wino *out);
/* Returns m (2, 4 or 6) of a Winograd form of conv2d_f32. */
static inline uint32_t sp_winograd_tile(enum sp_conv_form form)
{
    return form == SP_CONV_WINOGRAD2 ? 2 : form == SP_CONV_WINOGRAD6 ? 6 : 4;
}
/* Returns 1 if `form` is a Winograd form. */
static inline int sp_winograd_form(enum sp_conv_form form)
{
    return form == SP_CONV_WINOGRAD || form == SP_CONV_WINOGRAD2 || form == SP_CONV_WINOGRAD6;
}

/* Returns the number of floats of the transformed weights; 0 if their size exceeds the address
 * space or Winograd cannot compute this convolution. */
int64_t sp_winograd_floats(const struct sp_conv *v, uint32_t tile, enum sp_isa isa);
/* Computes u = G w G^T for all weights, as [part][matrix][panel][channel][column]. Columns without
 * a channel are 0. Sums are in double and rounded once. */
int sp_winograd_pack_f32(const struct sp_conv *v, uint32_t tile, struct sp_pool *pool, enum sp_isa isa, uint32_t threads,
                         float *u);
/* Computes the convolution with the weights that sp_winograd_pack_f32 made. Uses the scratch memory
 * SP_SCRATCH_A and SP_SCRATCH_C of its threads. Returns 0, -EINVAL or -ENOMEM. */
int sp_winograd_f32(const struct sp_conv *v, const float *u, uint32_t tile, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads);

/* The cache lines to prefetch (prefetch.c): from[i*step[0] + j*step[1] + l*step[2]] for all i, j, l
 * below n[0..2]. A micro-kernel call starts at one such address and moves `inner` floats on with
 * each step. */
struct sp_wino_ahead {
    const float *from;
    int64_t n[3], step[3], at[3];
    int64_t inner;
};
/* Lists the cache lines that the input of tiles [first, first + count) occupies; none if these
 * tiles are past the last one. */
struct sp_wino_ahead sp_wino_ahead_input(const struct sp_wino *wino, int64_t first, int64_t count);
/* Lists the cache lines of the output of tiles [first, first + count) in output channels [o, o +
 * channels). */
struct sp_wino_ahead sp_wino_ahead_output(const struct sp_wino *wino, int64_t first, int64_t count, int64_t o,
                                          int64_t channels);
/* Stores in `*line` the next address to prefetch. The address may lie outside the image, so it must
 * not be read. Returns 0 when no address is left. */
int sp_wino_prefetch_next(struct sp_wino_ahead *ahead, const float **line);
#endif
