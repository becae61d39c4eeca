/* Products with one or a few rows or columns: y = M x, with M read in the order of memory
 * (gemv_body.inc). A micro-tile would leave most of its vectors empty, and would need a packed b
 * for few rows.
 *
 * c = a b with one row is c^T = b^T a^T with one column, so there is one case: y[i*si] = sum_p
 * M[i*si + p*sp] * x[p*sx]. A few columns are computed together if rows of `a` are contiguous, a
 * few rows if columns of b are contiguous, as in x W^T. */
#include "gemm.h"

#include <errno.h>

/* One core reads BYTES_A_NS bytes of the matrix per ns. If each thread has more than SEVERAL_NS of
 * work, the matrix is divided into PARTS_A_THREAD parts per thread. The number of rows of a part is
 * a multiple of UNIT. */
enum { BYTES_A_NS = 40, SEVERAL_NS = 50000, PARTS_A_THREAD = 2, UNIT = 96 };
/* gemv.c computes a product with a few columns (two or more) only if it has at least FEW_K terms
 * and FEW_OTHERS rows. It computes a product with a few rows (two or more) only if it has at least
 * FEW_K terms and FEW_OTHERS columns. Rows are few if a column of c has at most FEW_ROWS_NBYTES
 * bytes. With twice as many rows, a product that packs b in each call is as fast on Zen 4.
 * ops/tiles/blocking.py has the same numbers. */
enum { FEW_K = 64, FEW_OTHERS = 16, FEW_ROWS_NBYTES = 128 };

struct vector_job {
    const struct sp_gemm_kernel *kernel;
    struct sp_dots all;
    size_t sp, part;
};

static void rows_task(void *ctx, uint32_t index)
{
    const struct vector_job *const v = ctx;
    const size_t nbytes = v->kernel->nbytes;
    const size_t first = index * v->part;
    const size_t count = v->all.rows - first < v->part ? v->all.rows - first : v->part;
    struct sp_dots d = v->all;
    d.rows = count;
    d.y = (char *)d.y + first * d.sy * nbytes;
    if (v->sp == 1) {
        d.matrix = (const char *)d.matrix + first * d.ld * nbytes;
        v->kernel->gemv_dots(&d);
    } else {
        v->kernel->gemv_axpy(count, d.k, (const char *)d.matrix + first * nbytes, v->sp, d.x, d.y);
    }
}

int sp_gemv_takes(const struct sp_gemm_job *job, size_t rsb, size_t csb)
{
    if (job->k == 0)
        return 0;
    if (job->n == 1)
        return job->csa == 1 || (job->rsa == 1 && job->rsc == 1);
    if (job->m == 1)
        return rsb == 1 || csb == 1;
    if (job->n <= SP_GEMV_FEW_COLUMNS && job->csa == 1 && job->k >= FEW_K && job->m >= FEW_OTHERS)
        return 1;
    return job->m * job->kernel->nbytes <= FEW_ROWS_NBYTES && rsb == 1 && job->k >= FEW_K && job->n >= FEW_OTHERS;
}

int sp_gemv_run(const struct sp_gemm_job *job, const void *a, const void *b, size_t rsb, size_t csb,
                const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const size_t nbytes = job->kernel->nbytes;
    const int column = job->n == 1 || (job->m > 1 && job->n <= SP_GEMV_FEW_COLUMNS);
    struct vector_job v = {.kernel = job->kernel, .sp = column ? job->csa : rsb};
    struct sp_dots *const d = &v.all;
    *d = (struct sp_dots){
        .matrix = column ? a : b,
        .x = column ? b : a,
        .y = job->c,
        .rows = column ? job->m : job->n,
        .columns = column ? job->n : job->m,
        .k = job->k,
        .ld = column ? job->rsa : csb,
        .ldx = column ? csb : job->rsa,
        .sy = column ? job->rsc : 1,
        .ldy = column ? 1 : job->rsc,
    };
    d->far = (double)d->rows * (double)d->k * (double)nbytes > SP_GEMV_FAR;
    const size_t sx = column ? rsb : job->csa;
    if (sx != 1 && d->k > 1) {
        const struct sp_strided from = {d->x, d->ldx, sx};
        char *const packed = sp_scratch(SP_SCRATCH_A, d->columns * d->k * nbytes);
        if (!packed)
            return -ENOMEM;
        for (size_t j = 0; j < d->columns; j++)
            job->kernel->pack(&from, j, 1, 1, 0, d->k, packed + j * d->k * nbytes);
        d->x = packed;
        d->ldx = d->k;
    }
    const double read_ns = (double)d->rows * (double)d->k * (double)nbytes / BYTES_A_NS;
    const double flops_ns = sp_gemm_ns(2.0 * (double)d->rows * (double)d->columns * (double)d->k);
    const double work_ns = read_ns > flops_ns ? read_ns : flops_ns;
    const uint32_t threads = sp_pool_worth(pool, plan->threads, work_ns);
    const uint32_t ready = sp_pool_ready(pool, threads, work_ns);
    /* Use more parts than threads, so that a late thread computes fewer parts. */
    const size_t parts = work_ns / threads > SEVERAL_NS ? (size_t)threads * PARTS_A_THREAD : threads;
    v.part = ((d->rows + parts - 1) / parts + UNIT - 1) / UNIT * UNIT;
    const uint32_t tasks = (uint32_t)((d->rows + v.part - 1) / v.part);
    if (tasks == 1)
        rows_task(&v, 0);
    else
        sp_pool_run(pool, rows_task, &v, tasks, ready);
    if (job->bias_columns || job->act != SP_ACT_NONE) {
        const struct sp_gemm_finish how = {NULL, job->bias_columns, job->act};
        job->kernel->finish(job->c, job->rsc, job->m, job->n, &how);
    }
    return 0;
}
