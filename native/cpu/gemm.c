/* The loop nest of every matrix product. Written once for all types and instruction sets: it moves bytes, the functions
 * of a struct sp_gemm_kernel know what they are. gemm_args.c makes jobs of gemm_f32's and gemm_f64's arguments.
 *
 * c is cut into blocks, one or two a thread, and a task runs the whole nest over k for its block: the order of additions,
 * hence every bit of c, does not depend on how many threads there are. What of b has to be packed is packed first, by all
 * threads together; each packs the rows of a that it needs. */
#include "gemm.h"
#include "args.h"

#include <errno.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A c of this size is near; with so few terms there is no time to fetch it. */
enum { NEAR_NBYTES = 32 << 10, NEAR_TERMS = 16 };
enum { FEW_ROWS = 4, FEW_ROWS_KC = 8 };

/* With so few terms all the time goes into writing c, which is done along its rows if all of b stays in the second cache:
 * down a panel, each row is on a page of its own. */
enum { ALONG_TERMS = 32, ALONG_NBYTES = 256 << 10 };
/* With any number of terms, rows of c are better written, and tiles of a read, one after the other, if all of b stays in the
 * innermost cache. */
enum { INNERMOST_NBYTES = 16 << 10 };
/* And a c that is larger does not stay in a core's part of the last cache: it is stored past them, without being read. */
enum { PAST_NBYTES = 8 << 20 };

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
        const int whole = rows == kernel->mr;
        (whole && u->past         ? kernel->past
         : whole && u->ahead.runs ? kernel->asking
                                  : kernel->ukr[0][rows - 1])(u);
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
    const char *packed;   /* the slice's first panel */
    char *fresh;          /* packed, where a panel is packed when its turn first comes; NULL: all were before */
    size_t places;        /* a mask: panel x is in place x & places. 1, say: two that panels take turns in */
    const char *in_place; /* this slice of k, from column 0; NULL: all are packed */
    size_t whole;         /* columns from here on are packed all the same: nothing may be read behind them */
};

/* Where the nest is: tiles of mr rows, `tall` of them, in the block of rows [ic, iend) of [m0, m1); columns [j0, j1); terms
 * [p, p + kc). */
struct walk {
    const struct sp_gemm_job *job;
    const struct panels *panels;
    size_t ic, iend, m1, mr, tall;
    size_t j0, j1, p, kc;
    size_t panel_nbytes, lines; /* lines that a tile asks for */
    char *fresh, *packed_a; /* NULL: b is packed, a is read where it is */
};

static size_t panel_at(const struct walk *w, size_t across)
{
    return (across & w->panels->places) * w->panel_nbytes;
}

static int is_here(const struct walk *w, size_t j)
{
    return w->panels->in_place && j < w->panels->whole;
}

/* Lines that `nbytes` bytes may lie in. */
static size_t lines_of(size_t nbytes)
{
    return pieces(nbytes, 64) + 1;
}

/* Is the panel of column j packed in parts, one after each tile of the panel before it? A whole one at a time would come
 * from far away, and push itself out of the second cache where rows are a power of 2 apart. */
static int comes_in_parts(const struct walk *w, size_t j)
{
    return w->fresh && w->job->kernel->asking && w->job->b_in_place && j < w->j1 && !is_here(w, j);
}

/* The part that follows tile `down`: terms [*q, *q + returned). */
static size_t part_after(const struct walk *w, size_t down, size_t *q)
{
    const size_t part = round_up(pieces(w->kc, w->tall), 8);
    *q = smaller(down * part, w->kc);
    return smaller(part, w->kc - *q);
}

static void pack_b(const struct walk *w, size_t across, size_t q, size_t k)
{
    const struct sp_gemm_kernel *const kernel = w->job->kernel;
    const size_t j = w->j0 + across * kernel->nr;
    if (k)
        w->job->pack_b(w->job->b, j, smaller(kernel->nr, w->j1 - j), kernel->nr, w->p + q, k,
                       w->fresh + panel_at(w, across) + q * kernel->nr * kernel->nbytes);
}

/* Packs tile `down` of the block of rows [ic, iend), in tiles of mr rows, if there is one. */
static void pack_a(const struct walk *w, size_t ic, size_t iend, size_t mr, size_t down)
{
    const size_t i = ic + down * mr;
    const size_t rows = i < iend ? smaller(mr, iend - i) : 0;
    if (rows)
        w->job->pack_a(w->job->a, i, rows, rows, w->p, w->kc, w->packed_a + down * mr * w->kc * w->job->kernel->nbytes);
}

/* Lines of `count` rows of `row_nbytes` bytes, `apart` bytes apart: down the rows or along them. */
static struct sp_ahead down_rows(const void *at, size_t count, size_t apart, size_t row_nbytes, const char *rest)
{
    const struct sp_ahead ahead = {
        at, rest, count, lines_of(row_nbytes), (ptrdiff_t)apart, 64 - (ptrdiff_t)(count * apart),
    };
    return ahead;
}

static struct sp_ahead along_rows(const void *at, size_t count, size_t apart, size_t row_nbytes, const char *rest)
{
    const size_t lines = lines_of(row_nbytes);
    const struct sp_ahead ahead = {at, rest, lines, count, 64, (ptrdiff_t)apart - (ptrdiff_t)(lines * 64)};
    return ahead;
}

/* What is wanted after tile `down` of a panel, into the second cache while that is computed. */
static void ask(const struct walk *w, struct sp_ukr *u, size_t down, size_t across)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nbytes = job->kernel->nbytes;
    const size_t nr = job->kernel->nr;
    const size_t next = w->j0 + (across + 1) * nr;
    const char *const rest = u->b;
    const int asks = job->kernel->asking != NULL;
    if (!w->fresh && next < w->j1 && !is_here(w, next)) { /* the next panel, then, by one tile, the next tiles of c */
        const size_t from = down * w->lines * 64;
        const char *const panel = w->panels->packed + panel_at(w, across + 1);
        if (from < w->panel_nbytes) {
            u->ahead.at = panel + from;
            if (asks)
                u->ahead = along_rows(u->ahead.at, 1, 0, w->lines * 64, rest);
            return;
        }
        const size_t rows = w->iend - w->ic;
        if (asks && from < w->panel_nbytes + w->lines * 64 && rows * lines_of(nr * nbytes) <= w->lines)
            u->ahead = down_rows((const char *)job->c + (w->ic * job->rsc + next) * nbytes, rows, job->rsc * nbytes,
                                 nr * nbytes, rest);
    } else if (asks && next >= w->j1 && w->packed_a && job->a_rows) { /* the rows that are packed after this tile */
        const size_t i = w->iend + down * w->mr;
        if (i < w->m1)
            u->ahead = along_rows((const char *)job->a_rows + (i * job->rsa + w->p) * nbytes, smaller(w->mr, w->m1 - i),
                                  job->rsa * nbytes, w->kc * nbytes, rest);
    } else if (comes_in_parts(w, next)) {
        size_t q;
        const size_t part = part_after(w, down, &q);
        if (part)
            u->ahead = down_rows((const char *)job->b_in_place + ((w->p + q) * job->ldb + next) * nbytes, part,
                                 job->ldb * nbytes, nr * nbytes, rest);
    }
}

/* Is this slice of c written along its rows? */
static int goes_along(const struct sp_gemm_job *job, size_t columns, size_t kc)
{
    const double nbytes = (double)columns * (double)kc * job->kernel->nbytes;
    return (nbytes <= INNERMOST_NBYTES || (kc <= ALONG_TERMS && nbytes <= ALONG_NBYTES)) && is_far(job);
}

/* Equal tiles: a short last one costs as much. */
static size_t tile_rows(size_t rows, size_t most)
{
    return pieces(rows, pieces(rows, most));
}

/* The tile at row ic + down * mr, with `columns` columns from j on, of the panel `across`. */
static inline void compute(const struct walk *w, struct sp_ukr *u, size_t down, size_t across, size_t j, size_t columns,
                           int asks)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nbytes = job->kernel->nbytes;
    const size_t i = w->ic + down * w->mr;
    const size_t rows = smaller(w->mr, w->iend - i);
    if (is_here(w, j)) {
        u->b = w->panels->in_place + j * nbytes;
        u->ldb = job->ldb;
    } else {
        u->b = w->panels->packed + panel_at(w, across);
        u->ldb = job->kernel->nr;
    }
    if (w->packed_a) {
        u->a = w->packed_a + down * w->mr * w->kc * nbytes;
        u->csa = rows;
    } else {
        u->a = (const char *)job->a_in_place + (w->p * job->csa + i * job->rsa) * nbytes;
    }
    u->ahead.at = u->b;
    u->ahead.runs = 0;
    if (asks)
        ask(w, u, down, across);
    tile(job, u, i, rows, j, columns, w->p + w->kc == job->k);
}

static void pack_panels(struct walk *w)
{
    const size_t nr = w->job->kernel->nr;
    for (size_t j = w->j0; w->fresh && j < w->j1; j += nr)
        if (!is_here(w, j))
            pack_b(w, (j - w->j0) / nr, 0, w->kc);
    w->fresh = NULL;
}

/* Down the panels, one after the other: each panel of b, and each tile of a, is packed right before its first use, which
 * finds it in a near cache. */
static void down_panels(struct walk *w, struct sp_ukr *u, size_t m0, size_t mc, size_t most)
{
    const size_t nr = w->job->kernel->nr;
    const size_t wide = pieces(w->j1 - w->j0, nr);
    for (w->ic = m0; w->ic < w->m1; w->ic += mc, w->fresh = NULL) {
        w->iend = smaller(w->ic + mc, w->m1);
        w->mr = tile_rows(w->iend - w->ic, most);
        w->tall = pieces(w->iend - w->ic, w->mr);
        const size_t after = smaller(w->iend + mc, w->m1);
        for (size_t across = 0; across < wide; across++) {
            const size_t j = w->j0 + across * nr;
            const int parts = comes_in_parts(w, j + nr);
            if (w->fresh && !is_here(w, j) && (across == 0 || !comes_in_parts(w, j)))
                pack_b(w, across, 0, w->kc);
            for (size_t down = 0; down < w->tall; down++) {
                if (w->packed_a && across == 0 && w->ic == m0)
                    pack_a(w, w->ic, w->iend, w->mr, down);
                compute(w, u, down, across, j, smaller(nr, w->j1 - j), 1);
                if (parts) {
                    size_t q;
                    const size_t part = part_after(w, down, &q);
                    pack_b(w, across + 1, q, part);
                }
                /* The last use of this tile of a: its place is free for what the next block has there. */
                if (w->packed_a && across + 1 == wide && w->iend < w->m1)
                    pack_a(w, w->iend, after, tile_rows(after - w->iend, most), down);
            }
        }
    }
}

/* Can whole tiles be stored past the caches? Their rows have to be lines, and nobody may want c again. */
static int goes_past(const struct walk *w)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nbytes = job->kernel->nbytes;
    return job->kernel->past && w->kc == job->k && (double)job->m * (double)job->n * (double)nbytes >= PAST_NBYTES &&
           w->panels->in_place && w->panels->whole == job->n && job->rsc * nbytes % 64 == 0 && (uintptr_t)job->c % nbytes == 0 &&
           !job->bias_rows && !job->bias_columns && job->act == SP_ACT_NONE;
}

/* Along the rows of c, a row of tiles after the other. */
static void along_rows_of_c(struct walk *w, struct sp_ukr *u, size_t m0, size_t mc, size_t most)
{
    const size_t nr = w->job->kernel->nr;
    const size_t nbytes = w->job->kernel->nbytes;
    u->past = goes_past(w);
    /* Columns before the first that begins a line, all of b being in place: numpy's arrays begin 16 bytes behind one. */
    const size_t behind = (uintptr_t)((const char *)w->job->c + w->j0 * nbytes) % 64;
    const size_t lead = u->past && behind ? (64 - behind) / nbytes : nr;
    pack_panels(w);
    for (w->ic = m0; w->ic < w->m1; w->ic += mc) {
        w->iend = smaller(w->ic + mc, w->m1);
        w->mr = tile_rows(w->iend - w->ic, most);
        w->tall = pieces(w->iend - w->ic, w->mr);
        for (size_t down = 0; down < w->tall; down++) {
            if (w->packed_a)
                pack_a(w, w->ic, w->iend, w->mr, down);
            for (size_t j = w->j0, across = 0, columns; j < w->j1; j += columns, across++) {
                columns = smaller(across ? nr : lead, w->j1 - j);
                compute(w, u, down, across, j, columns, 0);
            }
        }
    }
#if defined(__x86_64__)
    if (u->past)
        _mm_sfence(); /* such stores are in no order with those that tell other threads that c is there */
#endif
}

/* Rows [m0, m1), columns [j0, j1), terms [p, p + kc). */
static void slice(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t j0, size_t j1, size_t p, size_t kc,
                  const struct panels *panels, char *packed_a, size_t mc)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t most = job->most_rows ? smaller(job->most_rows, kernel->mr) : kernel->mr;
    const int along = goes_along(job, j1 - j0, kc);
    struct sp_ukr u = {.k = kc, .rsc = job->rsc, .add = p > 0, .far = kc >= NEAR_TERMS && !along && is_far(job)};
    struct walk w = {job, panels, m0, m1, m1, 0, 0, j0, j1, p, kc, kernel->nr * kc * kernel->nbytes,
                     pieces(kc, kernel->terms), panels->fresh, packed_a};
    u.rsa = packed_a ? 1 : job->rsa;
    u.csa = job->csa;
    if (along)
        along_rows_of_c(&w, &u, m0, mc, most);
    else
        down_panels(&w, &u, m0, mc, most);
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
            /* Panels that are passed over once are best used where they have just been packed. */
            const int once = packs_b && m1 - m0 <= mc && !goes_along(job, jend - jc, kc);
            const struct panels panels = {
                .packed = job->b_packed ? (const char *)job->b_packed + (slice_at + jc * kc) * nbytes : packed_b,
                .fresh = packed_b,
                .places = !once ? SIZE_MAX : kernel->asking != NULL,
                .in_place = in_place ? in_place + p * job->ldb * nbytes : NULL,
                .whole = whole,
            };
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
