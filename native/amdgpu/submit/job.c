/* One job: an IB and the arguments of its dispatches in a slot of the queue's ring, submitted with one CS ioctl. A slot comes
 * round again when its job is done: as many jobs as slots are in flight at most. */
#include "job.h"
#include "amdgpu/packets/order.h"
#include "amdgpu/progress/progress.h"
#include "core/base.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { CHUNKS = 5 };
static const uint64_t NOMEM_NS = UINT64_C(1000000000), ROOM_NS = UINT64_C(20) * 1000000000;

/* Entities are not ordered among themselves: the first job of a submission that follows one of the other engine waits for
 * that. All jobs of the submission itself, and those that follow it, come after this one. */
static void wait_for_other_engine(struct sp_job *job)
{
    const struct sp_flight *before = job->q->tail;
    if (before && before != job->flight && before->engine != job->flight->engine && before->rc == 0)
        job->waits[job->nwaits++] = (struct drm_amdgpu_cs_chunk_syncobj){.handle = job->q->syncobj, .point = before->value};
}

int sp_job_begin(struct sp_job *job, uint64_t slot)
{
    struct sp_amdgpu_queue *q = job->q;
    struct sp_engine *e = job->flight->engine;
    int rc = sp_amdgpu_room(q, e, ROOM_NS);
    if (rc)
        return rc;
    uint64_t at = slot * SP_SLOT_NBYTES;
    *job = (struct sp_job){.q = q, .flight = job->flight, .args_at = SP_SLOT_NBYTES, .va = e->ring->va + at};
    job->copies_only = e->ip == AMDGPU_HW_IP_DMA;
    job->ib = (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + at);
    sp_job_start(job);
    wait_for_other_engine(job);
    return 0;
}

struct request {
    struct drm_amdgpu_cs_chunk chunk[CHUNKS];
    uint64_t pointer[CHUNKS];
    uint32_t count;
};

static void add(struct request *r, uint32_t id, const void *data, size_t nbytes)
{
    r->chunk[r->count] = (struct drm_amdgpu_cs_chunk){
        .chunk_id = id, .length_dw = (uint32_t)(nbytes / 4), .chunk_data = (uint64_t)(uintptr_t)data};
    r->pointer[r->count] = (uint64_t)(uintptr_t)&r->chunk[r->count];
    r->count++;
}

/* CS until it is taken. Memory that is short for the moment is waited for: our own jobs first, which hold some, then others, as
 * RADV does, every 1 ms for up to 1 s. A context that failed is made anew, once. */
static int cs(struct sp_amdgpu_queue *q, const struct request *r, uint64_t *seq)
{
    uint64_t until = 0;
    for (int renewed = 0;;) {
        union drm_amdgpu_cs args;
        memset(&args, 0, sizeof args);
        args.in = (struct drm_amdgpu_cs_in){
            .ctx_id = q->ctx, .num_chunks = r->count, .chunks = (uint64_t)(uintptr_t)r->pointer};
        int rc = sp_amdgpu_ioctl(q->dev, DRM_IOCTL_AMDGPU_CS, &args);
        *seq = args.out.handle;
        if (rc == -ENOMEM && until == 0) {
            rc = sp_amdgpu_idle(q);
            if (rc || (q->sending && q->sending->rc))
                return rc ? rc : q->sending->rc;
            until = sp_clock_ns() + NOMEM_NS;
        } else if (rc == -ENOMEM && sp_clock_ns() < until) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        } else if ((rc == -ECANCELED || rc == -ENODATA || rc == -ETIME) && !renewed++) {
            rc = sp_amdgpu_recover(q, rc);
            if (rc || (q->sending && q->sending->rc)) /* what it had submitted before has gone with the old context */
                return rc ? rc : q->sending->rc;
        } else {
            return rc < 0 ? rc : 0;
        }
    }
}

int sp_job_send(struct sp_job *job, uint64_t point)
{
    struct sp_amdgpu_queue *q = job->q;
    struct sp_amdgpu *dev = q->dev;
    struct sp_engine *e = job->flight->engine;
    /* A user's SDMA IB cannot flush caches, since GCR_REQ is the kernel's: the flag asks the kernel to. It does so before the job
     * waits for earlier jobs of its own ring; those are copies, which go through L2 as this one does. Jobs of other rings have
     * ended by then. */
    struct drm_amdgpu_cs_chunk_ib ib = {.flags = job->copies_only ? AMDGPU_IB_FLAG_EMIT_MEM_SYNC : 0,
                                        .va_start = job->va,
                                        .ib_bytes = job->ndw * 4,
                                        .ip_type = e->ip};
    struct drm_amdgpu_cs_chunk_fence fence = {
        .handle = q->fence->bo->handle, .offset = (uint32_t)(sizeof(uint64_t) * (uint32_t)(e - q->engine))};
    struct drm_amdgpu_cs_chunk_syncobj signal = {.handle = q->syncobj, .point = point};
    struct drm_amdgpu_bo_list_in list = {.operation = UINT32_MAX, .list_handle = UINT32_MAX, .bo_info_size = 8};
    struct request r = {.count = 0};
    add(&r, AMDGPU_CHUNK_ID_IB, &ib, sizeof ib);
    add(&r, AMDGPU_CHUNK_ID_FENCE, &fence, sizeof fence);
    if (point)
        add(&r, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &signal, sizeof signal);
    if (job->nwaits)
        add(&r, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, job->waits, job->nwaits * sizeof *job->waits);
    /* Another thread may free a listed memory between the look at the list and the ioctl, which is -ENOENT then. */
    enum { MOST_LOOKS = 100 };
    const uint32_t before = r.count;
    uint64_t seq;
    int rc = -ENOENT;
    for (int i = 0; rc == -ENOENT && i < MOST_LOOKS; i++) {
        int64_t listed = sp_amdgpu_listed(dev, &q->list, &q->most_list);
        if (listed < 0)
            return (int)listed;
        list.bo_number = (uint32_t)listed;
        list.bo_info_ptr = (uint64_t)(uintptr_t)q->list;
        r.count = before;
        if (listed)
            add(&r, AMDGPU_CHUNK_ID_BO_HANDLES, &list, sizeof list);
        rc = cs(q, &r, &seq);
    }
    if (rc)
        return rc;
    if (!job->copies_only)
        q->measured[e->jobs % SP_JOBS] = job->measured;
    e->jobs++;
    e->base = e->jobs - seq;
    atomic_fetch_add_explicit(&dev->jobs, 1, memory_order_relaxed);
    if (job->copies_only)
        atomic_fetch_add_explicit(&dev->dma_jobs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&dev->ib_ndw, job->ndw, memory_order_relaxed);
    atomic_fetch_add_explicit(&dev->dispatches, job->ndispatches, memory_order_relaxed);
    return 0;
}
