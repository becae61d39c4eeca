/* The pieces of a reduction y[o, i] = op over r of x[o, r, i]. The shape alone determines the
 * pieces, not the number of threads. So the same input gives the same bits on every machine with
 * the same instruction set (reduce.c). */
#ifndef SP_CPU_REDUCE_H
#define SP_CPU_REDUCE_H
#include "cpu/runtime/kernel.h"

/* A reduction y[o, i] = op over r of x[o, r, i] is divided into pieces. A row is x[o, r, :], a
 * column x[o, :, i]. A piece has one value of o, consecutive values of r, and at most
 * SP_REDUCE_COLUMNS consecutive values of i. This limit is large, because each row may be in other
 * memory pages than the row before. If long columns are divided, a piece has some SP_REDUCE_PIECE
 * elements. If a row has at most a quarter of SP_REDUCE_WIDE elements, several rows are reduced at
 * a time, as one row of at most SP_REDUCE_WIDE elements. */
enum { SP_REDUCE_COLUMNS = 2048, SP_REDUCE_WIDE = 256, SP_REDUCE_PIECE = 1 << 16 };

struct sp_reduce_job {
    const void *x;
    void *y;
    size_t outer, n, inner;
    /* number of parts into which the range of i of x[o, r, i] is divided */
    size_t column_runs;
    /* Number of parts into which the range of r of x[o, r, i] is divided. If it is 1, each piece of
     * the work computes final results, otherwise partial ones. */
    size_t row_runs;
    /* number of values of r in each of the `row_runs` parts; the last part may have fewer */
    size_t rows;
    size_t pieces;
    size_t per_task;
    void *partial; /* partial results [row_runs][outer*inner], if row_runs > 1 */
    /* Reduces x[o, r, i] over all r in [r0, r1), for each o in [o0, o1) and each i in [i0, i1). The
     * results go to y if `partial` is NULL. Otherwise o1 is o0 + 1, and the results go to
     * `partial`. */
    void (*piece)(const struct sp_reduce_job *job, size_t o0, size_t o1, size_t r0, size_t r1, size_t i0, size_t i1,
                  void *partial);
    /* Sets each y[at] to the reduction, by op, of partial[k][at] for k = 0 to row_runs - 1, in this
     * order. */
    void (*combine)(const struct sp_reduce_job *job);
    size_t partial_nbytes; /* bytes of one partial result */
};

/* Sets the members `column_runs` to `partial` of a job, and runs it. The caller has set the other
 * members. Returns 0 or -errno. */
int sp_reduce_run(struct sp_reduce_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
