/* The loop nest of every matrix product. Written once for all types and instruction sets: it moves bytes, the functions
 * of a struct sp_gemm_kernel know what they are. gemm_args.c makes jobs of gemm_f32's and gemm_f64's arguments.
 *
 * c is cut into blocks, one or two a thread, and a task runs the whole nest over k for its block: the order of additions,
 * hence every bit of c, does not depend on how many threads there are. What of b has to be packed is packed first, by all
 * threads together; each packs the rows of a that it needs. */
#include "gemm.h"
#include "args.h"

#include <errno.h>

/* A c of this size is near; with so few terms there is no time to fetch it. */
enum { NEAR_NBYTES = 32 << 10, NEAR_TERMS = 16 };
enum { FEW_ROWS = 4, FEW_ROWS_KC = 8 };
/* With so few terms all the time goes into writing c, which is done along its rows if all of b stays in the second cache:
 * down a panel, each row is on a page of its own. */
enum { ALONG_TERMS = 32, ALONG_NBYTES = 256 << 10 };

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
    /* A plan may ask for anything; beyond the matrix it would only waste scratch. Equal slices beat a short last. */
    const size_t most = 1 << 16; /* so that no product of these sizes overflows */
    const size_t kc = job->k ? pieces(job->k, pieces(job->k, smaller(job->kc, most))) : 1;
    if (kc < job->kc) /* shorter rows: as many more of them fit into the cache */
        job->mc = smaller(job->mc, most) * smaller(job->kc, most) / kc;
    job->kc = kc;
    job->mc = round_up(smaller(smaller(job->mc, job->m), most), kernel->mr);
    job->nc = round_up(smaller(smaller(job->nc, job->n), most), kernel->nr);
}

/* One micro-tile of c, `u` but for what depends on its size. `last`: k is done, bias and activation follow. */
static void tile(const struct sp_gemm_job *job, struct sp_ukr *u, size_t i, size_t rows, size_t j, size_t columns,
                 int last)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    char *const c = (char *)job->c + (i * job->rsc + j) * nbytes;
    u->c = c;
    u->columns = columns;
    if (columns == kernel->nr) {
        kernel->ukr[0][rows - 1](u);
    } else if (kernel->masked) {
        kernel->ukr[pieces(columns, kernel->nr / kernel->masked)][rows - 1](u);
    } else {
        double edge[SP_GEMM_MAX_TILE];
        struct sp_ukr whole = *u;
        whole.c = edge;
        whole.rsc = kernel->nr;
        whole.add = 0;
        kernel->ukr[0][rows - 1](&whole);
        kernel->merge(c, job->rsc, edge, kernel->nr, rows, columns, u->add);
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

static int is_far(const struct sp_gemm_job *job)
{
    return (double)job->m * (double)job->n * job->kernel->nbytes > NEAR_NBYTES;
}

/* Where the nest finds a panel of b. */
struct panels {
    const char *packed;  /* panel of column j at packed + (j - first) * kc */
    size_t first;
    const char *in_place; /* this slice of k, from column 0; NULL: all are packed */
    size_t whole;         /* columns from here on are packed all the same: nothing may be read behind them */
    char *one;            /* a panel that is not in place is packed here when its turn comes; NULL: all were before */
};

/* Is this slice of c written along its rows? */
static int goes_along(const struct sp_gemm_job *job, size_t columns, size_t kc)
{
    return kc <= ALONG_TERMS && (double)columns * (double)kc * job->kernel->nbytes <= ALONG_NBYTES && is_far(job);
}

/* Rows [m0, m1), columns [j0, j1), terms [p, p + kc). */
static void slice(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t j0, size_t j1, size_t p, size_t kc,
                  const struct panels *panels, char *packed_a, size_t mc)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    const size_t nr = kernel->nr;
    const size_t most = job->most_rows ? smaller(job->most_rows, kernel->mr) : kernel->mr;
    const char *const a = job->a_in_place ? (const char *)job->a_in_place + p * job->csa * nbytes : NULL;
    const int last = p + kc == job->k;
    const int along = goes_along(job, j1 - j0, kc);
    const size_t lines = pieces(kc, kernel->terms); /* that a tile asks for ahead */
    struct sp_ukr u = {.k = kc, .rsc = job->rsc, .add = p > 0, .far = kc >= NEAR_TERMS && !along && is_far(job)};
    for (size_t ic = m0; ic < m1; ic += mc) {
        const size_t iend = smaller(ic + mc, m1);
        const size_t mr = pieces(iend - ic, pieces(iend - ic, most)); /* equal tiles: a short last one costs as much */
        for (size_t i = ic; !a && i < iend; i += mr) {
            const size_t rows = smaller(mr, iend - i);
            job->pack_a(job->a, i, rows, rows, p, kc, packed_a + (i - ic) * kc * nbytes);
        }
        const size_t tall = pieces(iend - ic, mr);
        const size_t wide = pieces(j1 - j0, nr);
        for (size_t outer = 0; outer < (along ? tall : wide); outer++)
            for (size_t inner = 0; inner < (along ? wide : tall); inner++) {
                const size_t down = along ? outer : inner;
                const size_t i = ic + down * mr;
                const size_t j = j0 + (along ? inner : outer) * nr;
                const size_t rows = smaller(mr, iend - i);
                const size_t columns = smaller(nr, j1 - j);
                const int here = panels->in_place && j < panels->whole;
                const int one = panels->one && !here;
                if (one && down == 0)
                    job->pack_b(job->b, j, columns, nr, p, kc, panels->one);
                u.b = here  ? panels->in_place + j * nbytes
                      : one ? panels->one
                            : panels->packed + (j - panels->first) * kc * nbytes;
                u.ldb = here ? job->ldb : nr;
                /* A part of the panel that comes after this one, as long as there is one for each tile. */
                const size_t part = down * lines * 64;
                const int follows = !here && !one && !along && part <= nr * kc * nbytes;
                u.ahead = (const char *)u.b + (follows ? nr * kc * nbytes + part : 0);
                u.a = a ? a + i * job->rsa * nbytes : packed_a + (i - ic) * kc * nbytes;
                u.rsa = a ? job->rsa : 1;
                u.csa = a ? job->csa : rows;
                tile(job, &u, i, rows, j, columns, last);
            }
    }
}

int sp_gemm_block(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t n0, size_t n1)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    const size_t mr = kernel->mr;
    const size_t nr = kernel->nr;
    /* Equal blocks of rows: a short last one would pass over all of b for little. */
    const size_t rows = pieces(m1 - m0, pieces(m1 - m0, smaller(job->mc, round_up(m1 - m0, mr))));
    const size_t mc = round_up(rows, mr);
    const size_t nc = job->b_packed ? n1 - n0 : smaller(job->nc, round_up(n1 - n0, nr));
    /* A panel of b that only two tiles would read is not worth packing. */
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
        do { /* once even for k == 0, which writes zeros, bias and activation */
            const size_t kc = smaller(job->kc, job->k - p);
            const size_t slice_at = p * round_up(job->n, nr);
            const struct panels panels = {
                job->b_packed ? (const char *)job->b_packed + slice_at * nbytes : packed_b,
                job->b_packed ? 0 : jc,
                in_place ? in_place + p * job->ldb * nbytes : NULL,
                whole,
                /* A panel that is passed over once is best used while it is in the innermost cache. */
                packs_b && m1 - m0 <= mc && !goes_along(job, jend - jc, kc) ? packed_b : NULL,
            };
            for (size_t j = jc; packs_b && !panels.one && j < jend; j += nr)
                if (!in_place || j >= whole)
                    job->pack_b(job->b, j, smaller(nr, jend - j), nr, p, kc, packed_b + (j - jc) * kc * nbytes);
            slice(job, m0, m1, jc, jend, p, kc, &panels, packed_a, mc);
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
    size_t panels; /* in a slice */
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

/* Cuts c so that the largest block is as small as can be: in micro-tiles, `down` blocks by `across`. */
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
    /* Two blocks a thread when they stay large, so that one that loses its core for a while holds up the others less. */
    struct blocks blocks = {.job = &job};
    const double large = 192 * 1024;
    cut(&blocks, &job, (double)job.m * (double)job.n / threads > 2 * large ? 2 * (size_t)threads : threads);
    sp_pool_run(pool, one_block, &blocks, (uint32_t)(pieces(job.m, blocks.rows) * blocks.across), ready);
    return blocks.failed ? -ENOMEM : 0;
}
