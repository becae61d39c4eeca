/* The loop nest of every matrix product, and gemm_f32 / gemm_f64 over it. Written once for all types and
 * instruction sets: it moves bytes, the functions of a struct sp_gemm_kernel know what they are.
 *
 * Threads share nothing: c is cut into blocks, a task packs what its block needs and runs the whole nest over k.
 * What is packed twice costs less than a barrier, and the order of additions, hence every bit of c, does not depend
 * on how many threads there are. */
#include "gemm.h"
#include "args.h"

#include <errno.h>

enum { FEW_ROWS = 4, FEW_ROWS_KC = 8 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t x, size_t to)
{
    return (x + to - 1) / to * to;
}

static size_t pieces(size_t x, size_t of)
{
    return (x + of - 1) / of;
}

void sp_gemm_choose(struct sp_gemm_job *job, const struct sp_tile_plan *plan)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    job->mc = plan->mc ? plan->mc : kernel->mc;
    job->nc = plan->nc ? plan->nc : kernel->nc;
    /* Few rows: all the time goes into reading b. A few of its rows at a time are read along memory. */
    job->kc = plan->kc ? plan->kc : job->b_in_place && job->m <= FEW_ROWS ? FEW_ROWS_KC : kernel->kc;
    /* A plan may ask for anything; beyond the matrix it would only waste scratch. Equal slices of k beat a short
     * last. */
    const size_t most = 1 << 16; /* so that no product of these sizes overflows */
    job->mc = round_up(smaller(smaller(job->mc, job->m), most), kernel->mr);
    job->nc = round_up(smaller(smaller(job->nc, job->n), most), kernel->nr);
    job->kc = job->k ? pieces(job->k, pieces(job->k, smaller(job->kc, most))) : 1;
}

/* One micro-tile of c at (i, j). `last`: k is done, bias and activation follow. */
static void tile(const struct sp_gemm_job *job, size_t i, size_t rows, size_t j, size_t columns, size_t kc,
                 const char *a, const char *b, size_t ldb, int add, int last)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    char *const c = (char *)job->c + (i * job->rsc + j) * nbytes;
    if (columns == kernel->nr) {
        kernel->ukr[rows - 1](kc, a, b, ldb, c, job->rsc, add);
    } else {
        double edge[SP_GEMM_MAX_TILE];
        kernel->ukr[rows - 1](kc, a, b, ldb, edge, kernel->nr, 0);
        kernel->merge(c, job->rsc, edge, kernel->nr, rows, columns, add);
    }
    if (last && (job->bias_rows || job->bias_columns || job->act != SP_ACT_NONE)) {
        const struct sp_gemm_finish how = {
            job->bias_rows ? (const char *)job->bias_rows + i * nbytes : NULL,
            job->bias_columns ? (const char *)job->bias_columns + j * nbytes : NULL,
            job->act,
        };
        kernel->finish(c, job->rsc, rows, columns, &how);
    }
}

int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    const size_t mr = kernel->mr;
    const size_t nr = kernel->nr;
    const size_t mc = smaller(job->mc, round_up(m1 - m0, mr));
    const size_t nc = smaller(job->nc, round_up(n1 - n0, nr));
    /* A panel of b that only two tiles would read is not worth packing. */
    const char *const in_place = m1 - m0 <= 2 * mr ? job->b_in_place : NULL;
    char *const packed_a = sp_scratch(SP_SCRATCH_A, mc * job->kc * nbytes);
    char *const packed_b = sp_scratch(SP_SCRATCH_B, nc * job->kc * nbytes);
    if (!packed_a || !packed_b)
        return -ENOMEM;
    for (size_t jc = n0; jc < n1; jc += nc) {
        const size_t jend = smaller(jc + nc, n1);
        size_t p = 0;
        do { /* once even for k == 0, which writes zeros, bias and activation */
            const size_t kc = smaller(job->kc, job->k - p);
            const int last = p + kc == job->k;
            for (size_t j = jc; j < jend; j += nr)
                if (!in_place || jend - j < nr)
                    job->pack_b(job->b, j, smaller(nr, jend - j), nr, p, kc, packed_b + (j - jc) * kc * nbytes);
            for (size_t ic = m0; ic < m1; ic += mc) {
                const size_t iend = smaller(ic + mc, m1);
                for (size_t i = ic; i < iend; i += mr) {
                    const size_t rows = smaller(mr, iend - i);
                    job->pack_a(job->a, i, rows, rows, p, kc, packed_a + (i - ic) * kc * nbytes);
                }
                for (size_t j = jc; j < jend; j += nr) {
                    const int here = in_place && jend - j >= nr;
                    const char *const b = here ? in_place + (p * job->ldb + j) * nbytes
                                               : packed_b + (j - jc) * kc * nbytes;
                    for (size_t i = ic; i < iend; i += mr)
                        tile(job, i, smaller(mr, iend - i), j, smaller(nr, jend - j), kc,
                             packed_a + (i - ic) * kc * nbytes, b, here ? job->ldb : nr, p > 0, last);
                }
            }
            p += kc;
        } while (p < job->k);
    }
    return 0;
}

uint32_t sp_gemm_threads(double flops, const struct sp_tile_plan *plan, const struct sp_pool *pool)
{
    const double flops_a_thread = 400e3; /* some 3 us of one core; waking a thread that sleeps costs more than that */
    const uint32_t all = sp_pool_threads(pool);
    const uint32_t allowed = plan->threads && plan->threads < all ? plan->threads : all;
    const double worth = flops / flops_a_thread;
    return worth < 2 ? 1 : worth < allowed ? (uint32_t)worth : allowed;
}

struct blocks {
    const struct sp_gemm_job *job;
    size_t rows, columns; /* of a task's block */
    size_t across;        /* tasks across n */
    int failed;
};

static void one_block(void *ctx, uint32_t index)
{
    struct blocks *const blocks = ctx;
    const struct sp_gemm_job *const job = blocks->job;
    const size_t m0 = index / blocks->across * blocks->rows;
    const size_t n0 = index % blocks->across * blocks->columns;
    if (sp_gemm_block(job, m0, smaller(m0 + blocks->rows, job->m), n0, smaller(n0 + blocks->columns, job->n)))
        __atomic_store_n(&blocks->failed, 1, __ATOMIC_RELAXED);
}

int sp_gemm_run(const struct sp_gemm_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const uint32_t threads =
        sp_gemm_threads(2.0 * (double)job->m * (double)job->n * (double)(job->k + 1), plan, pool);
    if (job->m == 0 || job->n == 0)
        return 0;
    if (threads == 1)
        return sp_gemm_block(job, 0, job->m, 0, job->n);
    /* Halve the longer side until every thread has a block; twice as many when blocks stay large, so that a thread that
     * loses its core for a while holds up the others less. */
    struct blocks blocks = {job, job->m, job->n, 1, 0};
    size_t tasks = 1;
    const size_t large = 192 * 1024;
    while (tasks < threads || (tasks < 2 * (size_t)threads && blocks.rows * blocks.columns > large)) {
        if (blocks.rows > kernel->mr && blocks.rows >= blocks.columns)
            blocks.rows = round_up(pieces(blocks.rows, 2), kernel->mr);
        else if (blocks.columns > kernel->nr)
            blocks.columns = round_up(pieces(blocks.columns, 2), kernel->nr);
        else if (blocks.rows > kernel->mr)
            blocks.rows = round_up(pieces(blocks.rows, 2), kernel->mr);
        else
            break;
        tasks = pieces(job->m, blocks.rows) * pieces(job->n, blocks.columns);
    }
    blocks.across = pieces(job->n, blocks.columns);
    sp_pool_run(pool, one_block, &blocks, (uint32_t)tasks, threads);
    return blocks.failed ? -ENOMEM : 0;
}

/* gemm_f32 and gemm_f64 as jobs; their argument structs differ in the pointers' types only. The reference is the plain
 * triple loop (gemm_naive.c) unless a plan asks for blocks: then the nest runs its portable micro-kernel. */
#define SP_GEMM(name, type)                                                                                            \
    static int name(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa)          \
    {                                                                                                                  \
        const struct sp_args_##name *const v = args;                                                                   \
        const struct sp_strided a = {v->a, v->rsa, v->csa};                                                            \
        const struct sp_strided b = {v->b, v->csb, v->rsb};                                                            \
        struct sp_gemm_job job = {.kernel = &sp_gemm_kernels[isa][type]};                                              \
        if (v->act > SP_ACT_SIGMOID || (v->m > 1 && v->rsc < v->n)) /* rows of c may not share memory */               \
            return -EINVAL;                                                                                            \
        if (plan->algo == SP_ALGO_NAIVE || (plan->algo == SP_ALGO_AUTO && isa == SP_ISA_REF))                          \
            return sp_##name##_naive(args, plan, pool);                                                                \
        job.m = v->m;                                                                                                  \
        job.n = v->n;                                                                                                  \
        job.k = v->k;                                                                                                  \
        job.pack_a = job.pack_b = job.kernel->pack;                                                                    \
        job.a = &a;                                                                                                    \
        job.b = &b;                                                                                                    \
        job.b_in_place = v->csb == 1 ? v->b : NULL;                                                                    \
        job.ldb = v->rsb;                                                                                              \
        job.c = v->c;                                                                                                  \
        job.rsc = v->rsc;                                                                                              \
        job.bias_columns = v->bias;                                                                                    \
        job.act = v->act;                                                                                              \
        sp_gemm_choose(&job, plan);                                                                                    \
        return sp_gemm_run(&job, plan, pool);                                                                          \
    }                                                                                                                  \
    sp_routine_fn sp_##name##_ref, sp_##name##_neon, sp_##name##_avx2, sp_##name##_avx512;                             \
    int sp_##name##_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                       \
    {                                                                                                                  \
        return name(args, plan, pool, SP_ISA_REF);                                                                     \
    }                                                                                                                  \
    int sp_##name##_neon(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                      \
    {                                                                                                                  \
        return name(args, plan, pool, SP_ISA_NEON);                                                                    \
    }                                                                                                                  \
    int sp_##name##_avx2(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                      \
    {                                                                                                                  \
        return name(args, plan, pool, SP_ISA_AVX2);                                                                    \
    }                                                                                                                  \
    int sp_##name##_avx512(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)                    \
    {                                                                                                                  \
        return name(args, plan, pool, SP_ISA_AVX512);                                                                  \
    }

SP_GEMM(gemm_f32, SP_GEMM_F32)
SP_GEMM(gemm_f64, SP_GEMM_F64)
