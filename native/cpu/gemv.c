/* gemm with one row or one column: c as a vector y = M x, read along memory (gemv_body.inc). c = a b with one row is
 * c^T = b^T a^T with one column, so that there is one case: y[i*sy] = sum_p M[i*si + p*sp] * x[p*sx]. A few columns are
 * done so one after the other where rows of a lie along memory: a micro-tile would leave most of its vectors empty. */
#include "gemm.h"

#include <errno.h>

enum { BYTES_A_NS = 40, SEVERAL_NS = 50000, PARTS_A_THREAD = 2, UNIT = 64 }; /* of the matrix and one core; rows of a part */
enum { FEW_COLUMNS_K = 64, FEW_COLUMNS_M = 16, ROWS_AGAIN = 16 };

struct vector_job {
    const struct sp_gemm_kernel *kernel;
    const char *matrix, *x;
    char *y;
    size_t count, columns, k, si, sp, sy, part;
};

static void some(void *ctx, uint32_t index)
{
    const struct vector_job *const v = ctx;
    const size_t nbytes = v->kernel->nbytes;
    const size_t first = index * v->part;
    const size_t count = v->count - first < v->part ? v->count - first : v->part;
    const char *const matrix = v->matrix + first * v->si * nbytes;
    char *const y = v->y + first * v->sy * nbytes;
    if (v->sp == 1 && v->columns > 1)
        for (size_t i = 0; i < count; i += ROWS_AGAIN) /* few enough to be in a cache when the next column wants them */
            for (size_t j = 0; j < v->columns; j++)
                v->kernel->gemv_dot(count - i < ROWS_AGAIN ? count - i : ROWS_AGAIN, v->k, matrix + i * v->si * nbytes, v->si,
                                    v->x + j * v->k * nbytes, y + (i * v->sy + j) * nbytes, v->sy);
    else if (v->sp == 1)
        v->kernel->gemv_dot(count, v->k, matrix, v->si, v->x, y, v->sy);
    else
        v->kernel->gemv_axpy(count, v->k, matrix, v->sp, v->x, y);
}

int sp_gemv_takes(const struct sp_gemm_job *job, size_t rsb, size_t csb)
{
    if (job->k == 0)
        return 0;
    if (job->n == 1)
        return job->csa == 1 || (job->rsa == 1 && job->rsc == 1);
    if (job->n <= SP_GEMV_FEW_COLUMNS && job->csa == 1 && job->k >= FEW_COLUMNS_K && job->m >= FEW_COLUMNS_M)
        return 1;
    return job->m == 1 && (rsb == 1 || csb == 1);
}

int sp_gemv_run(const struct sp_gemm_job *job, const void *a, const void *b, size_t rsb, size_t csb,
                const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const size_t nbytes = job->kernel->nbytes;
    const int column = job->n == 1 || job->m > 1;
    struct vector_job v = {
        .kernel = job->kernel,
        .matrix = column ? a : b,
        .x = column ? b : a,
        .y = job->c,
        .count = column ? job->m : job->n,
        .columns = column ? job->n : 1,
        .k = job->k,
        .si = column ? job->rsa : csb,
        .sp = column ? job->csa : rsb,
        .sy = column ? job->rsc : 1,
    };
    const size_t sx = column ? rsb : job->csa;
    if (v.columns > 1 || (sx != 1 && v.k > 1)) {
        const struct sp_strided from = {v.x, csb, sx};
        char *const packed = sp_scratch(SP_SCRATCH_A, v.columns * v.k * nbytes);
        if (!packed)
            return -ENOMEM;
        for (size_t j = 0; j < v.columns; j++)
            job->kernel->pack(&from, j, 1, 1, 0, v.k, packed + j * v.k * nbytes);
        v.x = packed;
    }
    const double work_ns = (double)v.count * (double)v.k * (double)nbytes / BYTES_A_NS;
    const uint32_t threads = sp_pool_worth(pool, plan->threads, work_ns);
    const uint32_t ready = sp_pool_ready(pool, threads, work_ns);
    /* More parts than threads: one that comes late does less. */
    const size_t parts = work_ns / threads > SEVERAL_NS ? (size_t)threads * PARTS_A_THREAD : threads;
    v.part = ((v.count + parts - 1) / parts + UNIT - 1) / UNIT * UNIT;
    const uint32_t tasks = (uint32_t)((v.count + v.part - 1) / v.part);
    if (tasks == 1)
        some(&v, 0);
    else
        sp_pool_run(pool, some, &v, tasks, ready);
    if (job->bias_columns || job->act != SP_ACT_NONE) {
        const struct sp_gemm_finish how = {NULL, job->bias_columns, job->act};
        job->kernel->finish(job->c, job->rsc, job->m, job->n, &how);
    }
    return 0;
}
