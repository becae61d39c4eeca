/* The loop nest of every matrix product c = a b, written once for all types and instruction sets.
 * It moves bytes; only the functions of a struct sp_gemm_kernel know the element type. args.c makes
 * the jobs from the arguments of gemm_f32 and gemm_f64.
 *
 * The result c is divided into blocks, one to four per thread. A task runs the whole nest over k
 * for its block. So the order of additions, and every bit of c, is the same for any number of
 * threads. All threads together first pack b as far as needed. Each thread then packs its rows of
 * `a`. */
#include "gemm.h"
#include "core/args.h"
#include "slice.h"

#include <errno.h>

enum { FEW_ROWS = 4, FEW_ROWS_KC = 8 };
/* The smallest size of L1 that is assumed, to find rows that would evict each other. x86 has at
 * least 4 KiB per way and 8 ways; on Arm a way is larger. */
enum { WAY_NBYTES = 4096, WAYS = 8, LINE_NBYTES = 64 };

const struct sp_gemm_kernel *const sp_gemm_kernels[4] = {
    [SP_ISA_REF] = sp_gemm_ref,
#if defined(__aarch64__)
    [SP_ISA_NEON] = sp_gemm_neon,
#endif
#if defined(__x86_64__)
    [SP_ISA_AVX2] = sp_gemm_avx2,
    [SP_ISA_AVX512] = sp_gemm_avx512,
#endif
};

int sp_gemm_rows_fit_l1(size_t stride_nbytes, size_t rows)
{
    /* The largest power of two that divides the distance. So rows begin at no more than WAY_NBYTES
     * / step different offsets in a way of L1. */
    size_t step = stride_nbytes & -stride_nbytes;
    if (step == 0 || step > WAY_NBYTES)
        step = WAY_NBYTES;
    return step < LINE_NBYTES || WAY_NBYTES / step * WAYS >= rows + 2;
}

void sp_gemm_choose(struct sp_gemm_job *job, const struct sp_tile_plan *plan)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    job->mc = plan->mc ? plan->mc : kernel->mc;
    job->nc = plan->nc ? plan->nc : kernel->nc;
    /* With few rows of c all the time goes into reading b. So only a few rows of b are read at a
     * time, in the order of memory. */
    job->kc = plan->kc ? plan->kc : job->b_in_place && job->m <= FEW_ROWS ? FEW_ROWS_KC : kernel->kc;
    /* Limit the plan's sizes, because sizes beyond the matrix would only waste scratch memory.
     * Slices of equal size are better than a short last one. */
    const size_t most = 1 << 16; /* limit of each block size: mc * kc and the like then do not overflow */
    const size_t kc = job->k ? pieces(job->k, pieces(job->k, smaller(job->kc, most))) : 1;
    /* With fewer terms than planned, the rows of `a` in a slice are shorter. So take more rows at a
     * time. */
    if (kc < job->kc)
        job->mc = smaller(job->mc, most) * smaller(job->kc, most) / kc;
    job->kc = kc;
    job->mc = round_up(smaller(smaller(job->mc, job->m), most), kernel->mr);
    job->nc = round_up(smaller(smaller(job->nc, job->n), most), kernel->nr);
}

int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    const size_t mr = kernel->mr;
    const size_t nr = kernel->nr;
    /* Use blocks with equal numbers of rows: a short last block would read all of b for few
     * rows. */
    const size_t rows = pieces(m1 - m0, pieces(m1 - m0, smaller(job->mc, round_up(m1 - m0, mr))));
    const size_t mc = round_up(rows, mr);
    const size_t nc = job->b_packed ? n1 - n0 : smaller(job->nc, round_up(n1 - n0, nr));
    /* Read b in place if at most two tiles read each panel of b, because packing does not pay
     * then. */
    const char *const in_place = job->b_packed ? NULL : job->b_small || m1 - m0 <= 2 * mr ? job->b_in_place : NULL;
    const size_t whole = kernel->masked ? job->n : job->n / nr * nr;
    const int packs_b = !job->b_packed && !(in_place && whole == job->n);
    char *const packed_a = job->a_in_place ? NULL : sp_scratch(SP_SCRATCH_A, mc * job->kc * nbytes);
    char *const packed_b = packs_b ? sp_scratch(SP_SCRATCH_B, nc * job->kc * nbytes) : NULL;
    if ((!packed_a && !job->a_in_place) || (!packed_b && packs_b))
        return -ENOMEM;
    for (size_t jc = n0; jc < n1; jc += nc) {
        const size_t jend = smaller(jc + nc, n1);
        size_t p = 0;
        do { /* runs once even for k == 0, to write zeros, bias and activation */
            const size_t kc = smaller(job->kc, job->k - p);
            const size_t slice_at = p * round_up(job->n, nr);
            /* A panel of b with a single use is packed right before that use. */
            const int once = packs_b && m1 - m0 <= mc && !sp_gemm_writes_rows(job, jend - jc, kc);
            const struct sp_gemm_panels panels = {
                .packed = job->b_packed ? (const char *)job->b_packed + (slice_at + jc * kc) * nbytes : packed_b,
                .fresh = packed_b,
                .places = !once ? SIZE_MAX : kernel->asking != NULL,
                .in_place = in_place ? in_place + p * job->ldb * nbytes : NULL,
                .whole = whole,
            };
            sp_gemm_slice(job, m0, m1, jc, jend, p, kc, &panels, packed_a, mc);
            p += kc;
        } while (p < job->k);
    }
    return 0;
}

double sp_gemm_ns(double flops)
{
    return flops / 130;
}

uint32_t sp_gemm_threads(double flops, const struct sp_tile_plan *plan, const struct sp_pool *pool)
{
    return sp_pool_worth(pool, plan->threads, sp_gemm_ns(flops));
}

size_t sp_gemm_packed_elements(const struct sp_gemm_job *job)
{
    return job->k * round_up(job->n, job->kernel->nr);
}

struct packing {
    const struct sp_gemm_job *job;
    char *to;
    size_t panels; /* number of panels (of columns of b) in a slice of k */
};

static void pack_panel(void *ctx, uint32_t index)
{
    const struct packing *const packing = ctx;
    const struct sp_gemm_job *const job = packing->job;
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nr = kernel->nr;
    const size_t p = index / packing->panels * job->kc;
    const size_t j = index % packing->panels * nr;
    const size_t kc = smaller(job->kc, job->k - p);
    char *const to = packing->to + (p * round_up(job->n, nr) + j * kc) * kernel->nbytes;
    job->pack_b(job->b, j, smaller(nr, job->n - j), nr, p, kc, to);
}

void sp_gemm_pack(const struct sp_gemm_job *job, void *to, struct sp_pool *pool, uint32_t threads)
{
    struct packing packing = {job, to, pieces(job->n, job->kernel->nr)};
    sp_pool_run(pool, pack_panel, &packing, (uint32_t)(packing.panels * pieces(job->k, job->kc)), threads);
}

struct blocks {
    const struct sp_gemm_job *job;
    size_t rows, columns; /* number of rows, and of columns, of a task's block of c */
    size_t across;        /* number of blocks side by side, which together have n columns */
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

/* Divides c, in units of micro-tiles, into `down` x `across` blocks so that the largest block is as
 * small as possible. */
static void cut(struct blocks *blocks, const struct sp_gemm_job *job, size_t tasks)
{
    const size_t tall = pieces(job->m, job->kernel->mr);
    const size_t wide = pieces(job->n, job->kernel->nr);
    size_t least = SIZE_MAX;
    for (size_t down = 1; down <= tasks; down++) {
        const size_t rows = pieces(tall, down);
        const size_t columns = pieces(wide, pieces(tasks, down));
        if (rows * columns < least || (rows * columns == least && rows * job->kernel->mr >= columns * job->kernel->nr)) {
            least = rows * columns;
            blocks->rows = rows * job->kernel->mr;
            blocks->columns = columns * job->kernel->nr;
        }
    }
    blocks->across = pieces(job->n, blocks->columns);
}

int sp_gemm_run(const struct sp_gemm_job *given, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    struct sp_gemm_job job = *given;
    const double flops = 2.0 * (double)job.m * (double)job.n * (double)(job.k + 1);
    const uint32_t threads = sp_gemm_threads(flops, plan, pool);
    if (job.m == 0 || job.n == 0)
        return 0;
    if (threads == 1)
        return sp_gemm_block(&job, 0, job.m, 0, job.n);
    const uint32_t ready = sp_pool_ready(pool, threads, sp_gemm_ns(flops));
    const double shared = (double)job.k * (double)round_up(job.n, job.kernel->nr) * job.kernel->nbytes;
    const int packs = !job.b_packed && !(job.b_in_place && (job.b_small || job.m <= 2 * job.kernel->mr));
    if (packs && shared <= SP_GEMM_MOST_SHARED) {
        void *const to = sp_scratch(SP_SCRATCH_SHARED, (size_t)shared);
        if (!to)
            return -ENOMEM;
        sp_gemm_pack(&job, to, pool, ready);
        job.b_packed = to;
    }
    /* Use several blocks per thread, so that a late or preempted thread delays the others less. Use
     * two per thread if each is still large. Use four if two conditions hold: a block packs nothing
     * before its first tile, and it is worth passing to another thread (handed_ns). */
    struct blocks blocks = {.job = &job};
    const double large = 192 * 1024, handed_ns = 20000;
    const int bare = job.a_in_place && (job.b_packed || (job.b_in_place && job.b_small));
    const size_t several = bare && sp_gemm_ns(flops) / threads > 4 * handed_ns               ? 4
                           : (double)job.m * (double)job.n / threads > 2 * large ? 2
                                                                                 : 1;
    cut(&blocks, &job, several * threads);
    sp_pool_run(pool, one_block, &blocks, (uint32_t)(pieces(job.m, blocks.rows) * blocks.across), ready);
    return blocks.failed ? -ENOMEM : 0;
}
