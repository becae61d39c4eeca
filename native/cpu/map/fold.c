/* Reduces the elements of a map as they are computed: [outer, n, inner] to [outer, inner], without
 * storing the map.
 *
 * The elements are divided into pieces, which threads reduce. The shape and the program alone
 * determine the pieces, not the number of threads. Partial results are joined in a fixed order. So
 * the same input gives the same bits for any number of threads. */
#include "map.h"

#include <errno.h>
#include <string.h>

enum { PIECE = 1 << 16, FEW = 64, WIDE = 256 };

struct fold_job {
    struct sp_map_job *job;
    const struct sp_map_folds *f;
    /* The map has the shape [outer, n, inner] and is reduced along n. `count` is the divisor if the
     * reduction is a mean, else 0. */
    uint64_t outer, n, inner, count;
    /* number of columns (indices in dimension `inner`) that one call of one_piece reduces */
    uint64_t columns;
    uint64_t column_runs;
    /* number of rows (indices in dimension n) that one call of one_piece reduces; the last call may
     * have fewer */
    uint64_t rows;
    uint64_t row_runs;
    uint64_t pieces, per_task;
    /* partial results [row_runs][outer * inner], if the rows are divided into row_runs > 1
     * ranges */
    char *partial;
    uint32_t y_nbytes;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Only for inner == 1, where the map has the shape [outer, n]: reduces elements [r0, r1) of row `o`
 * to acc[0]. */
static void along(const struct fold_job *f, struct sp_map_thread *t, uint64_t o, uint64_t r0, uint64_t r1, void *acc)
{
    f->f->first(acc, SP_MAP_LANES);
    uint64_t at = o * f->n + r0;
    const uint64_t end = o * f->n + r1;
    while (at < end) {
        const size_t count = sp_map_step(f->job, at, end - at);
        f->f->run(acc, sp_map_block(f->job, t, at, count, NULL, 0), count);
        at += count;
    }
    f->f->join(acc);
}

/* Reduces rows [r0, r1) in columns [i0, i1) to acc[0 .. i1 - i0), for index `o` of the outer
 * dimension. */
static void across(const struct fold_job *f, struct sp_map_thread *t, uint64_t o, uint64_t r0, uint64_t r1, uint64_t i0,
                   uint64_t i1, void *acc)
{
    const size_t width = (size_t)(i1 - i0);
    if (width < f->inner || 2 * f->inner > f->job->block) {
        f->f->first(acc, width);
        for (uint64_t r = r0; r < r1; r++)
            f->f->rows(acc, sp_map_block(f->job, t, (o * f->n + r) * f->inner + i0, width, NULL, 0), 1, width);
        return;
    }
    /* Short rows are contiguous in the iteration space. So `together` rows count as one long row,
     * and a block has several long rows. */
    const size_t together = width < WIDE && r1 - r0 >= 8 ? WIDE / width : 1;
    const size_t wide = together * width;
    f->f->first(acc, wide);
    uint64_t at = (o * f->n + r0) * width;
    const uint64_t end = (o * f->n + r1) * width;
    while (at < end) {
        const size_t count = (size_t)smaller(f->job->block / wide * wide, end - at);
        const char *const found = sp_map_block(f->job, t, at, count, NULL, 0);
        const size_t full = count / wide * wide;
        f->f->rows(acc, found, count / wide, wide);
        f->f->rows(acc, found + full * sp_map_result_nbytes(f->job), 1,
                   count - full);
        at += count;
    }
    for (size_t k = 1; k < together; k++)
        f->f->merge(acc, (const char *)acc + k * width * f->f->nbytes, width);
}

static void one_piece(const struct fold_job *f, struct sp_map_thread *t, uint64_t piece)
{
    const uint64_t column = piece % f->column_runs;
    const uint64_t run = piece / f->column_runs % f->row_runs;
    const uint64_t o = piece / f->column_runs / f->row_runs;
    const uint64_t i0 = column * f->columns;
    const uint64_t i1 = smaller(i0 + f->columns, f->inner);
    const uint64_t r0 = run * f->rows;
    const uint64_t r1 = smaller(r0 + f->rows, f->n);
    if (f->inner == 1)
        along(f, t, o, r0, r1, t->extra);
    else
        across(f, t, o, r0, r1, i0, i1, t->extra);
    const uint64_t at = o * f->inner + i0;
    if (f->partial)
        memcpy(f->partial + (run * f->outer * f->inner + at) * f->f->nbytes, t->extra, (i1 - i0) * f->f->nbytes);
    else
        f->f->store(f->job->y.base + at * f->y_nbytes, t->extra, (size_t)(i1 - i0), (size_t)f->count);
}

/* Reduces short rows to one result each, for indices [o0, o1) of the outer dimension. A block of
 * elements has several rows. */
static void short_rows(const struct fold_job *f, struct sp_map_thread *t, uint64_t o0, uint64_t o1)
{
    const uint32_t nbytes = sp_map_result_nbytes(f->job);
    const uint64_t each = f->job->block / f->n;
    for (uint64_t o = o0; o < o1; o += each) {
        const uint64_t rows = smaller(each, o1 - o);
        const char *const found = sp_map_block(f->job, t, o * f->n, (size_t)(rows * f->n), NULL, 0);
        for (uint64_t k = 0; k < rows; k++) {
            f->f->first(t->extra, f->n < SP_MAP_LANES ? f->n : SP_MAP_LANES);
            if (f->n < SP_MAP_LANES) { /* fewer elements than lanes: reduce one by one */
                f->f->first(t->extra, 1);
                for (uint64_t i = 0; i < f->n; i++)
                    f->f->rows(t->extra, found + (k * f->n + i) * nbytes, 1, 1);
            } else {
                f->f->run(t->extra, found + k * f->n * nbytes, (size_t)f->n);
                f->f->join(t->extra);
            }
            f->f->store(f->job->y.base + (o + k) * f->y_nbytes, t->extra, 1, (size_t)f->count);
        }
    }
}

static void task(void *ctx, uint32_t index)
{
    const struct fold_job *const f = ctx;
    struct sp_map_thread t;
    const size_t accumulators = f->columns > SP_MAP_MOST_BLOCK ? (size_t)f->columns : SP_MAP_MOST_BLOCK;
    if (sp_map_begin(f->job, &t, accumulators * 8)) {
        __atomic_store_n(&f->job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const uint64_t begin = index * f->per_task;
    const uint64_t end = smaller(begin + f->per_task, f->pieces);
    if (f->inner == 1 && f->row_runs == 1 && 2 * f->n <= f->job->block) {
        short_rows(f, &t, begin, end);
        return;
    }
    for (uint64_t p = begin; p < end; p++)
        one_piece(f, &t, p);
}

static void combine(const struct fold_job *f)
{
    const uint64_t results = f->outer * f->inner;
    for (uint64_t run = 1; run < f->row_runs; run++)
        f->f->merge(f->partial, f->partial + run * results * f->f->nbytes, (size_t)results);
    f->f->store(f->job->y.base, f->partial, (size_t)results, (size_t)f->count);
}

int sp_map_fold(struct sp_map_job *job, uint32_t fold, uint64_t outer, uint64_t n, uint64_t inner,
                const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const uint32_t type = sp_map_result(job);
    const uint32_t kind = fold == SP_MAP_FOLD_MEAN ? SP_MAP_FOLD_SUM : fold;
    struct fold_job f = {.job = job, .f = &job->table->fold[kind][type], .outer = outer, .n = n, .inner = inner};
    if (outer * inner == 0)
        return 0;
    f.count = fold == SP_MAP_FOLD_MEAN ? n : 0;
    f.y_nbytes = sp_map_nbytes(job->y.type);
    f.columns = smaller(inner, job->block);
    f.column_runs = (inner + f.columns - 1) / f.columns;
    f.rows = n;
    f.row_runs = 1;
    const uint64_t independent = outer * f.column_runs;
    /* If there are few results and each reduces many rows, divide the rows among the pieces too,
     * not only the results. */
    if (independent < FEW && n * f.columns > 2 * (uint64_t)PIECE) {
        f.rows = PIECE / f.columns;
        f.row_runs = (n + f.rows - 1) / f.rows;
        f.partial = sp_scratch(SP_SCRATCH_C, f.row_runs * outer * inner * f.f->nbytes);
        if (!f.partial)
            return -ENOMEM;
    }
    f.pieces = independent * f.row_runs;
    const uint64_t elements = f.rows * f.columns;
    f.per_task = elements >= PIECE ? 1 : PIECE / (elements + 1) + 1;
    while ((f.pieces + f.per_task - 1) / f.per_task > UINT32_MAX)
        f.per_task *= 2;
    const uint32_t tasks = (uint32_t)((f.pieces + f.per_task - 1) / f.per_task);
    if (tasks == 1)
        task(&f, 0);
    else
        sp_pool_run(pool, task, &f, tasks, plan->threads);
    if (f.partial && !job->failed)
        combine(&f);
    return job->failed ? -ENOMEM : 0;
}
