/* Command records on the cpu: checks them before they are queued, and runs them. */
#include "device.h"
#include "core/dispatch.h"

#include <errno.h>
#include <string.h>

enum { MAX_GROUP_THREADS = 65536, TASKS_A_THREAD = 4, MIN_SPAN = 4096 };

static struct sp_cpu_kernel *kernel_of(const struct sp_cmd_dispatch *d)
{
    return (struct sp_cpu_kernel *)(uintptr_t)d->kernel;
}

static int product(const uint32_t v[3], uint64_t *out)
{
    uint64_t xy = (uint64_t)v[0] * v[1];
    return __builtin_mul_overflow(xy, (uint64_t)v[2], out) ? -EOVERFLOW : 0;
}

static int check_grid(const struct sp_cpu_kernel *k, const struct sp_cmd_dispatch *d)
{
    uint64_t groups, threads, all;
    if (product(d->groups, &groups) || product(d->group_size, &threads) || threads == 0 ||
        __builtin_mul_overflow(groups, threads, &all) || d->shared_nbytes)
        return -EINVAL;
    if (threads > MAX_GROUP_THREADS)
        return -EINVAL; /* fault: group size */
    if (k->form == SP_FORM_SPAN && (d->groups[1] != 1 || d->groups[2] != 1 || d->group_size[1] != 1 || d->group_size[2] != 1))
        return -EINVAL;
    return k->form == SP_FORM_ROUTINE && groups != 1 ? -EINVAL : 0;
}

int sp_cpu_check_dispatch(const struct sp_cpu *dev, const void *record, size_t nbytes)
{
    const struct sp_cmd_dispatch *d = record;
    if (!sp_dispatch_whole(record, nbytes))
        return -EINVAL;
    const struct sp_cpu_kernel *k = kernel_of(d);
    if (!k || k->magic != SP_KERNEL_MAGIC || k->dev != dev)
        return -EINVAL;
    if (!sp_dispatch_fits(d, &k->sig))
        return -EINVAL;
    int rc = check_grid(k, d);
    return rc ? rc : sp_signature_check(&k->sig, d + 1, NULL, NULL);
}

int sp_cpu_check(const struct sp_cpu *dev, const void *records, size_t nbytes)
{
    int rc = sp_cmd_validate(records, nbytes, NULL);
    const unsigned char *p = records;
    for (size_t at = 0; rc == 0 && at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        if (head->kind == SP_CMD_DISPATCH)
            rc = sp_cpu_check_dispatch(dev, head, head->nbytes);
        else if (head->kind == SP_CMD_WAIT) {
            const struct sp_cmd_wait *w = (const void *)head;
            const struct sp_cpu_queue *other = (const void *)(uintptr_t)w->queue;
            rc = other && other->dev == dev && w->value <= sp_queue_newest(&other->common) ? 0 : -EINVAL;
        }
        at += head->nbytes;
    }
    return rc;
}

int sp_cpu_runs_inline(const void *record)
{
    const struct sp_cmd_dispatch *d = record;
    const struct sp_cpu_kernel *k = kernel_of(d);
    if (k->handed_over)
        return 0;
    return k->form == SP_FORM_ROUTINE || (d->groups[0] <= 1 && d->groups[1] <= 1 && d->groups[2] <= 1);
}

struct grid {
    const struct sp_cmd_dispatch *d;
    const void *args;
    struct sp_cpu_kernel *k;
    struct sp_running *running;
    uint64_t groups;
    uint64_t groups_a_task;
};

static void run_groups(const struct grid *g, uint64_t begin, uint64_t end)
{
    if (g->k->form == SP_FORM_SPAN) {
        uint64_t size = g->d->group_size[0];
        ((sp_span_fn *)g->k->fn)(g->args, begin * size, end * size);
        return;
    }
    uint64_t plane = (uint64_t)g->d->groups[0] * g->d->groups[1];
    for (uint64_t i = begin; i < end; i++) {
        uint32_t group[3] = {(uint32_t)(i % g->d->groups[0]), (uint32_t)(i % plane / g->d->groups[0]),
                             (uint32_t)(i / plane)};
        ((sp_grid_fn *)g->k->fn)(g->args, group, g->d->group_size);
    }
}

static void grid_task(void *ctx, uint32_t index)
{
    const struct grid *g = ctx;
    uint64_t begin = index * g->groups_a_task;
    uint64_t end = begin + g->groups_a_task < g->groups ? begin + g->groups_a_task : g->groups;
    run_groups(g, begin, end);
    atomic_fetch_add_explicit(&g->running->groups_done, end - begin, memory_order_relaxed);
}

/* Divides a grid into a few tasks per thread. Each task has enough work to be worth passing to
 * another thread. */
static void run_grid(struct grid *g)
{
    uint32_t threads = sp_pool_threads(&g->k->dev->pool);
    uint64_t tasks = (uint64_t)threads * TASKS_A_THREAD;
    if (g->k->form == SP_FORM_SPAN) {
        uint64_t most = g->groups * g->d->group_size[0] / MIN_SPAN + 1;
        tasks = tasks < most ? tasks : most;
    }
    tasks = tasks < g->groups ? tasks : g->groups;
    g->groups_a_task = (g->groups + tasks - 1) / tasks;
    tasks = (g->groups + g->groups_a_task - 1) / g->groups_a_task;
    sp_pool_run(&g->k->dev->pool, grid_task, g, (uint32_t)tasks, 0);
}

/* Runs a routine that may read packed weights. Tells the routine how many bytes of the weights it
 * may read. The weights are the third pointer argument of every such kernel. After the arguments,
 * the record has one number of bytes for each pointer. */
static int run_packed(const struct grid *g)
{
    enum { WEIGHTS = 2 };
    struct sp_tile_plan plan = g->k->plan;
    if (g->k->sig.npointers > WEIGHTS)
        memcpy(&plan.blob_nbytes, (const char *)g->args + g->k->sig.args_nbytes + WEIGHTS * 8, 8);
    return ((sp_routine_fn *)g->k->fn)(g->args, &plan, &g->k->dev->pool);
}

int sp_cpu_dispatch(const void *record, struct sp_running *running)
{
    const struct sp_cmd_dispatch *d = record;
    struct grid g = {.d = d, .args = d + 1, .k = kernel_of(d), .running = running};
    g.groups = (uint64_t)d->groups[0] * d->groups[1] * d->groups[2];
    sp_running_groups(running, g.groups);
    if (g.k->form == SP_FORM_ROUTINE && g.k->plan.pack)
        return run_packed(&g);
    if (g.k->form == SP_FORM_ROUTINE)
        return ((sp_routine_fn *)g.k->fn)(g.args, &g.k->plan, &g.k->dev->pool);
    if (g.groups == 1)
        run_groups(&g, 0, 1);
    else if (g.groups)
        run_grid(&g);
    return 0;
}

/* Fills memory on one thread. A second thread would not speed up a memory-bound fill. memset and
 * copies run on one thread too. */
static void fill(const struct sp_cmd_fill *f)
{
    typedef uint64_t wide __attribute__((vector_size(16), aligned(1), may_alias));
    unsigned char *dst = (unsigned char *)(uintptr_t)f->dst;
    uint64_t left = f->count, eight;
    if (f->pattern_nbytes == 4)
        eight = f->pattern * UINT64_C(0x0000000100000001);
    else if (f->pattern_nbytes == 2)
        eight = (f->pattern & 0xffff) * UINT64_C(0x0001000100010001);
    else
        eight = (f->pattern & 0xff) * UINT64_C(0x0101010101010101);
    if (eight == (eight & 0xff) * UINT64_C(0x0101010101010101)) {
        memset(dst, (int)(eight & 0xff), left);
        return;
    }
    const wide both = {eight, eight};
    for (; left >= 64; left -= 64, dst += 64)
        for (int i = 0; i < 4; i++)
            ((wide *)dst)[i] = both;
    for (; left >= 8; left -= 8, dst += 8)
        memcpy(dst, &eight, 8);
    memcpy(dst, &eight, left); /* little-endian: the low bytes come first */
}

static int run_one(const struct sp_cmd *head, struct sp_running *running)
{
    switch (head->kind) {
    case SP_CMD_DISPATCH:
        return sp_cpu_dispatch(head, running);
    case SP_CMD_COPY: {
        const struct sp_cmd_copy *c = (const void *)head;
        memmove((void *)(uintptr_t)c->dst, (const void *)(uintptr_t)c->src, c->count);
        return 0;
    }
    case SP_CMD_FILL:
        fill((const void *)head);
        return 0;
    case SP_CMD_WAIT: {
        const struct sp_cmd_wait *w = (const void *)head;
        struct sp_cpu_queue *other = (void *)(uintptr_t)w->queue;
        return sp_timeline_wait(&other->timeline, w->value, UINT64_MAX, 0);
    }
    case SP_CMD_TIMESTAMP: {
        uint64_t now = sp_clock_ns();
        memcpy((void *)(uintptr_t)((const struct sp_cmd_timestamp *)(const void *)head)->slot, &now, sizeof now);
        return 0;
    }
    default:
        /* commands run in order here, so a barrier needs no work */
        return head->kind == SP_CMD_BARRIER ? 0 : -EINVAL;
    }
}

int sp_cpu_replay(const void *records, size_t nbytes, struct sp_running *running)
{
    const unsigned char *p = records;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < nbytes;) {
        const struct sp_cmd *head = (const void *)(p + at);
        sp_running_begin(running, at, sp_clock_ns());
        rc = run_one(head, running);
        at += head->nbytes;
    }
    return rc;
}
