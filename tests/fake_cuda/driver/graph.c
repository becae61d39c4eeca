/* "Graph Management". Nodes run one after another in the order in which they were
 * added: a node can only depend on what is there already, so that order is always right. A graph exec is a plan of ops;
 * a launch queues one op that holds the plan, and a change makes a new plan when the old one is still queued. */
#include "../include/fake.h"

#include <stdlib.h>
#include <string.h>

enum { KERNEL = 0, MEMCPY = 1, MEMSET = 2, HOST = 3, EMPTY = 5 }; /* CUgraphNodeType */
struct node {
    CUgraphNode handle;
    struct fk_graph *graph;
    struct node *next;
    size_t index;
    int type;
    struct fk_op op;
};
struct fk_graph {
    CUgraph handle;
    struct node *first, **last;
    size_t count;
};
struct fk_plan {
    _Atomic int references;
    size_t count;
    struct fk_op ops[];
};
struct exec {
    CUgraphExec handle;
    struct fk_context *ctx;
    struct fk_plan *plan;
};

static void plan_release(struct fk_plan *plan)
{
    if (atomic_fetch_sub(&plan->references, 1) != 1)
        return;
    for (size_t i = 0; i < plan->count; i++)
        fk_op_drop(&plan->ops[i]);
    free(plan);
}

static int run_graph(struct fk_stream *stream, struct fk_op *op)
{
    struct fk_plan *const plan = op->graph.plan;
    int rc = 0;
    for (size_t i = 0; i < plan->count && rc == 0; i++)
        rc = fk_run_timed(stream, &plan->ops[i], op->queued);
    return rc;
}

void fk_graph_op_drop(struct fk_op *op)
{
    if (op->run == run_graph)
        plan_release(op->graph.plan);
}

int fk_op_clone(const struct fk_op *op, struct fk_op *out)
{
    *out = *op;
    if (op->run == run_graph)
        atomic_fetch_add(&op->graph.plan->references, 1);
    else if (op->run == fk_run_kernel && op->kernel.far) {
        if (!(out->kernel.far = malloc(op->kernel.nbytes)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(out->kernel.far, op->kernel.far, op->kernel.nbytes);
    } else if (op->run == fk_run_copy)
        out->copy.staged = NULL; /* a node reads its source when it runs */
    return 0;
}

/* ---- graphs ---- */

struct fk_graph *fk_graph_new(void)
{
    struct fk_graph *const g = calloc(1, sizeof *g);
    if (!g || !(g->handle = fk_handle_new(FK_GRAPH, g)))
        return free(g), NULL;
    g->last = &g->first;
    return g;
}

static int append(struct fk_graph *g, int type, const struct fk_op *op, CUgraphNode *out)
{
    struct node *const n = calloc(1, sizeof *n);
    if (!n || !(n->handle = fk_handle_new(FK_NODE, n)))
        return free(n), CUDA_ERROR_OUT_OF_MEMORY;
    n->graph = g;
    n->type = type;
    n->index = g->count++;
    n->op = *op;
    *g->last = n;
    g->last = &n->next;
    if (out)
        *out = n->handle;
    return 0;
}

void fk_graph_free(struct fk_graph *g)
{
    for (struct node *n = g->first, *next; n; n = next) {
        next = n->next;
        fk_op_drop(&n->op);
        fk_handle_free(n->handle);
        free(n);
    }
    fk_handle_free(g->handle);
    free(g);
}

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    FK_ENTER_CONTEXT(cuGraphCreate);
    (void)ctx;
    if (!graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct fk_graph *const g = fk_graph_new();
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = g->handle;
    return 0;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    FK_ENTER(cuGraphDestroy);
    struct fk_graph *const g = fk_object(graph, FK_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_VALUE;
    fk_graph_free(g);
    return 0;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    size_t i = 0;
    FK_ENTER(cuGraphGetNodes);
    const struct fk_graph *const g = fk_object(graph, FK_GRAPH);
    if (!g || !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (nodes)
        for (const struct node *n = g->first; n && i < *count; n = n->next)
            nodes[i++] = n->handle;
    *count = nodes ? i : g->count;
    return 0;
}

CUresult cuGraphNodeGetType(CUgraphNode node, int *type)
{
    FK_ENTER(cuGraphNodeGetType);
    const struct node *const n = fk_object(node, FK_NODE);
    if (!n || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = n->type;
    return 0;
}

/* The graph, when it and every dependency are good. */
static struct fk_graph *checked(CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    struct fk_graph *const g = fk_object(graph, FK_GRAPH);
    if (!g || (count && !dependencies))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const struct node *const n = fk_object(dependencies[i], FK_NODE);
        if (!n || n->graph != g)
            return NULL;
    }
    return g;
}

static int kernel_op(struct fk_context *ctx, const CUDA_KERNEL_NODE_PARAMS_v2 *p, struct fk_op *out)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ}, block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    memset(out, 0, sizeof *out);
    out->run = fk_run_kernel;
    out->engine = FK_COMPUTE;
    return fk_launch_fill(ctx, &out->kernel, p->func, grid, block, p->sharedMemBytes, p->kernelParams, p->extra);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct fk_op op;
    FK_ENTER_CONTEXT(cuGraphAddKernelNode_v2);
    struct fk_graph *const g = checked(graph, dependencies, count);
    if (!g || !node)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = kernel_op(ctx, params, &op);
    return rc ? rc : append(g, KERNEL, &op, node);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    const struct fk_op op = {.run = fk_run_nothing};
    FK_ENTER_CONTEXT(cuGraphAddEmptyNode);
    (void)ctx;
    struct fk_graph *const g = checked(graph, dependencies, count);
    return g && node ? append(g, EMPTY, &op, node) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS *params)
{
    FK_ENTER_CONTEXT(cuGraphAddHostNode);
    (void)ctx;
    struct fk_graph *const g = checked(graph, dependencies, count);
    if (!g || !node || !params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    const struct fk_op op = {.run = fk_run_host, .host = {params->fn, NULL, params->userData, NULL}};
    return append(g, HOST, &op, node);
}

/* A side of a three-dimensional copy that is one run of bytes; 0: it is not. */
static uint64_t side(int type, const void *host, CUdeviceptr device, size_t x)
{
    return (type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : type == CU_MEMORYTYPE_ARRAY ? 0 : device) + x;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMCPY3D *p, CUcontext context)
{
    FK_ENTER_CONTEXT(cuGraphAddMemcpyNode);
    (void)ctx;
    struct fk_graph *const g = checked(graph, dependencies, count);
    if (!g || !node || !p || !fk_object(context, FK_CONTEXT) || p->WidthInBytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->Height > 1 || p->Depth > 1 || p->srcY || p->srcZ || p->dstY || p->dstZ)
        return CUDA_ERROR_NOT_SUPPORTED; /* one run of bytes is all that is needed so far */
    const uint64_t dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes);
    const uint64_t src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes);
    const bool to_host = p->dstMemoryType == CU_MEMORYTYPE_HOST, from_host = p->srcMemoryType == CU_MEMORYTYPE_HOST;
    if ((!to_host && !fk_in_block(dst, p->WidthInBytes)) || (!from_host && !fk_in_block(src, p->WidthInBytes)))
        return CUDA_ERROR_INVALID_VALUE;
    const struct fk_op op = {.run = fk_run_copy, .engine = to_host ? FK_D2H : from_host ? FK_H2D : FK_D2D,
                             .copy = {dst, src, p->WidthInBytes, NULL}};
    return append(g, MEMCPY, &op, node);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
    FK_ENTER_CONTEXT(cuGraphAddMemsetNode);
    struct fk_graph *const g = checked(graph, dependencies, count);
    if (!g || !node || !p || !fk_object(context, FK_CONTEXT))
        return CUDA_ERROR_INVALID_VALUE;
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || p->width == 0 || p->height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fk_reachable(ctx, p->dst, (p->height - 1) * p->pitch + p->width * p->elementSize))
        return CUDA_ERROR_INVALID_VALUE;
    const struct fk_op op = {.run = fk_run_fill, .engine = FK_D2D,
                             .fill = {p->dst, p->pitch, p->width, p->height, p->value, p->elementSize}};
    return append(g, MEMSET, &op, node);
}

/* ---- execs ---- */

static struct fk_plan *plan_of(size_t count, const struct fk_op *from, const struct node *nodes)
{
    struct fk_plan *const plan = calloc(1, sizeof *plan + count * sizeof *plan->ops);
    if (!plan)
        return NULL;
    atomic_store(&plan->references, 1);
    for (; plan->count < count; plan->count++) {
        if (fk_op_clone(from ? &from[plan->count] : &nodes->op, &plan->ops[plan->count]) != 0)
            return plan_release(plan), NULL;
        nodes = nodes ? nodes->next : NULL;
    }
    return plan;
}

static int instantiate(struct fk_context *ctx, CUgraphExec *exec, CUgraph graph)
{
    const struct fk_graph *const g = fk_object(graph, FK_GRAPH);
    if (!exec || !g)
        return CUDA_ERROR_INVALID_VALUE;
    struct exec *const e = calloc(1, sizeof *e);
    if (!e || !(e->plan = plan_of(g->count, NULL, g->first)) || !(e->handle = fk_handle_new(FK_EXEC, e))) {
        if (e && e->plan)
            plan_release(e->plan);
        return free(e), CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->ctx = ctx;
    *exec = e->handle;
    return 0;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    FK_ENTER_CONTEXT(cuGraphInstantiateWithFlags);
    return flags > 15 ? CUDA_ERROR_INVALID_VALUE : instantiate(ctx, exec, graph);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    FK_ENTER_CONTEXT(cuGraphInstantiateWithParams);
    if (!params || params->flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = instantiate(ctx, exec, graph);
    params->result_out = rc != 0;
    params->hErrNode_out = NULL;
    return rc;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    FK_ENTER(cuGraphExecDestroy);
    struct exec *const e = fk_object(exec, FK_EXEC);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    fk_handle_free(e->handle);
    plan_release(e->plan);
    free(e);
    return 0;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    struct fk_stream *s;
    FK_ENTER_CONTEXT(cuGraphUpload);
    return fk_object(exec, FK_EXEC) ? fk_stream_of(ctx, stream, &s) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    struct fk_stream *s;
    FK_ENTER_CONTEXT(cuGraphLaunch);
    const struct exec *const e = fk_object(exec, FK_EXEC);
    if (!e)
        return CUDA_ERROR_INVALID_VALUE;
    int rc = fk_stream_of(ctx, stream, &s);
    struct fk_op *const op = rc == 0 ? fk_begin(s, run_graph, FK_NO_ENGINE, &rc) : NULL;
    if (!op)
        return rc;
    atomic_fetch_add(&e->plan->references, 1);
    op->graph.plan = e->plan;
    fk_push(s, op);
    return 0;
}

/* Launches that are queued keep what they were launched with. The node is one of the graph that the exec was made of. */
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct fk_op op;
    FK_ENTER_CONTEXT(cuGraphExecKernelNodeSetParams_v2);
    struct exec *const e = fk_object(exec, FK_EXEC);
    const struct node *const n = fk_object(node, FK_NODE);
    if (!e || !n || n->type != KERNEL || n->index >= e->plan->count)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = kernel_op(ctx, params, &op);
    if (rc != 0)
        return rc;
    if (atomic_load(&e->plan->references) > 1) {
        struct fk_plan *const fresh = plan_of(e->plan->count, e->plan->ops, NULL);
        if (!fresh)
            return fk_op_drop(&op), CUDA_ERROR_OUT_OF_MEMORY;
        plan_release(e->plan);
        e->plan = fresh;
    }
    fk_op_drop(&e->plan->ops[n->index]);
    e->plan->ops[n->index] = op;
    return 0;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct fk_op op;
    FK_ENTER_CONTEXT(cuGraphKernelNodeSetParams_v2);
    struct node *const n = fk_object(node, FK_NODE);
    if (!n || n->type != KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    const int rc = kernel_op(ctx, params, &op);
    if (rc != 0)
        return rc;
    fk_op_drop(&n->op);
    n->op = op;
    return 0;
}

/* ---- for capture.c ---- */

static int type_of(const struct fk_op *op)
{
    return op->run == fk_run_kernel ? KERNEL : op->run == fk_run_copy ? MEMCPY : op->run == fk_run_fill ? MEMSET
           : op->run == fk_run_host ? HOST : EMPTY;
}

int fk_graph_append(struct fk_graph *g, const struct fk_op *op)
{
    struct fk_op copy;
    const int rc = fk_op_clone(op, &copy);
    return rc ? rc : append(g, type_of(op), &copy, NULL);
}

CUgraph fk_graph_handle(const struct fk_graph *g)
{
    return g->handle;
}
