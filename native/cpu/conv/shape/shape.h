/* The geometry of conv2d_f32, checked and converted to 64-bit numbers once, and the inner loops of
 * each instruction set (conv/kernels.inc). Every algorithm of conv2d includes this header. */
#ifndef SP_CPU_CONV_SHAPE_H
#define SP_CPU_CONV_SHAPE_H
#include "core/args.h"
#include "cpu/gemm/gemm.h"
#include "cpu/vector/integer.h"

/* The geometry of a convolution. The numbers are signed, because an output pixel's window may begin
 * in the padding. sp_conv_widen refuses factors above 2**31, so no product of two overflows. */
struct sp_conv {
    const float *x, *w, *bias;
    float *y;
    int64_t n, c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups;
    int64_t cg, ocg; /* input channels, output channels per group */
    int64_t taps;    /* kh * kw */
    uint32_t act;
    int nhwc;
};

/* Returns 1 for a 1x1 convolution without padding: each output comes from one input pixel. */
static inline int sp_conv_is_of_pixels(const struct sp_conv *v)
{
    return v->taps == 1 && v->ph == 0 && v->pw == 0 && (v->oh - 1) * v->sh < v->h && (v->ow - 1) * v->sw < v->w_in;
}

/* Returns 1 for a 1x1 convolution with as many outputs as input pixels: output i comes from pixel
 * i. */
static inline int sp_conv_is_pixel_by_pixel(const struct sp_conv *v)
{
    return sp_conv_is_of_pixels(v) && v->sh == 1 && v->sw == 1 && v->oh == v->h && v->ow == v->w_in;
}

/* The input channels of one group of the convolution in one image, as a source of gemm's packed
 * panels. */
struct sp_conv_group {
    const struct sp_conv *conv;
    const float *x; /* first input channel of the group */
};

/* One loop of a micro-kernel: its number of steps, and the distances of one step in x and in the
 * packed weights, in floats. */
struct sp_conv_loop {
    int64_t count, x, w;
};

/* The arguments of the pixel tiles' micro-kernel (direct/tile.inc): up to two runs of output
 * pixels, for some taps and channels. */
struct sp_conv_pass {
    /* per run of output pixels: address of the input that the first tap of its first pixel reads */
    const float *x[2];
    float *to[2];      /* per run of output pixels: address where its sums are stored */
    int64_t step;      /* floats between the inputs of neighbouring output pixels of a run */
    int64_t ld_to;     /* floats between the sums of two pixels */
    const float *w;
    struct sp_conv_loop loop[3];
    const float *init; /* initial value of the sums, one for each lane (output channel) */
    int64_t ahead;     /* how far ahead weights are prefetched, in floats */
    /* floats in the input from a pixel of this tile to the pixel of the next tile that is
     * prefetched; 0: no prefetch */
    int64_t x_ahead;
    int ask_x;         /* 1: each step prefetches input pixels; 0: weights */
    int add;           /* 1: add to the values in `to` */
    int relu;
};
typedef void sp_conv_tile_fn(const struct sp_conv_pass *pass);

/* Distances from channel to channel, row to row and column to column. Distances in x are in floats.
 * Distances in the packed weights (w) are counted in rows of those weights; a row has one float for
 * each lane of a block. */
struct sp_conv_memory {
    int64_t x_channel, x_row, x_column, w_channel, w_row, w_column;
};

/* A block: up to 2 vectors of output channels, with packed weights and a bias for each lane. */
struct sp_conv_block {
    const float *w, *bias;
    int64_t first, channels;
    int nv;
    int is_wild; /* 1: a weight is infinite or NaN, so zeros in the padding matter */
};

/* A convolution by pixel tiles. */
struct sp_conv_task {
    const struct sp_conv *v;
    struct sp_conv_memory memory;
    int64_t rows, across; /* output rows of a tile, tiles per row */
    int64_t tiles;        /* tiles per image */
    int64_t channels;     /* input channels whose terms are added to a tile's sums in one pass */
};

/* The arguments of the strips' micro-kernel (direct/strip.inc): sums over `rows` input rows x
 * `ntaps` taps, with contiguous weights. */
struct sp_conv_strip {
    const float *x;
    int64_t row, rows;   /* floats from input row to input row; number of rows */
    const int64_t *taps; /* offset of each tap's pixels from the beginning of an input row */
    int64_t ntaps;
    const float *w;
    const float *init; /* per output channel: initial value of its sums */
    float *y;
    int64_t plane; /* floats from output channel to output channel in y */
    int64_t apart; /* floats from the first vector of pixels to the second */
    /* Distance in y, in floats, from the sums that this call computes to the sums of a later call,
     * which it prefetches; 0: no prefetch. The prefetched address may lie outside y. */
    int64_t later;
    /* number of neighbouring strips that one call computes; each begins one or two vectors of
     * pixels after the one before it */
    int64_t repeat;
    /* With a single tap, the micro-kernel prefetches one cache line for each input row i, at ahead
     * + i * ahead_step. The address may lie outside the array. */
    const float *ahead;
    int64_t ahead_step;
    int add, relu;
};
typedef void sp_conv_strip_fn(const struct sp_conv_strip *strip);

/* Limits: output rows that depthwise convolution computes together; phases of a window (columns
 * with one remainder modulo the stride); output pixels of a stretch. */
enum { SP_CONV_DEPTH_ROWS = 4, SP_CONV_MOST_PHASES = 8, SP_CONV_MOST_STRETCH = 1024 };

/* The layout of a window: the input rows that a piece of an output row needs, copied to scratch
 * memory. In each row, the columns with one remainder modulo the stride are stored together, as a
 * phase. A row has `phases` phases, `phase` floats apart; rows are `row` floats apart. */
struct sp_conv_piece {
    int64_t columns; /* output pixels of a piece; a row's last piece may have up to a vector more */
    int64_t phases, phase;
    int64_t row;
};

/* A convolution of NCHW images by strips: consecutive output pixels of a row, for a tile of output
 * channels. */
struct sp_conv_strips {
    const struct sp_conv *v;
    struct sp_conv_piece piece;
    const float *weights;
    const int64_t *taps;
    int64_t pieces; /* number of pieces per output row */
    int64_t tiles;  /* tiles of output channels per group */
    /* The meaning depends on the algorithm. Strips: number of input rows whose terms one pass adds
     * to y. Panels: number of terms that one pass adds to y. Depthwise convolution: number of
     * output rows that are computed from one window. */
    int64_t rows;
    /* 1: only few input channels stay in L1 (sp_conv_is_aliased), so x is never read in place but
     * always through a window */
    int is_aliased;
    /* All further members of this struct are only for panels (direct/panels.inc). For panels an
     * output plane counts as one long row, and `piece` describes a stretch of that row. */
    /* layout of the window of input rows that panels are copied from */
    struct sp_conv_piece rows_of;
    int64_t panel; /* distance in floats between neighbouring panels */
    /* number of floats of all panels, which lie before the window in scratch memory */
    int64_t panels_floats;
    /* number of images computed together; more than one only if a stretch is a whole output
     * plane */
    int64_t images;
    int is_row;            /* 1: each input plane is one long row, as the output plane is */
    int in_place;          /* 1: x itself is read, without packed panels */
    /* number of tiles of output channels whose weights for `rows` terms together stay in L2 */
    int64_t near_tiles;
    /* Points to a 0. Strips that read panels have a single tap, and this is its offset (`taps` of
     * struct sp_conv_strip). */
    const int64_t *no_tap;
};

struct sp_conv_kernel {
    /* packs a panel of a sp_conv_group's inputs; in terms of sp_pack_fn, i is an output pixel and p
     * is (channel, ky, kx) */
    sp_pack_fn *pixels_nchw;
    sp_pack_fn *pixels_nhwc; /* packs a sp_conv_group of an NHWC image, as pixels_nchw does */
    /* number of lanes (floats) of a vector; half the pixels of the largest pixel tile */
    int64_t lanes, run;
    /* Packs the weights of output channels [first, first + channels), `lanes` channels side by
     * side. Returns 1 if a weight is infinite or NaN. */
    int (*pack)(const struct sp_conv *v, int64_t first, int64_t channels, int64_t lanes, float *to);
    /* Computes pixel tiles [t0, t1), numbered through all images, for `nblocks` blocks of output
     * channels of one group. */
    void (*pixels)(const struct sp_conv_task *task, const struct sp_conv_block *blocks, int64_t nblocks, int64_t group,
                   int64_t t0, int64_t t1);
    int (*pack_strip)(const struct sp_conv *v, int64_t first, int64_t channels, float *to);
    /* Computes by strips: pieces [u0, u1) of output rows (struct sp_conv_piece) for channel tiles
     * [t0, t1) of a group. Pieces are numbered along a row, then row by row, then image by
     * image. */
    void (*strips)(const struct sp_conv_strips *task, float *window, int64_t group, int64_t t0, int64_t t1, int64_t u0,
                   int64_t u1);
    /* Computes by panels: stretches [u0, u1) of output pixels for channel tiles [t0, t1) of a
     * group. Stretches are numbered through all images. */
    void (*panels)(const struct sp_conv_strips *task, float *scratch, int64_t group, int64_t t0, int64_t t1, int64_t u0,
                   int64_t u1);
    /* Depthwise, NCHW: computes output rows [y0, y1) of planes [p0, p1), numbered through all
     * images. `window` has room for two windows of `nwindow` floats. */
    void (*depthwise_nchw)(const struct sp_conv_strips *task, float *window, int64_t nwindow, int64_t p0, int64_t p1,
                           int64_t y0, int64_t y1);
    /* Depthwise, NHWC: computes output rows [y0, y1) of all channels of an image. wt is w
     * transposed to [kh*kw][oc]. */
    void (*depthwise_nhwc)(const struct sp_conv *conv, const float *wt, int64_t image, int64_t y0, int64_t y1);
    /* Computes what depthwise_nchw does, without a window, for 3 x 3 taps with stride 1 or 2 in
     * both directions. Input rows must have at least `narrowest` columns. */
    void (*depthwise_nine)(const struct sp_conv *conv, int64_t p0, int64_t p1, int64_t y0, int64_t y1);
    int64_t narrowest;
};
extern const struct sp_conv_kernel sp_conv_ref, sp_conv_neon, sp_conv_avx2, sp_conv_avx512;
/* indexed by enum sp_isa; NULL: the build lacks this instruction set */
extern const struct sp_conv_kernel *const sp_conv_kernels[4];

/* The algorithm that conv2d_f32 runs, which also determines the layout of packed weights. */
enum sp_conv_form {
    /* reads unpacked weights: the oracle, im2col, direct loops with few weights */
    SP_CONV_PLAIN = 0,
    SP_CONV_PIXELS = 1,
    SP_CONV_STRIPS = 2,
    SP_CONV_WINOGRAD = 3,
    SP_CONV_WINOGRAD2 = 4,
    SP_CONV_WINOGRAD6 = 5
};
struct sp_conv_weights {
    const float *w;
    uint32_t is_wild; /* 1: a weight is infinite or NaN */
};

/* Computes the geometry of a launch's arguments. Returns 0, 1 if there is nothing to compute, or
 * -EINVAL. */
int sp_conv_widen(const struct sp_args_conv2d_f32 *a, struct sp_conv *v);
/* Turns each image of a 1x1 convolution with stride 1 into one long row, because such a convolution
 * does not depend on the rows. In NHWC all images become one row. */
void sp_conv_flatten(struct sp_conv *v);
enum sp_conv_form sp_conv_form(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa);

/* Returns the size in bytes of the window that strips need per thread, or INT64_MAX if strips
 * cannot compute this convolution. */
int64_t sp_conv_strips_window(const struct sp_conv *v, enum sp_isa isa);
/* Returns the number of input rows that `outputs` output rows of depthwise convolution need. */
int64_t sp_conv_depthwise_rows(const struct sp_conv *v, int64_t outputs);
int64_t sp_conv_depthwise_window(const struct sp_conv *v, enum sp_isa isa);
/* sp_conv_cut divides output rows into pieces. If `wanted` is 0, a piece is so short that a window
 * of `rows` input rows fits L1; else it has `wanted` pixels. sp_conv_pieces returns the pieces per
 * row. sp_conv_taps returns the offset of each tap in a window's row. */
struct sp_conv_piece sp_conv_cut(const struct sp_conv *v, int64_t rows, int64_t wanted, int64_t lanes);
int64_t sp_conv_pieces(const struct sp_conv *v, const struct sp_conv_piece *piece, int64_t lanes);
const int64_t *sp_conv_taps(const struct sp_conv *v, const struct sp_conv_piece *piece);
/* Returns 1 if input channels lie at a distance that lets only few of them stay in L1. */
int sp_conv_is_aliased(const struct sp_conv *v);
#endif
