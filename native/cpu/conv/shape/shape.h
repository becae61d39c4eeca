/* conv2d_f32: its geometry, checked and widened once, and what each instruction set brings (conv/kernels.inc). Every
 * algorithm includes this; it knows none of them. */
#ifndef SP_CPU_CONV_SHAPE_H
#define SP_CPU_CONV_SHAPE_H
#include "core/args.h"
#include "cpu/gemm/gemm.h"
#include "cpu/vector/whole.h"

/* Signed, because an output pixel's window may begin in the padding. conv2d.c lets no factor beyond 2**31 through, so
 * no product of two overflows. */
struct sp_conv {
    const float *x, *w, *bias;
    float *y;
    int64_t n, c, h, w_in, oc, kh, kw, oh, ow, sh, sw, ph, pw, dh, dw, groups;
    int64_t cg, ocg; /* channels of a group, in and out */
    int64_t taps;    /* kh * kw */
    uint32_t act;
    int nhwc;
};

/* 1x1, and each output is of a pixel: padding may lie on any side. */
static inline int sp_conv_is_of_pixels(const struct sp_conv *v)
{
    return v->taps == 1 && v->ph == 0 && v->pw == 0 && (v->oh - 1) * v->sh < v->h && (v->ow - 1) * v->sw < v->w_in;
}

/* And each pixel makes one. */
static inline int sp_conv_is_pixel_by_pixel(const struct sp_conv *v)
{
    return sp_conv_is_of_pixels(v) && v->sh == 1 && v->sw == 1 && v->oh == v->h && v->ow == v->w_in;
}

/* A group of an image as a source of panels. */
struct sp_conv_group {
    const struct sp_conv *conv;
    const float *x; /* its first channel */
};

/* A loop of a micro-kernel: steps, and from step to step in x and in the packed weights, in floats. */
struct sp_conv_loop {
    int64_t count, x, w;
};

/* One call of a pixel tile's micro-kernel (direct/tile.inc): up to two runs of output pixels, some taps and channels. */
struct sp_conv_pass {
    const float *x[2]; /* of each run, where the first tap of its first pixel is */
    float *to[2];      /* where its sums go */
    int64_t step;      /* from pixel to pixel of a run, in x */
    int64_t ld_to;     /* the same in `to` */
    const float *w;
    struct sp_conv_loop loop[3];
    const float *init; /* what a sum begins with, by lane */
    int64_t ahead;     /* from a weight to the one that will be wanted a while later, in floats */
    int64_t x_ahead;   /* the same in x, from a pixel to one of the next tile; 0: ask for none */
    int ask_x;         /* ask for pixels with each step, not for weights */
    int add;           /* to what stands in `to` */
    int relu;
};
typedef void sp_conv_tile_fn(const struct sp_conv_pass *pass);

/* Distances in x, in floats, and in packed weights, in rows of lanes. */
struct sp_conv_memory {
    int64_t x_channel, x_row, x_column, w_channel, w_row, w_column;
};

/* Up to 2 vectors of output channels: their packed weights, a bias for each lane. */
struct sp_conv_block {
    const float *w, *bias;
    int64_t first, channels;
    int nv;
    int is_wild; /* an infinite or NaN weight: zeros in the padding matter */
};

/* A convolution by pixel tiles. */
struct sp_conv_task {
    const struct sp_conv *v;
    struct sp_conv_memory memory;
    int64_t rows, across; /* output rows of a tile, tiles of a row */
    int64_t tiles;        /* of an image */
    int64_t channels;     /* input channels that are added up before `to` is touched again */
};

/* One call of the micro-kernel of strips (direct/strip.inc): all of `rows` input rows x `ntaps` taps, weights one after
 * the other. */
struct sp_conv_strip {
    const float *x;
    int64_t row, rows;  /* from row to row */
    const int64_t *taps; /* where each tap's pixels are, from the row's begin */
    int64_t ntaps;
    const float *w;
    const float *init; /* what the sums of each output channel begin with */
    float *y;
    int64_t plane; /* from output channel to output channel */
    int64_t apart; /* from the first vector of pixels to the second */
    int64_t later; /* from y to where sums will go a while later: what is asked for (0: nothing); any will do */
    int64_t repeat; /* so many times, each time one or two vectors of pixels further on */
    /* Where there is one tap, a line is asked for with each row, from here on and so far apart: what comes later. Any address
     * will do. */
    const float *ahead;
    int64_t ahead_step;
    int add, relu;
};
typedef void sp_conv_strip_fn(const struct sp_conv_strip *strip);

/* Output rows that depthwise convolution makes at a time; phases that a window may have; output pixels of a stretch. */
enum { SP_CONV_DEPTH_ROWS = 4, SP_CONV_MOST_PHASES = 8, SP_CONV_MOST_STRETCH = 1024 };

/* How the window of a piece of an output row lies in scratch memory, in floats. */
struct sp_conv_piece {
    int64_t columns; /* output pixels of a piece; the last of a row may have up to a vector more */
    int64_t phases, phase;
    int64_t row;
};

/* A convolution of NCHW images by strips. */
struct sp_conv_strips {
    const struct sp_conv *v;
    struct sp_conv_piece piece;
    const float *weights;
    const int64_t *taps;
    int64_t pieces; /* of an output row */
    int64_t tiles;  /* of the output channels of a group */
    int64_t rows;   /* input rows that are added up before y is touched again; depthwise: output rows of a window */
    int is_aliased; /* sp_conv_is_aliased: always make a window */
    /* Panels (direct/panels.inc): pieces are of the output plane as one long row. */
    struct sp_conv_piece rows_of; /* a window of input rows that panels are copied from */
    int64_t panel;                /* from panel to panel, in floats */
    int64_t panels_floats;        /* of scratch memory, before that window */
    int64_t images;               /* that are computed together: more than one if their planes are pieces */
    int is_row;                   /* the input of a plane is one long row, too */
    int in_place;                 /* x serves as it is: a panel is some columns of it */
    int64_t near_tiles;           /* whose weights stay in L2, for `rows` terms at a time */
    const int64_t *no_tap;        /* a zero */
};

struct sp_conv_kernel {
    sp_pack_fn *pixels_nchw; /* of a sp_conv_group: i is an output pixel, p = (channel, ky, kx) */
    sp_pack_fn *pixels_nhwc; /* the same of an NHWC image */
    int64_t lanes, run; /* of a vector; half the pixels of the largest tile */
    /* Weights of output channels [first, first + channels), `lanes` side by side; whether one is infinite or NaN. */
    int (*pack)(const struct sp_conv *v, int64_t first, int64_t channels, int64_t lanes, float *to);
    /* Tiles [t0, t1) of all images, numbered through, and all of these blocks of one group. */
    void (*pixels)(const struct sp_conv_task *task, const struct sp_conv_block *blocks, int64_t nblocks, int64_t group,
                   int64_t t0, int64_t t1);
    int (*pack_strip)(const struct sp_conv *v, int64_t first, int64_t channels, float *to);
    /* Pieces [u0, u1), numbered through images, rows and pieces of a row, of channel tiles [t0, t1) of a group. */
    void (*strips)(const struct sp_conv_strips *task, float *window, int64_t group, int64_t t0, int64_t t1, int64_t u0,
                   int64_t u1);
    /* Pieces [u0, u1), numbered through images and the pieces of each, of tiles [t0, t1) of a group, by panels. */
    void (*panels)(const struct sp_conv_strips *task, float *scratch, int64_t group, int64_t t0, int64_t t1, int64_t u0,
                   int64_t u1);
    /* Output rows [y0, y1) of planes [p0, p1), numbered through all images, NCHW with one channel a group; two windows of
     * `nwindow` floats. */
    void (*depthwise_nchw)(const struct sp_conv_strips *task, float *window, int64_t nwindow, int64_t p0, int64_t p1,
                           int64_t y0, int64_t y1);
    /* Output rows [y0, y1) of all channels, NHWC with one channel a group; wt is w transposed to [kh*kw][oc]. */
    void (*depthwise_nhwc)(const struct sp_conv *conv, const float *wt, int64_t image, int64_t y0, int64_t y1);
    /* depthwise_nchw of three by three taps, one or two columns and as many rows apart, without a window. Input rows have
     * at least `narrowest` columns. */
    void (*depthwise_nine)(const struct sp_conv *conv, int64_t p0, int64_t p1, int64_t y0, int64_t y1);
    int64_t narrowest;
};
extern const struct sp_conv_kernel sp_conv_ref, sp_conv_neon, sp_conv_avx2, sp_conv_avx512;
extern const struct sp_conv_kernel *const sp_conv_kernels[4]; /* [enum sp_isa]; NULL: not here */

/* What conv2d_f32 runs, and with it the layout of packed weights. */
enum sp_conv_form {
    SP_CONV_PLAIN = 0, /* weights as they are: the oracle, im2col, and direct loops that read few of them */
    SP_CONV_PIXELS = 1,
    SP_CONV_STRIPS = 2,
    SP_CONV_WINOGRAD = 3,
    SP_CONV_WINOGRAD2 = 4,
    SP_CONV_WINOGRAD6 = 5
};
struct sp_conv_weights {
    const float *w;
    uint32_t is_wild; /* one of them is infinite or NaN */
};

/* The geometry of a launch's arguments: 0, 1 (nothing to compute) or -EINVAL. */
int sp_conv_widen(const struct sp_args_conv2d_f32 *a, struct sp_conv *v);
/* A 1x1 convolution with stride 1 knows no rows, and in NHWC no images: one long row. */
void sp_conv_flatten(struct sp_conv *v);
enum sp_conv_form sp_conv_form(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa);

/* The windows. Bytes that strips need for each thread; INT64_MAX: they do not take this. */
int64_t sp_conv_strips_window(const struct sp_conv *v, enum sp_isa isa);
/* Input rows that so many output rows need. */
int64_t sp_conv_depthwise_rows(const struct sp_conv *v, int64_t outputs);
int64_t sp_conv_depthwise_window(const struct sp_conv *v, enum sp_isa isa);
/* How output rows are cut for windows of so many input rows (into pieces of `wanted` pixels, if that is not 0), and where each tap is in them. */
struct sp_conv_piece sp_conv_cut(const struct sp_conv *v, int64_t rows, int64_t wanted, int64_t lanes);
int64_t sp_conv_pieces(const struct sp_conv *v, const struct sp_conv_piece *piece, int64_t lanes);
const int64_t *sp_conv_taps(const struct sp_conv *v, const struct sp_conv_piece *piece);
/* Do channels lie so that few of them fit L1 at a time? */
int sp_conv_is_aliased(const struct sp_conv *v);
#endif
