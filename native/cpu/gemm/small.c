/* Products so small that all data are in a near cache and one core ends before a second would
 * start: runs the micro-kernel straight on the operands. nest.c would choose the same tiles. So
 * both give the same bits if the plan sets kc. But nest.c takes 80 ns to find that nothing needs
 * packing, division or prefetch, more than such a product takes. */
#include "core/args.h"
#include "gemm.h"
#include "slice.h"

/* Limits of a small product. m * n * (k + 1) is at most MOST_WORK: a product of more work may be
 * worth a second thread (sp_gemm_threads). c has at most MOST_C_NBYTES bytes, the same number as
 * NEAR_NBYTES of slice.c. */
enum { MOST_WORK = 380000, MOST_C_NBYTES = 32 << 10 };
/* Up to this many bytes, all of b stays in L1 while tiles of `a` are read. */
enum { INNERMOST_NBYTES = 16 << 10 };

static int names_less(uint32_t of_plan, uint32_t size)
{
    return of_plan && of_plan < size;
}

int sp_gemm_takes_small(const struct sp_gemm_kernel *kernel, const void *args, const struct sp_tile_plan *plan)
{
    const struct sp_args_gemm_f32 *const v = args;
    const size_t m = v->m, n = v->n, k = v->k;
    const size_t nbytes = kernel->nbytes;
    if (m < 2 || n <= SP_GEMV_FEW_COLUMNS || k == 0 || k > kernel->kc || v->csa != 1 || v->csb != 1)
        return 0;
    /* Compare m and n first, so that the products do not overflow. */
    if (m > MOST_WORK || n > MOST_WORK || m * n * nbytes > MOST_C_NBYTES || m * n * (k + 1) > MOST_WORK)
        return 0;
    if (names_less(plan->mc, v->m) || names_less(plan->nc, v->n) || names_less(plan->kc, v->k))
        return 0;
    return !plan->pack && (kernel->masked || n % kernel->nr == 0) &&
           (m <= 2 * (size_t)kernel->mr || (double)k * (double)v->rsb * (double)nbytes <= kernel->small_b) &&
           sp_gemm_rows_fit_l1(v->rsa * nbytes, kernel->mr);
}

/* Computes the tile of `rows` rows at row i, column j. */
static void tile(const struct sp_gemm_kernel *kernel, const struct sp_args_gemm_f32 *v, struct sp_ukr *u, size_t i, size_t rows,
                 size_t j)
{
    const size_t nbytes = kernel->nbytes;
    const size_t columns = smaller(kernel->nr, v->n - j);
    char *const c = (char *)v->c + (i * v->rsc + j) * nbytes;
    u->a = (const char *)v->a + i * v->rsa * nbytes;
    u->b = (const char *)v->b + j * nbytes;
    u->c = c;
    u->columns = columns;
    kernel->ukr[sp_gemm_variant(kernel, columns)][rows - 1](u);
    if (v->bias || v->act != SP_ACT_NONE) {
        const struct sp_gemm_finish how = {NULL, v->bias ? (const char *)v->bias + j * nbytes : NULL, v->act};
        kernel->finish(c, v->rsc, rows, columns, &how);
    }
}

void sp_gemm_small(const struct sp_gemm_kernel *kernel, const void *args)
{
    const struct sp_args_gemm_f32 *const v = args;
    const size_t m = v->m, n = v->n;
    const size_t most = tile_rows(m, kernel->mr);
    struct sp_ukr u; /* not initialised: clearing all of u takes 10 ns */
    u.k = v->k;
    u.rsa = v->rsa;
    u.csa = 1;
    u.ldb = v->rsb;
    u.rsc = v->rsc;
    u.add = u.past = u.far = 0;
    u.ahead.at = (const char *)v->b;
    if ((size_t)v->k * n * kernel->nbytes <= INNERMOST_NBYTES) {
        for (size_t i = 0; i < m; i += most)
            for (size_t j = 0; j < n; j += kernel->nr)
                tile(kernel, v, &u, i, smaller(most, m - i), j);
        return;
    }
    for (size_t j = 0; j < n; j += kernel->nr)
        for (size_t i = 0; i < m; i += most)
            tile(kernel, v, &u, i, smaller(most, m - i), j);
}
