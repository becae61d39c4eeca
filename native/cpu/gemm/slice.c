/* The inner loops of a matrix product c = a b. Panels of b and tiles of `a` are packed right before
 * their first use; the next ones are prefetched while the micro-kernel computes. */
#include "slice.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* c is prefetched only if it has more than NEAR_NBYTES bytes and each sum at least NEAR_TERMS
 * terms. A smaller c is in a near cache. With fewer terms a prefetch would not arrive in time. */
enum { NEAR_NBYTES = 32 << 10, NEAR_TERMS = 16 };
/* With up to ALONG_TERMS terms all the time goes into writing c. If b has at most ALONG_NBYTES it
 * stays in L2, and c is written row by row. If c were written panel by panel, each store would go
 * to another row, and so to another page. */
enum { ALONG_TERMS = 32, ALONG_NBYTES = 256 << 10 };
/* If b has at most this many bytes it stays in L1. The loops then go along the rows of c for any
 * number of terms. So c is written in order, and `a` is read in order. */
enum { INNERMOST_NBYTES = 16 << 10 };
/* A result c of at least this many bytes does not stay in a core's part of L3. It is stored past
 * the caches, without being read. */
enum { PAST_NBYTES = 8 << 20 };
/* MANY_TILES: from this number of full tiles on, every tile but the last has the maximum of rows.
 * With fewer full tiles, rows are divided evenly among the tiles. UNFINISHED: the maximum number of
 * neighbouring tiles that are computed before bias and activation are applied to them. */
enum { MANY_TILES = 4, UNFINISHED = 8 };

/* Applies bias and activation to a part of c whose sums are complete. */
static void finish(const struct sp_gemm_job *job, size_t i, size_t rows, size_t j, size_t columns)
{
    const size_t nbytes = job->kernel->nbytes;
    const struct sp_gemm_finish how = {
        job->bias_rows ? (const char *)job->bias_rows + i * nbytes : NULL,
        job->bias_columns ? (const char *)job->bias_columns + j * nbytes : NULL,
        job->act,
    };
    job->kernel->finish((char *)job->c + (i * job->rsc + j) * nbytes, job->rsc, rows, columns, &how);
}

static int is_finished(const struct sp_gemm_job *job)
{
    return !job->bias_rows && !job->bias_columns && job->act == SP_ACT_NONE;
}

/* Computes one micro-tile of c. The caller has set up `u` except for the tile's size. If `last` is
 * not 0, the sums are complete after this call, so bias and activation follow. */
static void tile(const struct sp_gemm_job *job, struct sp_ukr *u, size_t i, size_t rows, size_t j, size_t columns,
                 int last)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t nbytes = kernel->nbytes;
    char *const c = (char *)job->c + (i * job->rsc + j) * nbytes;
    u->c = c;
    u->columns = columns;
    if (columns == kernel->nr) {
        (rows == kernel->mr && u->ahead.runs ? kernel->asking : kernel->ukr[0][rows - 1])(u);
    } else if (kernel->masked) {
        kernel->ukr[sp_gemm_variant(kernel, columns)][rows - 1](u);
    } else {
        double edge[SP_GEMM_MAX_TILE];
        struct sp_ukr whole = *u;
        whole.c = edge;
        whole.rsc = kernel->nr;
        whole.add = 0;
        kernel->ukr[0][rows - 1](&whole);
        kernel->merge(c, job->rsc, edge, kernel->nr, rows, columns, u->add);
    }
    if (last && !is_finished(job))
        finish(job, i, rows, j, columns);
}

static int is_far(const struct sp_gemm_job *job)
{
    return (double)job->m * (double)job->n * job->kernel->nbytes > NEAR_NBYTES;
}

/* The position of the loops: rows [ic, iend) of a block that ends at row m1, in `tall` tiles of mr
 * rows; columns [j0, j1); terms [p, p + kc). */
struct walk {
    const struct sp_gemm_job *job;
    const struct sp_gemm_panels *panels;
    size_t ic, iend, m1, mr, tall;
    size_t j0, j1, p, kc;
    /* bytes of a panel of b; number of cache lines that a tile prefetches */
    size_t panel_nbytes, lines;
    /* fresh: memory for panels of b; NULL if b was packed before the loops. packed_a: memory for
     * tiles of `a`; NULL if `a` is read in place. */
    char *fresh, *packed_a;
};

static size_t panel_at(const struct walk *w, size_t across)
{
    return (across & w->panels->places) * w->panel_nbytes;
}

static int is_here(const struct walk *w, size_t j)
{
    return w->panels->in_place && j < w->panels->whole;
}

/* Returns the largest number of cache lines that `nbytes` bytes can touch. */
static size_t lines_of(size_t nbytes)
{
    return pieces(nbytes, 64) + 1;
}

/* Returns 1 if the panel of column j is packed in parts, one part after each tile of the previous
 * panel. A whole panel at once would have to be read from beyond the near caches. If rows are a
 * power of 2 apart, such a panel would evict itself from L2. */
static int comes_in_parts(const struct walk *w, size_t j)
{
    return w->fresh && w->job->kernel->asking && w->job->b_in_place && j < w->j1 && !is_here(w, j);
}

/* Finds which part of the next panel of b to pack after tile `down`. Stores the first term of the
 * part in `*q`, and returns the number of its terms. */
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

/* Packs tile `down` of rows [ic, iend) of operand `a`, if this tile exists. Tiles have mr rows. */
static void pack_a(const struct walk *w, size_t ic, size_t iend, size_t mr, size_t down)
{
    const size_t i = ic + down * mr;
    const size_t rows = i < iend ? smaller(mr, iend - i) : 0;
    if (rows)
        w->job->pack_a(w->job->a, i, rows, rows, w->p, w->kc, w->packed_a + down * mr * w->kc * w->job->kernel->nbytes);
}

/* down_rows and along_rows return a description of a prefetch: `count` rows of `row_nbytes` bytes
 * that begin `apart` bytes apart. down_rows takes the first cache line of each row, then the
 * second. along_rows takes one row after the other. */
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

/* Sets u->ahead to the data that tile `down` of a panel prefetches to L2, because the tiles after
 * it need them. */
static void ask(const struct walk *w, struct sp_ukr *u, size_t down, size_t across)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nbytes = job->kernel->nbytes;
    const size_t nr = job->kernel->nr;
    const size_t next = w->j0 + (across + 1) * nr;
    const char *const rest = u->b;
    const int asks = job->kernel->asking != NULL;
    /* Each tile prefetches a part of the next panel of b. After the last part, one more tile
     * prefetches the tiles of c in the columns of that panel. */
    if (!w->fresh && next < w->j1 && !is_here(w, next)) {
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
    } else if (asks && next >= w->j1 && w->packed_a && job->a_rows) {
        /* prefetch the rows of `a` that are packed next */
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

int sp_gemm_writes_rows(const struct sp_gemm_job *job, size_t columns, size_t kc)
{
    const double nbytes = (double)columns * (double)kc * job->kernel->nbytes;
    return (nbytes <= INNERMOST_NBYTES || (kc <= ALONG_TERMS && nbytes <= ALONG_NBYTES)) && is_far(job);
}

/* Finds the operands of a tile: for `a`, `rows` rows from row i on, which are tile `down`; for b,
 * the columns from j on, which are panel `across`. */
static inline void find(const struct walk *w, struct sp_ukr *u, size_t i, size_t rows, size_t down, size_t across, size_t j)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nbytes = job->kernel->nbytes;
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
}

/* Computes the tile at row ic + down * mr, with `columns` columns from j on, of panel `across`. If
 * `asks` is not 0, prefetches data of later tiles. */
static inline void compute(const struct walk *w, struct sp_ukr *u, size_t down, size_t across, size_t j, size_t columns,
                           int asks)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t i = w->ic + down * w->mr;
    const size_t rows = smaller(w->mr, w->iend - i);
    find(w, u, i, rows, down, across, j);
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

/* Computes down the panels of b, one panel after the other. Each panel of b, and each tile of `a`,
 * is packed right before its first use, so that this use finds it in a near cache. */
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
                /* This was the last use of this packed tile of `a`. So overwrite it with the tile
                 * at the same place in the next block of rows. */
                if (w->packed_a && across + 1 == wide && w->iend < w->m1)
                    pack_a(w, w->iend, after, tile_rows(after - w->iend, most), down);
            }
        }
    }
}

/* Returns 1 if whole tiles can be stored past the caches. Their rows must be whole cache lines, and
 * no later step may read c. */
static int goes_past(const struct walk *w)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nbytes = job->kernel->nbytes;
    return job->kernel->along && w->kc == job->k && (double)job->m * (double)job->n * (double)nbytes >= PAST_NBYTES &&
           w->panels->in_place && w->panels->whole == job->n && job->rsc * nbytes % 64 == 0 &&
           (uintptr_t)job->c % nbytes == 0 && is_finished(job);
}

/* Computes neighbouring whole tiles of mr rows, from column j of c on. Returns how many columns of
 * c these tiles have. If bias and activation follow, it computes few tiles, so that these are still
 * in a near cache when bias and activation read them. */
static size_t whole_tiles(const struct walk *w, struct sp_ukr *u, size_t down, size_t across, size_t j)
{
    const struct sp_gemm_job *const job = w->job;
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t i = w->ic + down * w->mr;
    const size_t tiles = (w->j1 - j) / kernel->nr;
    const int ends = w->p + w->kc == job->k && !is_finished(job);
    find(w, u, i, w->mr, down, across, j);
    u->c = (char *)job->c + (i * job->rsc + j) * kernel->nbytes;
    u->b_step = is_here(w, j) ? (size_t)kernel->nr * kernel->nbytes : w->panel_nbytes;
    u->tiles = ends ? smaller(tiles, UNFINISHED) : tiles;
    kernel->along(u);
    if (ends)
        finish(job, i, w->mr, j, u->tiles * kernel->nr);
    return u->tiles * kernel->nr;
}

/* Copies the panels of b from column j on, so that each of their rows begins at the start of a
 * cache line, as c's tiles do. Rows that begin elsewhere cost a quarter more time. Returns NULL if
 * they are aligned already or memory is short. */
static char *begin_lines(const struct walk *w, size_t j)
{
    const struct sp_gemm_job *const job = w->job;
    const size_t nr = job->kernel->nr;
    const size_t nbytes = job->kernel->nbytes;
    if ((uintptr_t)(w->panels->in_place + j * nbytes) % 64 == 0 && job->ldb * nbytes % 64 == 0)
        return NULL;
    char *const to = sp_scratch(SP_SCRATCH_B, pieces(w->j1 - j, nr) * w->panel_nbytes);
    for (size_t at = j, x = 0; to && at < w->j1; at += nr, x++)
        job->pack_b(job->b, at, smaller(nr, w->j1 - at), nr, w->p, w->kc, to + x * w->panel_nbytes);
    return to;
}

/* Computes the tiles of c, one row of tiles after the other. */
static void along_rows_of_c(struct walk *w, struct sp_ukr *u, size_t m0, size_t mc, size_t most)
{
    const struct sp_gemm_kernel *const kernel = w->job->kernel;
    const size_t nr = kernel->nr;
    const size_t nbytes = kernel->nbytes;
    const int several = kernel->along && most == kernel->mr;
    u->past = goes_past(w);
    /* The first tile has `lead` columns. If c is stored past the caches, the first tile ends where
     * a cache line begins; numpy's arrays begin 16 bytes after the start of a line. Otherwise the
     * first tile is a whole one. */
    const size_t behind = (uintptr_t)((const char *)w->job->c + w->j0 * nbytes) % 64;
    const size_t lead = u->past && behind ? (64 - behind) / nbytes : nr;
    pack_panels(w);
    const size_t from = w->j0 + (lead < nr ? smaller(lead, w->j1 - w->j0) : 0);
    char *const lines = u->past ? begin_lines(w, from) : NULL;
    const struct sp_gemm_panels *const given = w->panels;
    const struct sp_gemm_panels lined = {.packed = lines, .places = SIZE_MAX};
    for (w->ic = m0; w->ic < w->m1; w->ic += mc) {
        w->iend = smaller(w->ic + mc, w->m1);
        w->mr = several && w->iend - w->ic >= MANY_TILES * most ? most : tile_rows(w->iend - w->ic, most);
        w->tall = pieces(w->iend - w->ic, w->mr);
        for (size_t down = 0; down < w->tall; down++) {
            const int whole = several && w->mr == most && w->ic + (down + 1) * most <= w->iend;
            if (w->packed_a)
                pack_a(w, w->ic, w->iend, w->mr, down);
            for (size_t j = w->j0, columns; j < w->j1; j += columns) {
                /* number of the panel of b; read only if panels are packed */
                const size_t across = (j - (lines ? from : w->j0)) / nr;
                w->panels = lines && j >= from ? &lined : given;
                columns = smaller(j > w->j0 ? nr : lead, w->j1 - j);
                if (whole && columns == nr)
                    columns = whole_tiles(w, u, down, across, j);
                else
                    compute(w, u, down, across, j, columns, 0);
            }
        }
    }
#if defined(__x86_64__)
    if (u->past)
        /* Complete the streaming stores before later stores tell other threads that c is done. */
        _mm_sfence();
#endif
}

void sp_gemm_slice(const struct sp_gemm_job *job, size_t m0, size_t m1, size_t j0, size_t j1, size_t p, size_t kc,
                   const struct sp_gemm_panels *panels, char *packed_a, size_t mc)
{
    const struct sp_gemm_kernel *const kernel = job->kernel;
    const size_t most = job->most_rows ? smaller(job->most_rows, kernel->mr) : kernel->mr;
    const int along = sp_gemm_writes_rows(job, j1 - j0, kc);
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
