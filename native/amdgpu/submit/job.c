/* One job: an IB and the arguments of its dispatches in a slot of the queue's ring, submitted with one CS ioctl. A slot comes
 * round again when its job is done: as many jobs as slots are in flight at most. */
#include "amdgpu/device/device.h"

#include "gen/pm4_packets.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* What ends an IB: waiting for copies, two clocks, idle packets, padding. */
enum { TAIL_NDW = 7 + 16 + SP_AMDGPU_PACKETS / 2 + 8, IB_ALIGN_NDW = 8, IDLE_AT = 64, CHUNKS = 5 };
static const uint64_t NOMEM_NS = UINT64_C(1000000000), ROOM_NS = UINT64_C(20) * 1000000000;

static void put_packets(struct sp_job *job, const struct sp_amdgpu_packets *p)
{
    uint32_t *to = sp_job_put(job, p->ndw);
    memcpy(to, p->dwords, p->ndw * sizeof *to);
    if (!p->va_at[0])
        return;
    job->q->idles++;
    for (int i = 0; i < 2; i++) {
        uint64_t va = job->q->fence->va + IDLE_AT;
        to[p->va_at[i]] = (uint32_t)va;
        to[p->va_at[i] + 1] = (uint32_t)(va >> 32);
        to[p->value_at[i]] = job->q->idles;
    }
}

/* Entities are not ordered among themselves: the first job of a submission that follows one of the other engine waits for
 * that. All jobs of the submission itself, and those that follow it, come after this one. */
static void wait_for_other_engine(struct sp_job *job)
{
    const struct sp_flight *before = job->q->tail;
    if (before && before != job->flight && before->engine != job->flight->engine && before->rc == 0)
        job->waits[job->nwaits++] = (struct drm_amdgpu_cs_chunk_syncobj){.handle = job->q->syncobj, .point = before->value};
}

int sp_job_begin(struct sp_job *job)
{
    struct sp_amdgpu_queue *q = job->q;
    struct sp_engine *e = job->flight->engine;
    int rc = sp_amdgpu_room(q, e, ROOM_NS);
    if (rc)
        return rc;
    uint64_t at = sp_recorded_slot(job) * SP_SLOT_NBYTES;
    *job = (struct sp_job){.q = q, .flight = job->flight, .args_at = SP_SLOT_NBYTES, .va = e->ring->va + at};
    job->copies_only = e->ip == AMDGPU_HW_IP_DMA;
    job->ib = (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + at);
    if (!job->copies_only)
        put_packets(job, &q->dev->setup.begin);
    wait_for_other_engine(job);
    return 0;
}

int sp_job_fits(const struct sp_job *job, uint32_t ndw, uint64_t args_nbytes)
{
    return ((uint64_t)job->ndw + ndw + TAIL_NDW) * 4 + args_nbytes + 256 <= job->args_at;
}

uint32_t *sp_job_put(struct sp_job *job, uint32_t ndw)
{
    uint32_t *to = job->ib + job->ndw;
    memset(to, 0, ndw * sizeof *to);
    job->ndw += ndw;
    return to;
}

void *sp_job_args(struct sp_job *job, uint64_t nbytes, uint64_t align, uint64_t *va)
{
    job->args_at = (job->args_at - nbytes) & ~(align - 1);
    *va = job->va + job->args_at;
    void *to = (char *)job->ib + job->args_at;
    memset(to, 0, nbytes);
    return to;
}

/* A copy of no bytes that waits for those before it, as RADV's captures have it. */
static void wait_for_copies(struct sp_job *job)
{
    if (!job->copying)
        return;
    uint32_t *p = sp_job_put(job, PM4_DMA_DATA_NDW);
    sp_put(p, PM4_HEADER_TYPE, 3);
    sp_put(p, PM4_HEADER_OPCODE, PM4_DMA_DATA);
    sp_put(p, PM4_HEADER_COUNT, PM4_DMA_DATA_NDW - 2);
    sp_put(p, PM4_DMA_DATA_CONTROL_DST_SEL, 2);
    sp_put(p, PM4_DMA_DATA_CONTROL_CP_SYNC, 1);
    job->copying = 0;
}

void sp_job_order(struct sp_job *job)
{
    if (job->copies_only) {
        sp_sdma_order(job);
        return;
    }
    wait_for_copies(job);
    if (job->dirty)
        put_packets(job, &job->q->dev->setup.between);
    job->dirty = 0;
}

static void end_ib(struct sp_job *job)
{
    if (job->copies_only) {
        sp_sdma_end(job);
    } else {
        wait_for_copies(job);
        put_packets(job, &job->q->dev->setup.idle);
        while (job->ndw % IB_ALIGN_NDW)
            *sp_job_put(job, 1) = job->q->dev->setup.pad;
    }
    atomic_thread_fence(memory_order_seq_cst); /* also empties write-combining buffers on x86 */
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

int sp_job_submit(struct sp_job *job, uint64_t point)
{
    sp_job_measure_end(job);
    end_ib(job);
    int rc = sp_job_send(job, point);
    if (rc == 0 && point)
        sp_recorded_keep(job);
    job->flight->begun |= rc == 0;
    return rc;
}

int64_t sp_amdgpu_encode(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, uint32_t *out, size_t capacity)
{
    struct sp_engine *e = &q->engine[SP_ENGINE_COMPUTE];
    struct sp_flight flight = {.engine = e};
    struct sp_job job = {.q = q, .flight = &flight};
    int64_t rc = !sp_queue_usable(&q->common) ? -ECHILD : sp_amdgpu_check(q->dev, records, nbytes);
    if (rc)
        return rc;
    pthread_mutex_lock(q->common.lock);
    uint64_t jobs = e->jobs;
    rc = atomic_load(&q->common.closing) ? -ESHUTDOWN : sp_job_begin(&job);
    if (rc == 0)
        rc = sp_encode(&job, records, nbytes);
    if (rc == SP_JOB_FULL || (rc == 0 && e->jobs != jobs))
        rc = -E2BIG; /* more than one; copies among the first may have run */
    if (rc == 0) {
        end_ib(&job);
        memcpy(out, job.ib, (job.ndw < capacity ? job.ndw : capacity) * sizeof *out);
        rc = job.ndw;
    }
    pthread_mutex_unlock(q->common.lock);
    return rc;
}
