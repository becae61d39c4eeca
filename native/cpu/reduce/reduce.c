/* The driver of reductions: divides the work into pieces for the thread pool. The arithmetic is in
 * reduce.inc. */
#include "reduce.h"

#include <errno.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void one_piece(const struct sp_reduce_job *job, size_t index)
{
    const size_t column = index % job->column_runs;
    const size_t run = index / job->column_runs % job->row_runs;
    const size_t o = index / job->column_runs / job->row_runs;
    const size_t i0 = column * SP_REDUCE_COLUMNS;
    const size_t i1 = smaller(i0 + SP_REDUCE_COLUMNS, job->inner);
    const size_t r0 = run * job->rows;
    const size_t r1 = smaller(r0 + job->rows, job->n);
    char *partial = job->partial;
    if (partial)
        partial += ((run * job->outer + o) * job->inner + i0) * job->partial_nbytes;
    job->piece(job, o, o + 1, r0, r1, i0, i1, partial);
}

static void one_task(void *ctx, uint32_t index)
{
    const struct sp_reduce_job *const job = ctx;
    const size_t begin = index * job->per_task;
    const size_t end = smaller(begin + job->per_task, job->pieces);
    /* If neither rows nor columns are divided, a piece is x[o, :, :] for one o. Then one call
     * reduces all pieces of the task. */
    if (job->column_runs == 1 && job->row_runs == 1) {
        job->piece(job, begin, end, 0, job->n, 0, job->inner, NULL);
        return;
    }
    for (size_t p = begin; p < end; p++)
        one_piece(job, p);
}

int sp_reduce_run(struct sp_reduce_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const size_t results = job->outer * job->inner;
    if (results == 0)
        return 0;
    job->column_runs = (job->inner + SP_REDUCE_COLUMNS - 1) / SP_REDUCE_COLUMNS;
    const size_t width = smaller(job->inner, SP_REDUCE_COLUMNS);
    const size_t independent = job->outer * job->column_runs;
    job->rows = job->n;
    job->row_runs = 1;
    /* If there are few results and each reduces many rows, divide the rows among the pieces too,
     * not only the results. 64 pieces keep the threads of any desktop busy. */
    if (independent < 64 && job->n * width > 2 * (size_t)SP_REDUCE_PIECE) {
        job->rows = SP_REDUCE_PIECE / width;
        job->row_runs = (job->n + job->rows - 1) / job->rows;
        job->partial = sp_scratch(SP_SCRATCH_B, job->row_runs * results * job->partial_nbytes);
        if (!job->partial)
            return -ENOMEM;
    }
    job->pieces = independent * job->row_runs;
    const size_t piece_elements = job->rows * width;
    job->per_task = piece_elements >= SP_REDUCE_PIECE ? 1 : SP_REDUCE_PIECE / (piece_elements + 1) + 1;
    while ((job->pieces + job->per_task - 1) / job->per_task > UINT32_MAX)
        job->per_task *= 2;
    const uint32_t tasks = (uint32_t)((job->pieces + job->per_task - 1) / job->per_task);
    if (tasks == 1)
        one_task(job, 0);
    else
        sp_pool_run(pool, one_task, job, tasks, plan->threads);
    if (job->partial)
        job->combine(job);
    return 0;
}
