/* Runs the instructions of a map block by block: a block of each register stays in the first-level cache while all
 * instructions pass over it. Inputs that lie in one piece are read where they are; others, a block at a time, are gathered
 * (any strides, any alignment) or, if they are one value for the whole block, handed on as one. */
#include "map.h"

#include <errno.h>
#include <string.h>

/* A block of BLOCK_NBYTES is long enough to hide what an instruction costs to begin, and short enough that reading ahead
 * goes on while others are computed with: 512 floats came out best of 256 to 2048, by a fifth, with arrays in memory. */
enum { BLOCK_NBYTES = 2048, L1_NBYTES = 24 * 1024, LEAST_BLOCK = 128, TASK = 1 << 15, APART = 64 };

void sp_map_choose_block(struct sp_map_job *job)
{
    uint32_t buffers = job->nregs + 1;
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        buffers += job->x[i].base != NULL;
    size_t block = L1_NBYTES / ((size_t)buffers * job->width) / 64 * 64;
    block = block < LEAST_BLOCK ? LEAST_BLOCK : block;
    const uint32_t most = BLOCK_NBYTES / job->width;
    job->block = block > most ? most : (uint32_t)block;
}

static size_t rounded(size_t nbytes)
{
    return (nbytes + APART - 1) / APART * APART;
}

/* What a gathered input needs; with a period, the pattern and enough of it again for a block from anywhere. */
static size_t gathered_nbytes(const struct sp_map_job *job, const struct sp_map_operand *x)
{
    if (!x->base || x->whole)
        return 0;
    return rounded((job->block + (size_t)x->period) * sp_map_nbytes(x->type)) + APART;
}

static void gather(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, uint64_t at, size_t count);

int sp_map_begin(const struct sp_map_job *job, struct sp_map_thread *t, size_t extra)
{
    const size_t nslots = SP_MAP_INPUTS + (size_t)job->nregs + job->nconsts;
    const size_t register_nbytes = rounded((size_t)job->block * job->width) + APART; /* apart: not all on one cache set */
    size_t nbytes = rounded(nslots * sizeof(void *)) + rounded(nslots) + rounded(extra);
    nbytes += (job->nregs + (size_t)1) * register_nbytes;
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        nbytes += gathered_nbytes(job, &job->x[i]);
    char *at = sp_scratch(SP_SCRATCH_A, nbytes);
    if (!at)
        return -ENOMEM;
    t->slot = (void *)at;
    at += rounded(nslots * sizeof(void *));
    t->scalar = (void *)at;
    memset(t->scalar, 0, nslots);
    at += rounded(nslots);
    t->extra = at;
    at += rounded(extra);
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++) {
        t->gathered[i] = at;
        t->slot[i] = NULL;
        if (job->x[i].period)
            gather(job, &job->x[i], at, 0, job->block + (size_t)job->x[i].period);
        at += gathered_nbytes(job, &job->x[i]);
    }
    for (uint32_t i = 0; i < job->nregs; i++, at += register_nbytes)
        t->slot[SP_MAP_INPUTS + i] = at;
    for (uint32_t i = 0; i < job->nconsts; i++) {
        t->slot[SP_MAP_INPUTS + job->nregs + i] = job->consts + (size_t)i * job->const_nbytes;
        t->scalar[SP_MAP_INPUTS + job->nregs + i] = 1;
    }
    t->result = at;
    return 0;
}

/* Where in the space element `at` is. */
static void indices_of(const struct sp_map_job *job, uint64_t at, uint64_t index[SP_MAP_DIMS])
{
    for (uint32_t d = job->ndim; d-- > 1;) {
        index[d] = at % job->shape[d];
        at /= job->shape[d];
    }
    index[0] = at;
}

static char *address_of(const struct sp_map_job *job, const struct sp_map_operand *x,
                        const uint64_t index[SP_MAP_DIMS])
{
    char *p = x->base;
    for (uint32_t d = 0; d < job->ndim; d++)
        p += (int64_t)index[d] * x->stride[d];
    return p;
}

/* Steps to the first element of the next row. */
static void next_row(const struct sp_map_job *job, uint64_t index[SP_MAP_DIMS])
{
    uint32_t d = job->ndim - 1;
    index[d] = 0;
    while (d-- > 0) {
        if (++index[d] < job->shape[d] || d == 0)
            return;
        index[d] = 0;
    }
}

#define COPY_RUN(T)                                                                                                    \
    static void copy_run_##T(char *to, int64_t to_stride, const char *from, int64_t from_stride, size_t count)         \
    {                                                                                                                  \
        T v;                                                                                                           \
        if (from_stride == 0) {                                                                                        \
            memcpy(&v, from, sizeof v);                                                                                \
            for (size_t i = 0; i < count; i++)                                                                         \
                memcpy(to + (int64_t)i * to_stride, &v, sizeof v);                                                     \
            return;                                                                                                    \
        }                                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                                           \
            memcpy(&v, from + (int64_t)i * from_stride, sizeof v);                                                     \
            memcpy(to + (int64_t)i * to_stride, &v, sizeof v);                                                         \
        }                                                                                                              \
    }
COPY_RUN(uint32_t)
COPY_RUN(uint64_t)

static void copy_run(char *to, int64_t to_stride, const char *from, int64_t from_stride, size_t count, uint32_t nbytes)
{
    if (from_stride == nbytes && to_stride == nbytes)
        memcpy(to, from, count * nbytes);
    else if (nbytes == 8)
        copy_run_uint64_t(to, to_stride, from, from_stride, count);
    else
        copy_run_uint32_t(to, to_stride, from, from_stride, count);
}

/* Elements [at, at + count) of the space to `to`, one after the other. A period goes on past the end of the space. */
static void gather(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, uint64_t at, size_t count)
{
    const uint32_t nbytes = sp_map_nbytes(x->type);
    const uint64_t row = job->shape[job->ndim - 1];
    uint64_t index[SP_MAP_DIMS];
    indices_of(job, at, index);
    while (count) {
        const uint64_t left = row - index[job->ndim - 1];
        const size_t run = left < count ? (size_t)left : count;
        copy_run(to, nbytes, address_of(job, x, index), x->stride[job->ndim - 1], run, nbytes);
        to += run * nbytes;
        count -= run;
        next_row(job, index);
    }
}

static void scatter(const struct sp_map_job *job, const char *from, uint64_t at, size_t count)
{
    const struct sp_map_operand *const y = &job->y;
    const uint32_t nbytes = sp_map_nbytes(y->type);
    const uint64_t row = job->shape[job->ndim - 1];
    uint64_t index[SP_MAP_DIMS];
    indices_of(job, at, index);
    while (count) {
        const uint64_t left = row - index[job->ndim - 1];
        const size_t run = left < count ? (size_t)left : count;
        copy_run(address_of(job, y, index), y->stride[job->ndim - 1], from, nbytes, run, nbytes);
        from += run * nbytes;
        count -= run;
        next_row(job, index);
    }
}

/* Where the block of input i is. `index`: of `at`; `in_row`: the block does not leave the row. */
static void find_input(const struct sp_map_job *job, struct sp_map_thread *t, uint32_t i, uint64_t at, size_t count,
                       const uint64_t index[SP_MAP_DIMS], int in_row)
{
    const struct sp_map_operand *const x = &job->x[i];
    const uint32_t nbytes = sp_map_nbytes(x->type);
    t->scalar[i] = 0;
    if (x->whole) {
        t->slot[i] = x->base + at * nbytes;
        return;
    }
    if (x->period) {
        t->slot[i] = t->gathered[i] + at % x->period * nbytes;
        return;
    }
    if (in_row) {
        char *const p = address_of(job, x, index);
        const int64_t stride = x->stride[job->ndim - 1];
        const int aligned = (uintptr_t)p % nbytes == 0;
        if (aligned && (stride == 0 || stride == nbytes || count == 1)) {
            t->slot[i] = p;
            t->scalar[i] = stride == 0;
            return;
        }
    }
    gather(job, x, t->gathered[i], at, count);
    t->slot[i] = t->gathered[i];
}

const void *sp_map_block(const struct sp_map_job *job, struct sp_map_thread *t, uint64_t at, size_t count, void *direct)
{
    uint64_t index[SP_MAP_DIMS];
    indices_of(job, at, index);
    const int in_row = count <= job->shape[job->ndim - 1] - index[job->ndim - 1];
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        if (job->x[i].base)
            find_input(job, t, i, at, count, index, in_row);
    const struct sp_map_insn *in = job->insns;
    const struct sp_map_insn *const last = in + job->ninsns - 1;
    for (;; in++) {
        const uint32_t scalars = t->scalar[in->a] | (uint32_t)t->scalar[in->b] << 1 | (uint32_t)t->scalar[in->c] << 2;
        void *const out = in == last && direct ? direct : (void *)(uintptr_t)t->slot[in->out];
        in->fn(out, t->slot[in->a], t->slot[in->b], t->slot[in->c], scalars, count);
        if (in == last)
            return out;
    }
}

size_t sp_map_step(const struct sp_map_job *job, uint64_t at, uint64_t most)
{
    const uint64_t row = job->shape[job->ndim - 1];
    uint64_t step = most < job->block ? most : job->block;
    if (job->ndim > 1 && row >= SP_MAP_WHOLE_ROW && row - at % row < step)
        step = row - at % row;
    return (size_t)step;
}

static uint64_t task_elements(const struct sp_map_job *job)
{
    const uint64_t wanted = TASK / (1 + job->weight / 16);
    return (wanted < 2048 ? 2048 : wanted) / job->block * job->block + job->block;
}

struct run_job {
    struct sp_map_job *job;
    uint64_t each;
};

static void task(void *ctx, uint32_t number)
{
    const struct run_job *const r = ctx;
    struct sp_map_job *const job = r->job;
    const struct sp_map_operand *const y = &job->y;
    struct sp_map_thread t;
    if (sp_map_begin(job, &t, 0)) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const uint32_t nbytes = sp_map_nbytes(y->type);
    uint64_t at = number * r->each;
    const uint64_t end = job->total - at < r->each ? job->total : at + r->each;
    while (at < end) {
        const size_t count = sp_map_step(job, at, end - at);
        char *const to = y->whole ? y->base + at * nbytes : NULL;
        const int stream = job->stream && to && count == job->block;
        const void *const found = sp_map_block(job, &t, at, count, stream ? NULL : to);
        if (stream)
            job->table->stream(to, found, count * nbytes);
        else if (!to)
            scatter(job, found, at, count);
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
    while ((job->total + r.each - 1) / r.each > UINT32_MAX)
        r.each *= 2;
    const uint32_t tasks = (uint32_t)((job->total + r.each - 1) / r.each);
    if (tasks == 1)
        task(&r, 0);
    else
        sp_pool_run(pool, task, &r, tasks, plan->threads);
    return job->failed ? -ENOMEM : 0;
}
