/* The kernel fused_map: reads its geometry, checks that all accesses stay inside the arrays, and
 * runs the map. No input is trusted: a wrong program or geometry gives -EINVAL, never an access
 * outside the arrays. */
#include "map.h"

#include "core/args.h"

#include <errno.h>
#include <string.h>

void sp_map_plain(struct sp_map_job *job, const struct sp_map_table *table, void *y, const void *const *x, uint64_t n,
                  uint32_t type)
{
    const uint32_t nbytes = sp_map_nbytes(type);
    *job = (struct sp_map_job){.table = table, .const_nbytes = nbytes, .ndim = 1, .shape = {n}, .total = n};
    job->y = (struct sp_map_operand){.base = y, .stride = {nbytes}, .type = type, .whole = 1};
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        job->x[i] = (struct sp_map_operand){
            .base = (char *)(uintptr_t)x[i], .stride = {nbytes}, .type = type, .whole = x[i] != NULL};
}

/* Reads the sizes of the iteration space. Returns -EINVAL if the geometry is malformed (for example
 * without a dimension), or if the number of elements overflows. */
static int read_shape(struct sp_map_job *job, const int64_t *geometry, uint32_t ngeometry)
{
    if (ngeometry < SP_MAP_GEO_HEAD || geometry[SP_MAP_GEO_NDIM] < 1 || geometry[SP_MAP_GEO_NDIM] > SP_MAP_DIMS)
        return -EINVAL;
    job->ndim = (uint32_t)geometry[SP_MAP_GEO_NDIM];
    if (ngeometry != SP_MAP_GEO_HEAD + job->ndim + (SP_MAP_INPUTS + 1) * (2 + job->ndim))
        return -EINVAL;
    job->total = 1;
    for (uint32_t d = 0; d < job->ndim; d++) {
        const int64_t size = geometry[SP_MAP_GEO_HEAD + d];
        if (size < 0 || __builtin_mul_overflow(job->total, (uint64_t)size, &job->total) || job->total > INT64_MAX / 8)
            return -EINVAL;
        job->shape[d] = (uint64_t)size;
    }
    return 0;
}

/* Returns 1 if all elements of the operand lie in bytes [0, nbytes) of its array. */
static int inside(const struct sp_map_job *job, const struct sp_map_operand *x, int64_t offset, uint64_t nbytes)
{
    int64_t low = offset, high = offset;
    if (job->total == 0)
        return 1;
    for (uint32_t d = 0; d < job->ndim; d++) {
        int64_t reach;
        if (__builtin_mul_overflow((int64_t)job->shape[d] - 1, x->stride[d], &reach) ||
            __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return 0;
    }
    return low >= 0 && nbytes <= INT64_MAX && high <= (int64_t)nbytes - (int64_t)sp_map_nbytes(x->type);
}

/* Returns the number of elements in dimensions [from, ndim) if they are contiguous, else 0. */
static uint64_t in_one_piece(const struct sp_map_job *job, const struct sp_map_operand *x, uint32_t from)
{
    uint64_t n = 1;
    for (uint32_t d = job->ndim; d-- > from;) {
        if (job->shape[d] != 1 && x->stride[d] != (int64_t)(n * sp_map_nbytes(x->type)))
            return 0;
        n *= job->shape[d];
    }
    return n;
}

/* Returns the number of elements after which an input repeats, because all its outer strides are 0.
 * Returns 0 if it does not repeat within SP_MAP_PERIOD elements. */
static uint64_t period_of(const struct sp_map_job *job, const struct sp_map_operand *x)
{
    uint32_t d = 0;
    while (d < job->ndim && (job->shape[d] == 1 || x->stride[d] == 0))
        d++;
    const uint64_t n = d == job->ndim ? 0 : in_one_piece(job, x, d);
    return n <= SP_MAP_PERIOD ? n : 0;
}

/* Returns 1 if the rows are long, and the elements of each row are either contiguous and aligned,
 * or a single value. */
static uint32_t lies_in_rows(const struct sp_map_job *job, const struct sp_map_operand *x)
{
    const int64_t nbytes = sp_map_nbytes(x->type), inner = x->stride[job->ndim - 1];
    uint64_t ragged = (uintptr_t)x->base;
    for (uint32_t d = 0; d < job->ndim; d++)
        ragged |= (uint64_t)x->stride[d];
    return (job->ndim == 1 || job->shape[job->ndim - 1] >= SP_MAP_WHOLE_ROW) && (inner == nbytes || inner == 0) &&
           ragged % (uint64_t)nbytes == 0;
}

static int read_operand(const struct sp_map_job *job, struct sp_map_operand *x, const int64_t *geometry, void *pointer,
                        uint64_t nbytes)
{
    *x = (struct sp_map_operand){.base = NULL};
    if (!pointer)
        return 0;
    if (geometry[0] < 0 || geometry[0] >= SP_MAP_TYPES)
        return -EINVAL;
    x->type = (uint32_t)geometry[0];
    for (uint32_t d = 0; d < job->ndim; d++)
        x->stride[d] = geometry[2 + d];
    if (!inside(job, x, geometry[1], nbytes))
        return -EINVAL;
    x->base = (char *)pointer + geometry[1];
    x->whole = in_one_piece(job, x, 0) && (uintptr_t)x->base % sp_map_nbytes(x->type) == 0;
    x->in_rows = !x->whole && lies_in_rows(job, x);
    x->period = x->whole ? 0 : period_of(job, x);
    return 0;
}

static int read_geometry(struct sp_map_job *job, const struct sp_args_fused_map *v)
{
    const uint32_t per_operand = 2 + job->ndim;
    const int64_t *at = v->geometry + SP_MAP_GEO_HEAD + job->ndim;
    int rc = read_operand(job, &job->y, at, v->y, v->y_nbytes);
    job->y.in_rows &= job->y.stride[job->ndim - 1] != 0;
    const uint64_t nbytes[SP_MAP_INPUTS] = {v->x0_nbytes, v->x1_nbytes, v->x2_nbytes, v->x3_nbytes,
                                            v->x4_nbytes, v->x5_nbytes, v->x6_nbytes, v->x7_nbytes};
    for (uint32_t i = 0; i < SP_MAP_INPUTS && rc == 0; i++) {
        at += per_operand;
        rc = read_operand(job, &job->x[i], at, (void *)(uintptr_t)v->x[i], nbytes[i]);
    }
    return rc;
}

static int fold(struct sp_map_job *job, const struct sp_args_fused_map *v, const struct sp_tile_plan *plan,
                struct sp_pool *pool)
{
    const uint32_t type = sp_map_result(job);
    const int is_real = type == SP_MAP_F32 || type == SP_MAP_F64;
    const int64_t kind = v->geometry[SP_MAP_GEO_FOLD];
    const uint64_t outer = (uint64_t)v->geometry[SP_MAP_GEO_OUTER];
    const uint64_t n = (uint64_t)v->geometry[SP_MAP_GEO_N];
    const uint64_t inner = (uint64_t)v->geometry[SP_MAP_GEO_INNER];
    const uint32_t stored = !is_real && kind == SP_MAP_FOLD_SUM ? SP_MAP_I64 : type;
    uint64_t results, elements, nbytes;
    if (kind < 0 || kind >= SP_MAP_FOLDS || (kind == SP_MAP_FOLD_MEAN && !is_real) || sp_map_nbytes(type) == 2)
        return -EINVAL;
    if (__builtin_mul_overflow(outer, inner, &results) || __builtin_mul_overflow(results, n, &elements) ||
        __builtin_mul_overflow(results, (uint64_t)sp_map_nbytes(stored), &nbytes))
        return -EINVAL;
    if (elements != job->total || n == 0 || nbytes > v->y_nbytes || job->y.type != stored)
        return -EINVAL;
    if ((uintptr_t)job->y.base % sp_map_nbytes(stored))
        return -EINVAL;
    return sp_map_fold(job, (uint32_t)kind, outer, n, inner, plan, pool);
}

int sp_map_fused(const struct sp_map_table *table, const struct sp_args_fused_map *given, const struct sp_tile_plan *plan,
                 struct sp_pool *pool)
{
    /* A copy, because another queue may write to the geometry's memory between its check and its
     * use. */
    int64_t geometry[SP_MAP_GEO_HEAD + SP_MAP_DIMS + (SP_MAP_INPUTS + 1) * (2 + SP_MAP_DIMS)];
    struct sp_args_fused_map own = *given;
    const struct sp_args_fused_map *const v = &own;
    if (own.ngeometry > sizeof geometry / sizeof geometry[0])
        return -EINVAL;
    memcpy(geometry, given->geometry, own.ngeometry * sizeof geometry[0]);
    own.geometry = geometry;
    struct sp_map_job job = {.table = table, .consts = (const void *)v->consts, .const_nbytes = 8};
    job.nconsts = v->consts ? v->nconsts : 0;
    int rc = read_shape(&job, v->geometry, v->ngeometry);
    if (rc == 0)
        rc = read_geometry(&job, v);
    if (rc == 0)
        rc = sp_map_from_words(&job, v->program, v->nwords);
    if (rc)
        return rc;
    const int folds = v->geometry[SP_MAP_GEO_FOLD] != SP_MAP_FOLD_NONE;
    if (!folds && (job.y.type != sp_map_result(&job) || !job.y.base))
        return -EINVAL;
    job.stream = !folds && table->fence && v->geometry[SP_MAP_GEO_STREAM] != 0;
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        if (job.x[i].base == job.y.base)
            job.stream = 0; /* y is also read, so it is cached: ordinary stores cost less */
    sp_map_choose_block(&job);
    return folds ? fold(&job, v, plan, pool) : sp_map_run(&job, plan, pool);
}
