/* Runs lists of commands that are submitted again as CUDA graphs. A list of enough nodes becomes a
 * graph at its second submission. From then on a submission takes one call for the graph, and one
 * for each dispatch whose arguments have changed.
 *
 * The queue finds a graph by its records, whoever submits them. The records must be equal except
 * for the arguments of dispatches. A graph in flight keeps the arguments that its nodes had at its
 * launch. */
#include "graph.h"
#include "cuda/flight/failure.h"
#include "cuda/memory/kernel.h"
#include "replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct sp_cuda_kernel *kernel_of(const struct sp_cmd_dispatch *d)
{
    return (const void *)(uintptr_t)d->kernel;
}

static int is_empty(const struct sp_cmd *head)
{
    const void *record = head;
    if (head->kind == SP_CMD_DISPATCH) {
        const struct sp_cmd_dispatch *d = record;
        return !d->groups[0] || !d->groups[1] || !d->groups[2];
    }
    if (head->kind == SP_CMD_COPY) {
        const struct sp_cmd_copy *c = record;
        return c->count == 0 || c->dst == c->src;
    }
    return head->kind == SP_CMD_BARRIER || (head->kind == SP_CMD_FILL && ((const struct sp_cmd_fill *)record)->count == 0);
}

/* Returns the number of graph nodes for the records, or 0 if a graph cannot express them. */
static uint32_t count_nodes(const unsigned char *records, size_t nbytes)
{
    uint32_t count = 0;
    for (size_t at = 0; at < nbytes;) {
        const struct sp_cmd *head = (const void *)(records + at);
        if (head->kind == SP_CMD_WAIT || head->kind == SP_CMD_TIMESTAMP)
            return 0;
        if (head->kind == SP_CMD_COPY && sp_cuda_overlaps((const void *)head))
            return 0;
        if (head->kind == SP_CMD_FILL && sp_cuda_fill_ahead((const void *)head))
            return 0;
        count += !is_empty(head);
        at += head->nbytes;
    }
    return count;
}

/* Returns 1 if the records of a graph and of a flight are equal except for arguments. Compares
 * kernels by serial number, because a new kernel may have the address of an unloaded one. */
static int alike(const struct sp_cuda_graph *g, const struct sp_cuda_flight *f)
{
    uint32_t n = 0;
    if (g->nbytes != f->nbytes || !g->times)
        return 0;
    for (size_t at = 0; at < f->nbytes;) {
        const struct sp_cmd *a = (const void *)(g->records + at), *b = (const void *)(f->records + at);
        int dispatch = b->kind == SP_CMD_DISPATCH;
        if (memcmp(a, b, dispatch ? sizeof(struct sp_cmd_dispatch) : b->nbytes))
            return 0;
        if (dispatch && g->serials[n++] != kernel_of((const void *)b)->serial)
            return 0;
        at += b->nbytes;
    }
    return 1;
}

static void drop(struct sp_cuda_graph *g)
{
    if (g->exec)
        sp_cuGraphExecDestroy(g->exec);
    if (g->graph)
        sp_cuGraphDestroy(g->graph);
    free(g->records);
    free(g->nodes);
    free(g->serials);
    memset(g, 0, sizeof *g);
}

void sp_cuda_graphs_drop(struct sp_cuda_queue *q)
{
    for (int i = 0; i < SP_CUDA_GRAPH_SLOTS; i++)
        drop(&q->graphs[i]);
}

/* Stores the records of the flight `f` in the least recently used graph slot. If memory is short,
 * the slot stays empty. */
static void remember(struct sp_cuda_queue *q, const struct sp_cuda_flight *f)
{
    struct sp_cuda_graph *g = &q->graphs[0];
    uint32_t dispatches = 0, n = 0;
    for (int i = 1; i < SP_CUDA_GRAPH_SLOTS; i++)
        if (q->graphs[i].seen < g->seen)
            g = &q->graphs[i];
    drop(g);
    for (size_t at = 0; at < f->nbytes; at += ((const struct sp_cmd *)(const void *)(f->records + at))->nbytes)
        dispatches += ((const struct sp_cmd *)(const void *)(f->records + at))->kind == SP_CMD_DISPATCH;
    g->records = malloc(f->nbytes);
    g->nodes = calloc(dispatches + 1, sizeof *g->nodes);
    g->serials = calloc(dispatches + 1, sizeof *g->serials);
    if (!g->records || !g->nodes || !g->serials) {
        drop(g);
        return;
    }
    memcpy(g->records, f->records, f->nbytes);
    for (size_t at = 0; at < f->nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + at);
        if (head->kind == SP_CMD_DISPATCH)
            g->serials[n++] = kernel_of((const void *)head)->serial;
        at += head->nbytes;
    }
    g->nbytes = f->nbytes;
    g->times = 1;
    g->seen = q->submissions;
}

/* Returns the parameters of the graph's kernel node for dispatch `d`. Fills `at` with the addresses
 * of the arguments. */
static struct sp_cu_kernel_node kernel_node(const struct sp_cmd_dispatch *d, void **at)
{
    const struct sp_cuda_kernel *k = kernel_of(d);
    struct sp_cu_kernel_node p = {.function = k->function, .shared_nbytes = d->shared_nbytes, .args = at};
    memcpy(p.grid, d->groups, sizeof p.grid);
    memcpy(p.block, d->group_size, sizeof p.block);
    for (uint32_t i = 0; i < k->sig.nargs; i++)
        at[i] = (char *)(uintptr_t)(d + 1) + k->sig.args[i].offset;
    return p;
}

static int add_copy(struct sp_cuda_queue *q, void **node, void *graph, void **after, const struct sp_cmd_copy *c)
{
    struct sp_cu_copy_node p;
    memset(&p, 0, sizeof p);
    p.src.memory = p.dst.memory = CU_MEMORY_UNIFIED;
    p.src.device = c->src;
    p.dst.device = c->dst;
    p.width_nbytes = c->count;
    p.height = p.depth = 1;
    return SP_CUDA_Q(q, cuGraphAddMemcpyNode, node, graph, after, *after != NULL, &p, q->dev->context);
}

static int add_fill(struct sp_cuda_queue *q, void **node, void *graph, void **after, const struct sp_cmd_fill *f)
{
    struct sp_cu_fill_node p = {.dst = f->dst, .element_nbytes = f->pattern_nbytes, .height = 1};
    p.width = f->count / f->pattern_nbytes;
    p.value = f->pattern_nbytes == 4 ? f->pattern : f->pattern & ((1u << 8 * f->pattern_nbytes) - 1);
    return SP_CUDA_Q(q, cuGraphAddMemsetNode, node, graph, after, *after != NULL, &p, q->dev->context);
}

static int add(struct sp_cuda_queue *q, struct sp_cuda_graph *g, uint32_t *n, const struct sp_cmd *head, void **after)
{
    const void *record = head;
    void *node = NULL, *at[SP_MAX_ARGS];
    int rc;
    if (head->kind == SP_CMD_COPY) {
        rc = add_copy(q, &node, g->graph, after, record);
    } else if (head->kind == SP_CMD_FILL) {
        rc = add_fill(q, &node, g->graph, after, record);
    } else {
        struct sp_cu_kernel_node p = kernel_node(record, at);
        rc = SP_CUDA_Q(q, cuGraphAddKernelNode_v2, &node, g->graph, after, *after != NULL, &p);
        g->nodes[*n] = node;
    }
    *after = node;
    return rc;
}

static int build(struct sp_cuda_queue *q, struct sp_cuda_graph *g, const struct sp_cuda_flight *f)
{
    void *after = NULL;
    uint32_t n = 0;
    int rc = SP_CUDA_Q(q, cuGraphCreate, &g->graph, 0);
    for (size_t at = 0; rc == 0 && at < f->nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + at);
        if (!is_empty(head))
            rc = add(q, g, &n, head, &after);
        n += head->kind == SP_CMD_DISPATCH;
        at += head->nbytes;
    }
    if (rc == 0)
        rc = SP_CUDA_Q(q, cuGraphInstantiateWithFlags, &g->exec, g->graph, 0);
    if (rc == 0)
        atomic_fetch_add(&q->dev->graph_builds, 1);
    return rc;
}

/* Sets the new arguments of the dispatches whose arguments have changed. */
static int update(struct sp_cuda_queue *q, struct sp_cuda_graph *g, const struct sp_cuda_flight *f)
{
    uint32_t n = 0;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < f->nbytes;) {
        const struct sp_cmd *head = (const void *)(f->records + at);
        if (head->kind == SP_CMD_DISPATCH) {
            void *node = g->nodes[n++], *args[SP_MAX_ARGS];
            if (node && memcmp(head, g->records + at, head->nbytes)) {
                struct sp_cu_kernel_node p = kernel_node((const void *)head, args);
                rc = SP_CUDA_Q(q, cuGraphExecKernelNodeSetParams_v2, g->exec, node, &p);
                atomic_fetch_add(&q->dev->graph_updates, 1);
            }
        }
        at += head->nbytes;
    }
    return rc;
}

int sp_cuda_run_graph(struct sp_cuda_queue *q, struct sp_cuda_flight *f, int *rc)
{
    struct sp_cuda *dev = q->dev;
    struct sp_cuda_graph *g = NULL;
    uint32_t least = atomic_load_explicit(&dev->graph_nodes, memory_order_relaxed);
    if (!(dev->info.features & SP_CUDA_GRAPHS) || f->nbytes < least * sizeof(struct sp_cmd_copy) ||
        count_nodes(f->records, f->nbytes) < least)
        return 0;
    q->submissions++;
    for (int i = 0; i < SP_CUDA_GRAPH_SLOTS && !g; i++)
        if (alike(&q->graphs[i], f))
            g = &q->graphs[i];
    if (!g) {
        remember(q, f);
        return 0;
    }
    g->seen = q->submissions;
    int ready = g->exec ? update(q, g, f) : build(q, g, f);
    if (ready != 0) { /* no graph: the caller replays the records call by call */
        drop(g);
        *rc = atomic_load(&dev->common.lost) ? -ENODEV : 0;
        return *rc != 0;
    }
    memcpy(g->records, f->records, f->nbytes);
    atomic_fetch_add(&dev->graph_launches, 1);
    *rc = sp_cuda_failed(q, "cuGraphLaunch", sp_cuGraphLaunch(g->exec, q->stream));
    f->ncalls += *rc == 0;
    return 1;
}
