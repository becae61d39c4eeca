/* Sizes of the windows of strips and depthwise convolution: divides output rows into pieces whose
 * input rows fit L1. */
#include "shape.h"

enum {
    WINDOW_NBYTES = 24 << 10,
    LINE = 16,
    /* channels whose distance in bytes is a multiple of this share few sets of L1 */
    ALIAS_NBYTES = 2048
};

struct sp_conv_piece sp_conv_cut(const struct sp_conv *v, int64_t rows, int64_t wanted, int64_t lanes)
{
    const int64_t reach = (v->kw - 1) * v->dw + 1;
    struct sp_conv_piece piece = {.phases = sp_min_i64(v->sw, reach)};
    const int64_t fit = WINDOW_NBYTES / (int64_t)sizeof(float) / (rows * piece.phases) - (reach - 1) / v->sw;
    piece.columns = wanted ? wanted : fit < 2 * lanes ? 2 * lanes : fit / (2 * lanes) * 2 * lanes;
    if (v->ow <= piece.columns + lanes)
        piece.columns = v->ow;
    piece.phase = sp_ceil_div(piece.columns + 2 * lanes + (reach - 1) / v->sw, LINE) * LINE;
    piece.row = piece.phases * piece.phase;
    return piece;
}

int64_t sp_conv_pieces(const struct sp_conv *v, const struct sp_conv_piece *piece, int64_t lanes)
{
    const int64_t count = (v->ow + piece->columns - lanes) / piece->columns;
    return count < 1 ? 1 : count;
}

const int64_t *sp_conv_taps(const struct sp_conv *v, const struct sp_conv_piece *piece)
{
    int64_t *const taps = sp_scratch(SP_SCRATCH_C, (size_t)v->kw * sizeof(int64_t));
    for (int64_t kx = 0; taps && kx < v->kw; kx++)
        taps[kx] = kx * v->dw % v->sw * piece->phase + kx * v->dw / v->sw;
    return taps;
}

int sp_conv_is_aliased(const struct sp_conv *v)
{
    return v->cg > 32 && v->h * v->w_in * (int64_t)sizeof(float) % ALIAS_NBYTES == 0;
}

/* Returns the size in bytes of a window of `rows` input rows. Returns INT64_MAX if the window has
 * more than SP_CONV_MOST_PHASES phases, or if the size of a row or the number of rows does not fit
 * into 32 bits. */
static int64_t window(const struct sp_conv *v, int64_t rows, enum sp_isa isa)
{
    if ((v->kw - 1) * v->dw > INT32_MAX || rows > INT32_MAX)
        return INT64_MAX;
    const struct sp_conv_piece piece = sp_conv_cut(v, rows, 0, sp_conv_kernels[isa]->lanes);
    return piece.row > INT32_MAX || piece.phases > SP_CONV_MOST_PHASES ? INT64_MAX : rows * piece.row * (int64_t)sizeof(float);
}

int64_t sp_conv_strips_window(const struct sp_conv *conv, enum sp_isa isa)
{
    struct sp_conv v = *conv;
    sp_conv_flatten(&v);
    return v.nhwc || v.kh > INT32_MAX / v.cg ? INT64_MAX : window(&v, v.cg * v.kh, isa);
}

int64_t sp_conv_depthwise_rows(const struct sp_conv *v, int64_t outputs)
{
    return (outputs - 1) * v->sh + (v->kh - 1) * v->dh + 1;
}

int64_t sp_conv_depthwise_window(const struct sp_conv *v, enum sp_isa isa)
{
    return v->nhwc ? 0 : window(v, sp_conv_depthwise_rows(v, SP_CONV_DEPTH_ROWS), isa);
}
