/* Winograd convolution: 3x3, stride 1, dilation 1, one group, as a batch of small matrix products.
 *
 * F(m x m, 3x3) makes an m x m tile of outputs from an (m+2) x (m+2) patch of the image:
 * Y = A^T [ (G g G^T) . (B^T d B) ] A, where "." multiplies element by element, summed over channels
 * (A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, CVPR 2016). Each of the (m+2)^2 elements, a
 * "frequency", is a matrix product of its own: tiles x channels by channels x output channels.
 *
 * winograd.c cuts the tiles into groups whose transformed patches stay in the L2 cache and runs, for each group, the
 * three steps that an instruction set brings (winograd.inc). */
#ifndef SP_CPU_WINOGRAD_H
#define SP_CPU_WINOGRAD_H
#include "conv2d.h"

enum { SP_WINO_MAX_ROWS = 14, SP_WINO_MAX_VECTORS = 4, SP_WINO_MAX_EDGE = 8 };

/* A convolution as tiles. Counts are in elements unless they say otherwise; 0 <= everything. */
struct sp_wino {
    const struct sp_conv *conv;
    int64_t edge, frequencies;   /* m + 2 and its square */
    int64_t row;                 /* products of a tile in m: frequencies, and a gap so that tiles meet different sets of L1 */
    int64_t across, down, tiles; /* tiles of an output row, of a column, of all images: (image, row, column) in order */
    int64_t blocks;              /* of channels, a vector each */
    int64_t panel, panels;       /* output channels of a panel of weights, and panels */
};

/* Tiles [first, first + count) and where their parts lie: what a group of tiles owns while it is worked on.
 * v: [frequency][rows of tiles][channel block][row][lane], m: [panel][tile][frequency of `row`][column of the panel]. */
struct sp_wino_group {
    const struct sp_wino *wino;
    int64_t first, count;
    int64_t rows; /* tiles of one micro-kernel call; the last one may have fewer */
    int64_t frequency_stride; /* in v, in floats */
    float *v;
};

/* m[i * row_stride + j] = sum_p v[p / lanes][i][p % lanes] * u[p][j] for a fixed number of rows i and a panel's
 * columns j, as a sum of sums of `chunk` products each, a multiple of lanes. On the way it brings ahead[p * inner], which
 * may be anywhere, into the cache. */
typedef void sp_wino_ukr_fn(size_t k, const float *v, const float *u, const float *ahead, int64_t inner, size_t chunk,
                            float *m, size_t row_stride);

struct sp_wino_tile {
    /* B^T d B of channel block `block` of the group's tiles. */
    void (*input)(const struct sp_wino_group *group, int64_t block);
    /* A^T m A, bias, activation and store of output channels [o, o + panel) of the group's tiles. */
    void (*output)(const struct sp_wino_group *group, const float *m, int64_t o);
    sp_wino_ukr_fn *const *ukr; /* [(vectors - 1) * rows_max + rows - 1] */
};

struct sp_wino_kernel {
    struct sp_wino_tile f2, f4, f6;
    int64_t lanes, rows, vectors; /* of a vector; the largest micro-tile */
};
extern const struct sp_wino_kernel sp_wino_ref, sp_wino_neon, sp_wino_avx2, sp_wino_avx512;
extern const struct sp_wino_kernel *const sp_wino_kernels[4]; /* [enum sp_isa]; NULL: not here */

/* 1 where Winograd says what conv2d_f32 does: 3x3, stride 1, dilation 1, one group. */
int sp_winograd_fits(const struct sp_conv *v);
/* 0 or -EINVAL: tile is 2, 4 or 6, the sizes multiply without overflow. */
int sp_winograd_plan(const struct sp_conv *v, uint32_t tile, enum sp_isa isa, struct sp_wino *out);
/* The tile's edge, 2, 4 or 6, of the forms of conv2d_f32 that are Winograd's. */
static inline uint32_t sp_winograd_tile(enum sp_conv_form form)
{
    return form == SP_CONV_WINOGRAD2 ? 2 : form == SP_CONV_WINOGRAD6 ? 6 : 4;
}

/* Is it one of them? */
static inline int sp_winograd_form(enum sp_conv_form form)
{
    return form == SP_CONV_WINOGRAD || form == SP_CONV_WINOGRAD2 || form == SP_CONV_WINOGRAD6;
}

/* How many floats the transformed weights are; 0 when they do not fit an address space or Winograd does not fit. */
int64_t sp_winograd_floats(const struct sp_conv *v, uint32_t tile, enum sp_isa isa);
/* u = G w G^T for all weights, [frequency][panel][channel][column], columns without a channel 0. Computed in double and
 * rounded once. */
int sp_winograd_pack_f32(const struct sp_conv *v, uint32_t tile, struct sp_pool *pool, enum sp_isa isa, uint32_t threads,
                         float *u);
/* The convolution with what pack_f32 made, in the scratch slots A and C of its threads. 0, -EINVAL or -ENOMEM. */
int sp_winograd_f32(const struct sp_conv *v, const float *u, uint32_t tile, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads);

/* winograd_ahead.c: memory that will be wanted soon, as lines from[i*step[0] + j*step[1] + l*step[2]] for all i, j, l below
 * n[0..2], each of which a micro-kernel call follows by `inner` floats a step. */
struct sp_wino_ahead {
    const float *from;
    int64_t n[3], step[3], at[3];
    int64_t inner;
};
/* What tiles [first, first + count) read; none if they are past the last one. */
struct sp_wino_ahead sp_wino_ahead_input(const struct sp_wino *wino, int64_t first, int64_t count);
/* What they write of output channels [o, o + channels). */
struct sp_wino_ahead sp_wino_ahead_output(const struct sp_wino *wino, int64_t first, int64_t count, int64_t o,
                                          int64_t channels);
/* The next line of them, to be touched, never read; 0: no more. */
int sp_wino_ahead_next(struct sp_wino_ahead *ahead, const float **line);
#endif
