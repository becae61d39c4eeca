/* Depthwise convolution, with one input and one output channel per group: divides the work into
 * tasks. The loops are in nchw_3x3.inc, nchw.inc and nhwc.inc. */
#include "depthwise.h"

#include <errno.h>

/* Both are targets. WINDOW_NBYTES: size of each of two windows (copies of input rows with padding),
 * so that both stay in L1. TASK_FLOPS: operations of a task. */
enum { WINDOW_NBYTES = 12 << 10, TASK_FLOPS = 200000 };

struct work {
    struct sp_conv_strips task; /* used only for NCHW images */
    const struct sp_conv *v;
    const struct sp_conv_kernel *kernel;
    const float *wt; /* used only for NHWC images: the weights as [taps][oc] */
    int64_t nwindow;
    /* A plane is one channel of one image, in NHWC a whole image. `planes` counts those of a task,
     * `all_planes` those of all tasks. */
    int64_t planes, all_planes;
    /* `rows`: output rows that a task computes of a plane; `runs`: tasks that share a plane */
    int64_t rows, runs;
    int is_nine;
    int failed;
};

/* Computes one task: some whole planes, or some output rows of one plane. */
static void one_run(void *ctx, uint32_t index)
{
    struct work *const work = ctx;
    const struct sp_conv *const v = work->v;
    const int64_t p0 = index / work->runs * work->planes;
    const int64_t p1 = p0 + work->planes < work->all_planes ? p0 + work->planes : work->all_planes;
    const int64_t y0 = index % work->runs * work->rows;
    const int64_t y1 = y0 + work->rows < v->oh ? y0 + work->rows : v->oh;
    if (v->nhwc) {
        for (int64_t p = p0; p < p1; p++)
            work->kernel->depthwise_nhwc(v, work->wt, p, y0, y1);
        return;
    }
    if (work->is_nine) {
        work->kernel->depthwise_nine(v, p0, p1, y0, y1);
        return;
    }
    float *const window = sp_scratch(SP_SCRATCH_A, 2 * (size_t)work->nwindow * sizeof(float));
    if (window)
        work->kernel->depthwise_nchw(&work->task, window, work->nwindow, p0, p1, y0, y1);
    else
        __atomic_store_n(&work->failed, 1, __ATOMIC_RELAXED);
}

/* Returns 1 if nchw_3x3.inc can compute this convolution of NCHW images. nchw_3x3.inc reads the
 * image in place; nchw.inc reads a copy of rows of the image, the window. */
static int is_nine(const struct sp_conv *v, int64_t narrowest)
{
    return v->kh == 3 && v->kw == 3 && v->dh == 1 && v->dw == 1 && v->sh == v->sw && v->sh <= 2 && v->w_in >= narrowest;
}

/* Transposes the weights to [taps][oc], in the calling thread's scratch memory SP_SCRATCH_B.
 * Returns NULL when there is no memory. */
static const float *turned(const struct sp_conv *v)
{
    float *const wt = sp_scratch(SP_SCRATCH_B, (size_t)(v->taps * v->oc) * sizeof(float));
    for (int64_t o = 0; wt && o < v->oc; o++)
        for (int64_t t = 0; t < v->taps; t++)
            wt[t * v->oc + o] = v->w[o * v->taps + t];
    return wt;
}

int sp_conv_depthwise(const struct sp_conv *v, struct sp_pool *pool, enum sp_isa isa, uint32_t threads)
{
    struct work work = {.v = v, .kernel = sp_conv_kernels[isa]};
    work.is_nine = !v->nhwc && is_nine(v, work.kernel->narrowest);
    struct sp_conv_strips *const task = &work.task;
    const int64_t lanes = work.kernel->lanes;
    if (v->nhwc) {
        work.wt = turned(v);
        if (!work.wt)
            return -ENOMEM;
    } else if (!work.is_nine) {
        task->v = v;
        task->piece = sp_conv_cut(v, sp_conv_depthwise_rows(v, SP_CONV_DEPTH_ROWS), 0, lanes);
        task->pieces = sp_conv_pieces(v, &task->piece, lanes);
        task->taps = sp_conv_taps(v, &task->piece);
        if (!task->taps)
            return -ENOMEM;
        /* Fill the window with as many rows at a time as it has room for, because loads at other
         * offsets are slow just after the window was stored. */
        const int64_t room = WINDOW_NBYTES / (int64_t)sizeof(float) / task->piece.row;
        const int64_t extra = (room - sp_conv_depthwise_rows(v, SP_CONV_DEPTH_ROWS)) / v->sh;
        task->rows = SP_CONV_DEPTH_ROWS + (extra > 0 ? extra / SP_CONV_DEPTH_ROWS * SP_CONV_DEPTH_ROWS : 0);
        task->rows = task->rows < v->oh ? task->rows : v->oh;
        work.nwindow = sp_conv_depthwise_rows(v, task->rows) * task->piece.row;
    }
    /* A task has about TASK_FLOPS operations: several planes, or some rows of one plane. */
    const int64_t of_row = 2 * v->ow * v->taps * (v->nhwc ? v->oc : 1);
    const int64_t rows = threads == 1 ? INT64_MAX : TASK_FLOPS / of_row / SP_CONV_DEPTH_ROWS * SP_CONV_DEPTH_ROWS;
    work.all_planes = v->nhwc ? v->n : v->n * v->oc;
    work.rows = rows < SP_CONV_DEPTH_ROWS ? SP_CONV_DEPTH_ROWS : rows < v->oh ? rows : v->oh;
    work.runs = (v->oh + work.rows - 1) / work.rows;
    work.planes = threads == 1 ? work.all_planes : work.runs > 1 ? 1 : rows / v->oh < 1 ? 1 : rows / v->oh;
    const int64_t tasks = (work.all_planes + work.planes - 1) / work.planes * work.runs;
    if (tasks > UINT32_MAX)
        return -EINVAL;
    sp_pool_run(pool, one_run, &work, (uint32_t)tasks, threads);
    return work.failed ? -ENOMEM : 0;
}
