/* Strided copies of up to four dimensions, for elements of 1, 2, 4 and 8 bytes.
 *
 * An array is copied plane by plane. The columns of a plane are along the last dimension. Its rows
 * are along the one of the other three dimensions that has the smallest stride in src. The indices
 * of the remaining two dimensions select the plane. A plane is copied row by row, or by tiles if
 * its rows are closer together than its columns in src. */
#include "core/args.h"
#include "cpu/runtime/kernel.h"
#include "cpu/vector/transpose.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

sp_routine_fn sp_strided_u8_ref;
sp_routine_fn sp_strided_u16_ref;
sp_routine_fn sp_strided_u32_ref;
sp_routine_fn sp_strided_u64_ref;

/* A tile is a square of TILE x TILE elements: TILE elements of 4 bytes fill a cache line. A block
 * has at most BLOCK_COLUMNS columns. A task copies whole blocks, about TASK_ELEMENTS elements. */
enum { TILE = 16, BLOCK_COLUMNS = 1 << 12, TASK_ELEMENTS = 1 << 15 };

/* A block is a part of a plane, and a plane is a 2-D part of the array. `dst_row` to `src_column`
 * are the distances in bytes between rows and between columns. The columns are along the last
 * dimension. The rows are along that one of the other dimensions whose stride in src is smallest.
 * In dst, columns are usually contiguous. */
struct block {
    char *dst;
    const char *src;
    uint32_t rows, columns;
    int64_t dst_row, dst_column, src_row, src_column;
};

/* Copies a block of elements of one size. Copies by tiles if rows are closer together than columns
 * in src, else row by row. Loads four elements before it stores them. */
#define MOVE(T)                                                                                                        \
    static void row_##T(char *to, int64_t to_step, const char *from, int64_t from_step, uint32_t n)                    \
    {                                                                                                                  \
        for (; n >= 4; n -= 4, to += 4 * to_step, from += 4 * from_step) {                                             \
            const T a = *(const T *)(const void *)from, b = *(const T *)(const void *)(from + from_step);              \
            const T c = *(const T *)(const void *)(from + 2 * from_step);                                              \
            const T d = *(const T *)(const void *)(from + 3 * from_step);                                              \
            *(T *)(void *)to = a;                                                                                      \
            *(T *)(void *)(to + to_step) = b;                                                                          \
            *(T *)(void *)(to + 2 * to_step) = c;                                                                      \
            *(T *)(void *)(to + 3 * to_step) = d;                                                                      \
        }                                                                                                              \
        for (; n; n--, to += to_step, from += from_step)                                                               \
            *(T *)(void *)to = *(const T *)(const void *)from;                                                         \
    }                                                                                                                  \
    static void move_##T(const struct block *b, uint32_t width)                                                        \
    {                                                                                                                  \
        for (uint32_t r0 = 0; r0 < b->rows; r0 += TILE)                                                                \
            for (uint32_t c0 = 0; c0 < b->columns; c0 += width)                                                        \
                for (uint32_t r = r0; r < b->rows && r < r0 + TILE; r++)                                               \
                    row_##T(b->dst + r * b->dst_row + c0 * b->dst_column, b->dst_column,                               \
                            b->src + r * b->src_row + c0 * b->src_column, b->src_column,                               \
                            b->columns - c0 < width ? b->columns - c0 : width);                                        \
    }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)

static void move(const struct block *b, uint32_t size)
{
    const int64_t one = size;
    const int by_rows = llabs(b->src_column) <= llabs(b->src_row);
    const uint32_t width = by_rows ? b->columns : TILE;
    if (b->dst_column == one && b->src_column == one) {
        for (uint32_t r = 0; r < b->rows; r++)
            memcpy(b->dst + r * b->dst_row, b->src + r * b->src_row, (size_t)b->columns * size);
    } else if (size == 4 && b->dst_column == one && b->src_row == one && b->dst_row > 0 && b->src_column > 0) {
        sp_transpose_f32((float *)(void *)b->dst, (size_t)b->dst_row / 4, (const float *)(const void *)b->src,
                         (size_t)b->src_column / 4, b->columns, b->rows);
    } else if (size == 1) {
        move_uint8_t(b, width);
    } else if (size == 2) {
        move_uint16_t(b, width);
    } else if (size == 4) {
        move_uint32_t(b, width);
    } else {
        move_uint64_t(b, width);
    }
}

struct job {
    /* arguments of the copy; the structs for other element sizes differ only in pointer types */
    const struct sp_args_strided_u8 *v;
    uint32_t size;
    /* Each is the number of a dimension, 0 to 3. The rows of a plane are along dimension `row`, its
     * columns along dimension 3. The indices of the two dimensions `outer` select the plane. */
    uint32_t outer[2], row;
    uint32_t block_rows, row_blocks, column_blocks;
    uint64_t blocks, each; /* number of all blocks, number of blocks per task */
};

static void one_block(const struct job *job, uint64_t index)
{
    const struct sp_args_strided_u8 *const v = job->v;
    const uint64_t c0 = index % job->column_blocks * BLOCK_COLUMNS, rest = index / job->column_blocks;
    const uint64_t r0 = rest % job->row_blocks * job->block_rows, plane = rest / job->row_blocks;
    const uint32_t row = job->row, inner = job->outer[1], outer = job->outer[0];
    const int64_t i[2] = {(int64_t)(plane / v->n[inner]), (int64_t)(plane % v->n[inner])};
    const uint64_t rows = v->n[row] - r0, columns = v->n[3] - c0;
    const int64_t size = job->size, r = (int64_t)r0, c = (int64_t)c0;
    const int64_t to = (int64_t)v->dst_offset + i[0] * v->dst_stride[outer] + i[1] * v->dst_stride[inner] +
                       r * v->dst_stride[row] + c * v->dst_stride[3];
    const int64_t from = (int64_t)v->src_offset + i[0] * v->src_stride[outer] + i[1] * v->src_stride[inner] +
                         r * v->src_stride[row] + c * v->src_stride[3];
    const struct block b = {
        .dst = (char *)v->dst + to * size,
        .src = (const char *)v->src + from * size,
        .rows = (uint32_t)(rows < job->block_rows ? rows : job->block_rows),
        .columns = (uint32_t)(columns < BLOCK_COLUMNS ? columns : BLOCK_COLUMNS),
        .dst_row = v->dst_stride[row] * size,
        .dst_column = v->dst_stride[3] * size,
        .src_row = v->src_stride[row] * size,
        .src_column = v->src_stride[3] * size,
    };
    move(&b, job->size);
}

static void one_task(void *ctx, uint32_t index)
{
    const struct job *const job = ctx;
    const uint64_t first = index * job->each, left = job->blocks - first;
    for (uint64_t k = 0; k < (left < job->each ? left : job->each); k++)
        one_block(job, first + k);
}

/* Returns 1 if every element's position is below `limit`. */
static int within(const uint32_t n[4], const int32_t stride[4], uint32_t offset, uint32_t limit)
{
    int64_t low = offset, high = offset;
    for (int d = 0; d < 4; d++) {
        /* This product cannot overflow: n[d] - 1 is below 2**32, and |stride| is at most 2**31. */
        const int64_t reach = (int64_t)(n[d] - 1) * stride[d];
        if (reach > UINT32_MAX || reach < -(int64_t)UINT32_MAX)
            return 0;
        low += reach < 0 ? reach : 0;
        high += reach > 0 ? reach : 0;
    }
    return low >= 0 && high < limit;
}

/* Returns the distance, in elements, between neighbours along dimension `d`. Returns UINT64_MAX for
 * a dimension of one element, because its stride has no effect. */
static uint64_t step(const uint32_t n[4], const int32_t stride[4], uint32_t d)
{
    return n[d] == 1 ? UINT64_MAX : (uint64_t)(stride[d] < 0 ? -(int64_t)stride[d] : stride[d]);
}

static int run(const void *args, uint32_t size, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    const struct sp_args_strided_u8 *const v = args;
    if (v->n[0] == 0 || v->n[1] == 0 || v->n[2] == 0 || v->n[3] == 0)
        return 0;
    if (!within(v->n, v->dst_stride, v->dst_offset, v->dst_n) || !within(v->n, v->src_stride, v->src_offset, v->src_n))
        return -EINVAL;
    struct job job = {.v = v, .size = size, .row = 2, .outer = {0, 1}};
    for (uint32_t d = 0; d < 2; d++)
        if (step(v->n, v->src_stride, d) < step(v->n, v->src_stride, job.row)) {
            job.row = d;
            job.outer[0] = d == 0 ? 1 : 0;
            job.outer[1] = 2;
        }
    const uint32_t columns = v->n[3] < BLOCK_COLUMNS ? v->n[3] : BLOCK_COLUMNS, rows = v->n[job.row];
    job.block_rows = (TASK_ELEMENTS / columns + TILE) / TILE * TILE;
    job.row_blocks = (uint32_t)(((uint64_t)rows + job.block_rows - 1) / job.block_rows);
    job.column_blocks = (uint32_t)(((uint64_t)v->n[3] + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS);
    const uint64_t block = (uint64_t)columns * (rows < job.block_rows ? rows : job.block_rows);
    uint64_t planes = (uint64_t)v->n[job.outer[0]] * v->n[job.outer[1]];
    if (__builtin_mul_overflow(planes, (uint64_t)job.row_blocks * job.column_blocks, &job.blocks))
        return -EINVAL;
    job.each = block < TASK_ELEMENTS ? TASK_ELEMENTS / block : 1;
    while (job.blocks / job.each >= UINT32_MAX)
        job.each *= 2;
    const uint32_t tasks = (uint32_t)((job.blocks + job.each - 1) / job.each);
    if (tasks == 1)
        one_task(&job, 0);
    else
        sp_pool_run(pool, one_task, &job, tasks, plan->threads);
    return 0;
}

int sp_strided_u8_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    return run(args, 1, plan, pool);
}

int sp_strided_u16_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    return run(args, 2, plan, pool);
}

int sp_strided_u32_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    return run(args, 4, plan, pool);
}

int sp_strided_u64_ref(const void *args, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    return run(args, 8, plan, pool);
}
