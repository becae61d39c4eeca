/* Prefetch for a Winograd convolution. While matrix products compute, this prefetches input rows of
 * the next group of tiles and output rows of the current group. Each step of a micro-kernel
 * prefetches one cache line. The transforms touch a line or two of many rows and planes, which
 * hardware prefetchers do not predict. Many prefetches at once would stall the loads of the
 * products. */
#include "winograd.h"

enum { LINE = 64 / sizeof(float) };

/* Finds the rows [y0, y1) and columns [x0, x1) of one image that the tiles of a group cover,
 * clipped to h x w. In each direction, a tile covers `m` pixels plus `extra`. Its position is
 * shifted by (-py, -px). */
static void rectangle(const struct sp_wino *wino, int64_t first, int64_t count, int64_t m, int64_t extra, int64_t py,
                      int64_t px, int64_t h, int64_t w, int64_t at[4])
{
    const int64_t tx = first % wino->across;
    const int64_t ty = first / wino->across % wino->down;
    const int64_t rows = sp_min_i64(sp_ceil_div(tx + count, wino->across), wino->down - ty);
    const int64_t x0 = rows > 1 ? 0 : tx * m - px;
    const int64_t x1 = rows > 1 ? w : (tx + count) * m + extra - px;
    at[0] = ty * m - py < 0 ? 0 : ty * m - py;
    at[1] = sp_min_i64((ty + rows) * m + extra - py, h);
    at[2] = x0 < 0 ? 0 : x0;
    at[3] = sp_min_i64(x1, w);
}

struct sp_wino_ahead sp_wino_ahead_input(const struct sp_wino *wino, int64_t first, int64_t count)
{
    const struct sp_conv *const v = wino->conv;
    int64_t at[4];
    if (first >= wino->tiles)
        return (struct sp_wino_ahead){0};
    const int64_t m = wino->m * wino->stride;
    rectangle(wino, first, sp_min_i64(count, wino->tiles - first), m, wino->edge - m, v->ph, v->pw, v->h, v->w_in, at);
    const int64_t image = first / (wino->across * wino->down);
    const int64_t pixel = v->nhwc ? v->c : 1;
    return (struct sp_wino_ahead){
        .from = v->x + image * v->c * v->h * v->w_in + (at[0] * v->w_in + at[2]) * pixel,
        .n = {at[1] - at[0], at[3] - at[2] < 1 ? 0 : sp_ceil_div(at[3] - at[2], LINE) + 1, 1},
        .step = {v->w_in * pixel, LINE * pixel, 0},
        .inner = v->nhwc ? LINE : v->h * v->w_in,
    };
}

struct sp_wino_ahead sp_wino_ahead_output(const struct sp_wino *wino, int64_t first, int64_t count, int64_t o,
                                          int64_t channels)
{
    const struct sp_conv *const v = wino->conv;
    const int64_t image = first / (wino->across * wino->down);
    /* steps, and so prefetches, of a micro-kernel call */
    const int64_t steps = v->c < 1 ? 1 : v->c;
    int64_t at[4];
    rectangle(wino, first, count, wino->m, 0, 0, 0, v->oh, v->ow, at);
    channels = sp_min_i64(channels, v->oc - o);
    if (v->nhwc)
        return (struct sp_wino_ahead){
            .from = v->y + ((image * v->oh + at[0]) * v->ow + at[2]) * v->oc + o,
            .n = {at[1] - at[0], sp_ceil_div(at[3] - at[2], steps), sp_ceil_div(channels, LINE)},
            .step = {v->ow * v->oc, steps * v->oc, LINE},
            .inner = v->oc,
        };
    return (struct sp_wino_ahead){
        .from = v->y + ((image * v->oc + o) * v->oh + at[0]) * v->ow + at[2],
        .n = {at[1] - at[0], sp_ceil_div(at[3] - at[2], LINE) + 1, sp_ceil_div(channels, steps)},
        .step = {v->ow, LINE, steps * v->oh * v->ow},
        .inner = v->oh * v->ow,
    };
}

int sp_wino_prefetch_next(struct sp_wino_ahead *ahead, const float **line)
{
    if (ahead->n[0] < 1 || ahead->n[1] < 1 || ahead->at[2] >= ahead->n[2])
        return 0;
    /* Compute addresses as numbers, because they may point beyond an image's end. */
    const int64_t floats =
        ahead->at[0] * ahead->step[0] + ahead->at[1] * ahead->step[1] + ahead->at[2] * ahead->step[2];
    *line = (const float *)((uintptr_t)ahead->from + (uintptr_t)floats * sizeof(float));
    if (++ahead->at[1] == ahead->n[1]) {
        ahead->at[1] = 0;
        if (++ahead->at[0] == ahead->n[0]) {
            ahead->at[0] = 0;
            ahead->at[2]++;
        }
    }
    return 1;
}
