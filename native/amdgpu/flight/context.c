/* Creates and destroys what a queue has in the kernel driver: a context, a timeline syncobj, a page
 * for the fence, memory for IBs and clocks. */
#include "context.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum { TRIES = 100 };

static int context(struct sp_amdgpu *dev, uint32_t op, uint32_t *id, uint64_t *flags)
{
    union drm_amdgpu_ctx args;
    memset(&args, 0, sizeof args);
    args.in.op = op;
    args.in.ctx_id = op == AMDGPU_CTX_OP_ALLOC_CTX ? 0 : *id;
    int rc = sp_amdgpu_ioctl(dev, DRM_IOCTL_AMDGPU_CTX, &args);
    if (rc < 0)
        return rc;
    if (op == AMDGPU_CTX_OP_ALLOC_CTX)
        *id = args.out.alloc.ctx_id;
    if (flags)
        *flags = args.out.state.flags;
    return 0;
}

int sp_amdgpu_context_new(struct sp_amdgpu *dev, uint32_t *id)
{
    int rc = -ENOMEM;
    /* A queue cannot work without a context. So this function retries while the kernel driver has
     * no memory. */
    for (int tries = 0; rc == -ENOMEM && tries < TRIES; tries++) {
        rc = context(dev, AMDGPU_CTX_OP_ALLOC_CTX, id, NULL);
        if (rc == -ENOMEM)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return rc;
}

void sp_amdgpu_context_free(struct sp_amdgpu *dev, uint32_t id)
{
    context(dev, AMDGPU_CTX_OP_FREE_CTX, &id, NULL);
}

static int mapped(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, struct sp_amdgpu_memory **out)
{
    void *host;
    int rc = sp_amdgpu_alloc(dev, nbytes, kind, out);
    return rc ? rc : sp_amdgpu_map(*out, &host);
}

static int ring(struct sp_amdgpu *dev, uint64_t slots, uint32_t nop, struct sp_engine *e)
{
    int rc = mapped(dev, slots * SP_SLOT_NBYTES + SP_PAGE, SP_AMDGPU_IBS, &e->ring);
    if (rc == 0 && e->ip == AMDGPU_HW_IP_COMPUTE)
        rc = mapped(dev, slots * SP_ARGS_NBYTES, SP_AMDGPU_ARGS, &e->args);
    uint32_t *canary = rc ? NULL : (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + sp_canary_at(e));
    for (size_t i = 0; canary && i < SP_CANARY_NBYTES / sizeof *canary; i++)
        canary[i] = nop;
    return rc;
}

static void make_request(const struct sp_amdgpu_queue *q, struct sp_request *r)
{
    const struct {
        uint32_t id;
        size_t nbytes;
        const void *data;
    } parts[SP_CHUNKS] = {
        [SP_CHUNK_IB] = {AMDGPU_CHUNK_ID_IB, sizeof r->ib, &r->ib},
        [SP_CHUNK_FENCE] = {AMDGPU_CHUNK_ID_FENCE, sizeof r->fence, &r->fence},
        [SP_CHUNK_SIGNAL] = {AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, sizeof r->signal, &r->signal},
        [SP_CHUNK_WAITS] = {AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, 0, r->waits},
        [SP_CHUNK_LIST] = {AMDGPU_CHUNK_ID_BO_HANDLES, sizeof r->list, &r->list},
    };
    for (int i = 0; i < SP_CHUNKS; i++)
        r->chunk[i] = (struct drm_amdgpu_cs_chunk){
            .chunk_id = parts[i].id, .length_dw = (uint32_t)(parts[i].nbytes / 4), .chunk_data = (uint64_t)(uintptr_t)parts[i].data};
    r->fence.handle = q->fence->bo->handle;
    r->signal.handle = q->syncobj;
    r->list = (struct drm_amdgpu_bo_list_in){.operation = UINT32_MAX, .list_handle = UINT32_MAX, .bo_info_size = 8};
    /* a job that sends an IB of `recorded` again keeps this IP type; any other job sets its own */
    r->ib.ip_type = AMDGPU_HW_IP_COMPUTE;
    for (int i = 0; i < SP_AGAIN; i++)
        r->pointer[i] = (uint64_t)(uintptr_t)&r->chunk[i];
}

int sp_amdgpu_queue_make(struct sp_amdgpu_queue *q)
{
    struct sp_amdgpu *dev = q->dev;
    struct drm_syncobj_create sync = {.flags = 0};
    int rc = context(dev, AMDGPU_CTX_OP_ALLOC_CTX, &q->ctx, NULL);
    if (rc == 0)
        rc = sp_amdgpu_intact(dev); /* finds earlier VRAM losses; the context reports later ones */
    if (rc == 0 && (rc = sp_amdgpu_ioctl(dev, DRM_IOCTL_SYNCOBJ_CREATE, &sync)) >= 0) {
        q->syncobj = sync.handle;
        /* a whole page: the BO of a FENCE chunk must be one page */
        rc = mapped(dev, SP_PAGE, SP_AMDGPU_WORDS, &q->fence);
    }
    q->engine[SP_ENGINE_COMPUTE].ip = AMDGPU_HW_IP_COMPUTE;
    q->engine[SP_ENGINE_DMA].ip = AMDGPU_HW_IP_DMA;
    if (rc == 0)
        rc = ring(dev, SP_JOBS + SP_CACHED_IBS, dev->setup.pad, &q->engine[SP_ENGINE_COMPUTE]);
    if (rc == 0 && dev->setup.dma)
        /* IBs are padded with 0, which is a NOP of SDMA */
        rc = ring(dev, SP_JOBS, 0, &q->engine[SP_ENGINE_DMA]);
    if (rc == 0)
        rc = mapped(dev, (SP_TICKS + SP_MEASURED_TICKS) * 8, SP_AMDGPU_WORDS, &q->ticks);
    for (struct sp_engine *e = q->engine; rc == 0 && e < q->engine + SP_ENGINES; e++)
        /* store the present count of evictions: only evictions after the queue is opened matter */
        sp_amdgpu_evictions(dev, &e->emptied.evictions);
    if (rc == 0) {
        make_request(q, &q->request);
        make_request(q, &q->again);
        atomic_store(&q->page, (volatile uint64_t *)sp_amdgpu_host(q->fence));
    }
    return rc;
}

void sp_amdgpu_queue_unmake(struct sp_amdgpu_queue *q)
{
    struct drm_syncobj_destroy sync = {.handle = q->syncobj};
    atomic_store(&q->page, NULL);
    while (atomic_load(&q->pins))
        sched_yield();
    if (q->ctx)
        sp_amdgpu_context_free(q->dev, q->ctx);
    if (q->syncobj)
        sp_amdgpu_ioctl(q->dev, DRM_IOCTL_SYNCOBJ_DESTROY, &sync);
    struct sp_amdgpu_memory **all[] = {&q->fence, &q->engine[SP_ENGINE_COMPUTE].ring, &q->engine[SP_ENGINE_DMA].ring,
                                       &q->engine[SP_ENGINE_COMPUTE].args, &q->ticks, &q->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sp_amdgpu_free(*all[i]);
        *all[i] = NULL;
    }
    q->ctx = q->syncobj = 0;
}

int sp_amdgpu_queue_renew(struct sp_amdgpu_queue *q, uint64_t *flags)
{
    int rc = context(q->dev, AMDGPU_CTX_OP_QUERY_STATE2, &q->ctx, flags);
    if (rc)
        return rc;
    sp_amdgpu_context_free(q->dev, q->ctx);
    q->ctx = 0;
    rc = sp_amdgpu_context_new(q->dev, &q->ctx);
    if (rc == 0)
        rc = sp_amdgpu_intact(q->dev); /* the device may have been lost since the last check */
    for (int i = 0; i < SP_ENGINES; i++) {
        struct sp_engine *e = &q->engine[i];
        /* a new context numbers its jobs from 1, so no number is on the fence page yet */
        atomic_load(&q->page)[i] = 0;
        atomic_store(&q->seen[i], 0);
        e->base = e->jobs_done = e->jobs;
        /* Forgets the invalidations so far, because jobs of the failed context may not have run. */
        e->emptied = (struct sp_emptied){.evictions = e->emptied.evictions};
    }
    return rc;
}
