/* conv2d_f32: its geometry, checked and widened once, and the functions of each instruction set
 * (conv/kernels.inc). Every algorithm includes this header; it knows no algorithm. */
#ifndef SP_CPU_CONV_SHAPE_H
#define SP_CPU_CONV_SHAPE_H
#include "core/args.h"
#include "cpu/gemm/gemm.h"
#include "cpu/vector/whole.h"

/* Signed, because an output pixel's window may begin in the padding. conv2d.c refuses factors
 * beyond 2**31, so no product of two overflows. */
struct sp_conv {
    const float *x, *w, *bias;
    float *y;
    int64_t n, c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups;
    int64_t cg, ocg; /* input and output channels per group */
    int64_t taps;    /* kh * kw */
    uint32_t act;
    int nhwc;
};

/* 1 for 1x1 where each output comes from a pixel; padding may lie on any side. */
static inline int sp_conv_is_of_pixels(const struct sp_conv *v)
{
    return v->taps == 1 && v->ph == 0 && v->pw == 0 && (v->oh - 1) * v->sh < v->h && (v->ow - 1) * v->sw < v->w_in;
}

/* 1 if also each pixel makes one output. */
static inline int sp_conv_is_pixel_by_pixel(const struct sp_conv *v)
{
    return sp_conv_is_of_pixels(v) && v->sh == 1 && v->sw == 1 && v->oh == v->h && v->ow == v->w_in;
}

/* A group of an image as a source of panels. */
struct sp_conv_group {
    const struct sp_conv *conv;
    const float *x; /* its first channel */
};

/* A loop of a micro-kernel: its steps, and the distances of one step in x and in the packed
 * weights, in floats. */
struct sp_conv_loop {
    int64_t count, x, w;
};

/* One call of the pixel tiles' micro-kernel (direct/tile.inc): up to two runs of output pixels,
 * some taps and channels. */
struct sp_conv_pass {
    const float *x[2]; /* per run: the first tap of its first pixel */
    float *to[2];      /* per run: destination of its sums */
    int64_t step;      /* from pixel to pixel of a run, in x */
    int64_t ld_to;     /* from pixel to pixel in `to` */
    const float *w;
    struct sp_conv_loop loop[3];
    const float *init; /* initial value of the sums, by lane */
    int64_t ahead;     /* prefetch distance in the weights, in floats */
    int64_t x_ahead;   /* prefetch distance in x, to a pixel of the next tile; 0: none */
    int ask_x;         /* prefetch pixels with each step, not weights */
    int add;           /* add to the values in `to` */
    int relu;
};
typedef void sp_conv_tile_fn(const struct sp_conv_pass *pass);

/* Distances in x, in floats, and in packed weights, in rows of lanes. */
struct sp_conv_memory {
    int64_t x_channel, x_row, x_column, w_channel, w_row, w_column;
};

/* Up to 2 vectors of output channels: their packed weights, and a bias for each lane. */
struct sp_conv_block {
    const float *w, *bias;
    int64_t first, channels;
    int nv;
    int is_wild; /* a weight is infinite or NaN: zeros in the padding matter */
};

/* A convolution by pixel tiles. */
struct sp_conv_task {
    const struct sp_conv *v;
    struct sp_conv_memory memory;
    int64_t rows, across; /* output rows of a tile, tiles per row */
    int64_t tiles;        /* tiles per image */
    int64_t channels;     /* input channels per pass over `to` */
};

/* One call of the strips' micro-kernel (direct/strip.inc): all of `rows` input rows x `ntaps` taps,
 * with contiguous weights. */
struct sp_conv_strip {
    const float *x;
    int64_t row, rows;  /* distance of rows; their number */
    const int64_t *taps; /* offset of each tap's pixels from the row's beginning */
    int64_t ntaps;
    const float *w;
    const float *init; /* initial sums of each output channel */
    float *y;
    int64_t plane; /* from output channel to output channel */
    int64_t apart; /* from the first vector of pixels to the second */
    int64_t later; /* prefetch distance from y to later sums; 0: none; any address is allowed */
    int64_t repeat; /* repetitions, each one or two vectors of pixels further on */
    /* With a single tap, row i prefetches the cache line at ahead + i * ahead_step. Any address is
     * allowed. */
    const float *ahead;
    int64_t ahead_step;
    int add, relu;
};
typedef void sp_conv_strip_fn(const struct sp_conv_strip *strip);

/* Output rows that depthwise convolution computes together; most phases of a window; most output
 * pixels of a stretch. */
enum { SP_CONV_DEPTH_ROWS = 4, SP_CONV_MOST_PHASES = 8, SP_CONV_MOST_STRETCH = 1024 };

/* The layout of the window of an output row's piece in scratch memory, in floats. */
struct sp_conv_piece {
    int64_t columns; /* output pixels of a piece; the last of a row may have up to a vector more */
    int64_t phases, phase;
    int64_t row;
};

/* A convolution of NCHW images that computes strips: consecutive output pixels of a row, for a tile
 * of output channels. */
struct sp_conv_strips {
    const struct sp_conv *v;
    struct sp_conv_piece piece;
    const float *weights;
    const int64_t *taps;
    int64_t pieces; /* pieces of an output row */
    int64_t tiles;  /* tiles of a group's output channels */
    int64_t rows;   /* input rows per pass over y; depthwise: output rows of a window */
    int is_aliased; /* sp_conv_is_aliased: always make a window */
    /* For panels (direct/panels.inc): pieces are parts of the output plane as one long row. */
    struct sp_conv_piece rows_of; /* window of input rows from which panels are copied */
    int64_t panel;                /* distance of panels, in floats */
    int64_t panels_floats;        /* scratch memory before that window */
    int64_t images;               /* images computed together: more than one if pieces are whole planes */
    int is_row;                   /* the input of a plane is one long row too */
    int in_place;                 /* x itself serves as panels: some of its columns */
    int64_t near_tiles;           /* tiles whose weights stay in L2, for `rows` terms at a time */
    const int64_t *no_tap;        /* points to a zero: the offset of a single tap */
};

struct sp_conv_kernel {
    sp_pack_fn *pixels_nchw; /* of a sp_conv_group: i is an output pixel, p = (channel, ky, kx) */
    sp_pack_fn *pixels_nhwc; /* as pixels_nchw, of an NHWC image */
    int64_t lanes, run; /* lanes of a vector; half the pixels of the largest tile */
    /* Packs weights of output channels [first, first + channels), `lanes` side by side. Returns 1
     * if one is infinite or NaN. */
    int (*pack)(const struct sp_conv *v, int64_t first, int64_t channels, int64_t lanes, float *to);
    /* Tiles [t0, t1) of all images, numbered through, for all these blocks of one group. */
    void (*pixels)(const struct sp_conv_task *task, const struct sp_conv_block *blocks, int64_t nblocks, int64_t group,
                   int64_t t0, int64_t t1);
    int (*pack_strip)(const struct sp_conv *v, int64_t first, int64_t channels, float *to);
    /* Pieces [u0, u1), numbered through images, rows and pieces of a row, for channel tiles [t0,
     * t1) of a group. */
    void (*strips)(const struct sp_conv_strips *task, float *window, int64_t group, int64_t t0, int64_t t1, int64_t u0,
                   int64_t u1);
    /* Pieces [u0, u1), numbered through images and the pieces of each, for tiles [t0, t1) of a
     * group, by panels. */
    void (*panels)(const struct sp_conv_strips *task, float *scratch, int64_t group, int64_t t0, int64_t t1, int64_t u0,
                   int64_t u1);
    /* Output rows [y0, y1) of planes [p0, p1), numbered through all images. NCHW with one channel
     * per group; two windows of `nwindow` floats. */
    void (*depthwise_nchw)(const struct sp_conv_strips *task, float *window, int64_t nwindow, int64_t p0, int64_t p1,
                           int64_t y0, int64_t y1);
    /* Output rows [y0, y1) of all channels. NHWC with one channel per group; wt is w transposed to
     * [kh*kw][oc]. */
    void (*depthwise_nhwc)(const struct sp_conv *conv, const float *wt, int64_t image, int64_t y0, int64_t y1);
    /* depthwise_nchw for 3 x 3 taps with stride 1 or 2 in both directions, without a window. Input
     * rows have at least `narrowest` columns. */
    void (*depthwise_nine)(const struct sp_conv *conv, int64_t p0, int64_t p1, int64_t y0, int64_t y1);
    int64_t narrowest;
};
extern const struct sp_conv_kernel sp_conv_ref, sp_conv_neon, sp_conv_avx2, sp_conv_avx512;
/* [enum sp_isa]; NULL: not in this build */
extern const struct sp_conv_kernel *const sp_conv_kernels[4];

/* The algorithm that conv2d_f32 runs, which also determines the layout of packed weights. */
enum sp_conv_form {
    SP_CONV_PLAIN = 0, /* unpacked weights: the oracle, im2col, and direct loops that read few of them */
    SP_CONV_PIXELS = 1,
    SP_CONV_STRIPS = 2,
    SP_CONV_WINOGRAD = 3,
    SP_CONV_WINOGRAD2 = 4,
    SP_CONV_WINOGRAD6 = 5
};
struct sp_conv_weights {
    const float *w;
    uint32_t is_wild; /* a weight is infinite or NaN */
};

/* The geometry of a launch's arguments. 0; 1: nothing to compute; -EINVAL. */
int sp_conv_widen(const struct sp_args_conv2d_f32 *a, struct sp_conv *v);
/* Makes one long row of a 1x1 convolution with stride 1, which does not depend on rows; in NHWC of
 * all images. */
void sp_conv_flatten(struct sp_conv *v);
enum sp_conv_form sp_conv_form(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa);

/* Windows. Bytes that strips need per thread; INT64_MAX: strips cannot compute this. */
int64_t sp_conv_strips_window(const struct sp_conv *v, enum sp_isa isa);
/* Input rows for this many output rows. */
int64_t sp_conv_depthwise_rows(const struct sp_conv *v, int64_t outputs);
int64_t sp_conv_depthwise_window(const struct sp_conv *v, enum sp_isa isa);
/* Divides output rows for windows of this many input rows, into pieces of `wanted` pixels if that
 * is not 0. Finds each tap's place in a window. */
struct sp_conv_piece sp_conv_cut(const struct sp_conv *v, int64_t rows, int64_t wanted, int64_t lanes);
int64_t sp_conv_pieces(const struct sp_conv *v, const struct sp_conv_piece *piece, int64_t lanes);
const int64_t *sp_conv_taps(const struct sp_conv *v, const struct sp_conv_piece *piece);
/* 1 if the distance of channels lets only few of them stay in L1. */
int sp_conv_is_aliased(const struct sp_conv *v);
#endif
