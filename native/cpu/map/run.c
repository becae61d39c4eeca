/* Computes a map over its whole iteration space into y. Divides the space into tasks. Each task
 * calls sp_map_block (block.c) for some elements at a time. */
#include "map.h"

#include <errno.h>

enum { TASK = 1 << 15 };

static uint64_t task_elements(const struct sp_map_job *job)
{
    const uint64_t wanted = TASK / (1 + job->weight / 16);
    return (wanted < 2048 ? 2048 : wanted) / job->block * job->block + job->block;
}

struct run_job {
    struct sp_map_job *job;
    uint64_t each;
};

/* Returns the address of element `at` of y if y is contiguous, at least within each row. Else
 * returns NULL. */
static char *place_of(const struct sp_map_job *job, uint64_t at)
{
    uint64_t index[SP_MAP_DIMS];
    if (job->y.whole)
        return job->y.base + at * sp_map_nbytes(job->y.type);
    if (!job->y.in_rows)
        return NULL;
    sp_map_indices(job, at, index);
    return sp_map_address(job, &job->y, index);
}

/* Returns how many elements, at most `most`, the next call of sp_map_block computes from element
 * `at` on. */
static size_t stretch(const struct sp_map_job *job, uint64_t at, uint64_t most)
{
    const uint64_t row = job->shape[job->ndim - 1];
    uint64_t count = most < job->most ? most : job->most;
    if (job->rows && (job->ndim == 1 || row >= SP_MAP_WHOLE_ROW) && row - at % row < count)
        count = row - at % row;
    return (size_t)count;
}

/* Returns the number of elements to write now: `count`, or fewer so that the next write begins at a
 * cache line. */
static size_t to_a_line(const char *to, size_t count, uint32_t nbytes)
{
    const size_t over = (uintptr_t)(to + count * nbytes) % SP_MAP_LINES / nbytes;
    return count > over ? count - over : count;
}

static void task(void *ctx, uint32_t number)
{
    const struct run_job *const r = ctx;
    struct sp_map_job *const job = r->job;
    const uint32_t nbytes = sp_map_nbytes(job->y.type);
    struct sp_map_thread t;
    if (sp_map_begin(job, &t, 0)) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    uint64_t at = number * r->each;
    const uint64_t end = job->total - at < r->each ? job->total : at + r->each;
    while (at < end) {
        size_t count = stretch(job, at, end - at);
        char *const to = place_of(job, at);
        if (to && job->stream && count == job->most)
            count = to_a_line(to, count, nbytes);
        const void *const found = sp_map_block(job, &t, at, count, to, job->stream);
        if (!to)
            sp_map_scatter(job, found, at, count);
        at += count;
    }
    if (job->stream)
        job->table->fence();
}

int sp_map_run(struct sp_map_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool)
{
    struct run_job r = {.job = job, .each = task_elements(job)};
    if (job->total == 0)
        return 0;
    /* Make tasks with streaming stores larger than others, because each of them ends with a fence
     * that waits for its stores. */
    for (int k = 0; job->stream && k < 4 && job->total / r.each > 32 * (uint64_t)sp_pool_threads(pool); k++)
        r.each *= 2;
    while ((job->total + r.each - 1) / r.each > UINT32_MAX)
        r.each *= 2;
    const uint32_t tasks = (uint32_t)((job->total + r.each - 1) / r.each);
    if (tasks == 1)
        task(&r, 0);
    else
        sp_pool_run(pool, task, &r, tasks, plan->threads);
    return job->failed ? -ENOMEM : 0;
}
