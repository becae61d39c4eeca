/* Builds and sends one job: an IB and the arguments of its dispatches, in a slot of the queue's
 * ring, submitted by one CS ioctl. A slot is reused when its job is done, so at most SP_JOBS jobs
 * of an engine are in flight.
 *
 * This file also chooses the caches that a job invalidates at its beginning (docs/AMDGPU_FACTS.md
 * 6.2). The waves' data caches (scalar, vector L0, GL1): always. The instruction cache: after new
 * code. L2: after a write that bypassed L2. No job needs to write L2 back, because the kernel
 * driver's fence packet does so.
 *
 * The CPU, SDMA and other devices write to memory past L2. `written` counts our own writes, and
 * those of SDMA once a job is known to have ended. A job that waits for another ring invalidates L2
 * itself after that wait. `exposed` counts memory that others may write at any time: views,
 * exports, imports, wrapped host memory. When memory is short, the kernel driver moves such memory
 * by SDMA or the CPU and counts an eviction. Only a job that would not invalidate L2 asks for the
 * count of evictions.
 *
 * All engines of a device share L2. But a job in flight on another ring may not have invalidated L2
 * yet, so each engine keeps its own state. Jobs of one engine do not overlap. So a job that
 * invalidates L2 also drops the cached arguments of all earlier jobs. */
#include "job.h"
#include "amdgpu/flight/flight.h"
#include "amdgpu/packets/order.h"
#include "amdgpu/progress/progress.h"
#include "core/base.h"
#include "gen/pm4_packets.h"
#include "bo_list.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* bytes at the end of an IB's slot, for the patterns of fills, if the engine has no memory for
 * arguments */
enum { FEW_ARGS_NBYTES = 4096 };
static const uint64_t NOMEM_NS = UINT64_C(1000000000);

/* Makes the first job of a submission wait for the previous submission, if that submission used the
 * other engine. The kernel driver does not order the jobs of two entities. All later jobs of the
 * submission come after its first job. */
static void wait_for_other_engine(struct sp_job *job)
{
    const struct sp_flight *before = job->q->tail;
    if (before && before != job->flight && before->engine != job->flight->engine && before->rc == 0)
        job->q->request.waits[job->nwaits++] =
            (struct drm_amdgpu_cs_chunk_syncobj){.handle = job->q->syncobj, .point = before->value};
}

void sp_job_begin(struct sp_job *job, uint64_t slot)
{
    struct sp_amdgpu_queue *q = job->q;
    struct sp_engine *e = job->flight->engine;
    *job = (struct sp_job){.q = q, .flight = job->flight, .slot = slot, .ib_nbytes = SP_SLOT_NBYTES};
    job->copies_only = e->ip == AMDGPU_HW_IP_DMA;
    job->va = e->ring->va + slot * SP_SLOT_NBYTES;
    job->ib = sp_job_ib(e, slot);
    if (e->args) {
        job->args_at = SP_ARGS_NBYTES;
        job->args = (unsigned char *)sp_amdgpu_host(e->args) + slot * SP_ARGS_NBYTES;
        job->args_va = e->args->va + slot * SP_ARGS_NBYTES;
    } else {
        job->args_at = FEW_ARGS_NBYTES;
        job->ib_nbytes -= FEW_ARGS_NBYTES;
        job->args = (unsigned char *)job->ib + job->ib_nbytes;
        job->args_va = job->va + job->ib_nbytes;
    }
    sp_job_start(job);
    wait_for_other_engine(job);
}

uint32_t sp_caches_reasons(const struct sp_job *job)
{
    const struct sp_engine *e = job->flight->engine;
    const int args = job->wrote && e->args && e->emptied.job <= e->used[job->slot];
    return (job->nwaits || job->shared ? SP_CACHES_OTHERS : 0) | (args ? SP_CACHES_ARGS : 0);
}

/* Returns 1 if the kernel driver has moved memory since the last query, or if the query fails. */
static int moved(struct sp_amdgpu_queue *q, struct sp_emptied *e)
{
    const uint64_t before = e->evictions;
    struct drm_amdgpu_info ask = {.return_pointer = (uint64_t)(uintptr_t)&e->evictions, .return_size = sizeof e->evictions};
    ask.query = AMDGPU_INFO_NUM_EVICTIONS;
    sp_count(&q->counted.ioctls, 1);
    return q->dev->ops->ioctl(q->dev->ops->self, q->dev->fd, DRM_IOCTL_AMDGPU_INFO, &ask) < 0 || e->evictions != before;
}

void sp_caches_look(struct sp_amdgpu_queue *q, struct sp_engine *e, uint32_t reasons, struct sp_invalidate *out)
{
    const struct sp_amdgpu *dev = q->dev;
    /* Read `exposed` before `written`, because a thread that decrements `exposed` has advanced
     * `written` first. */
    const uint64_t exposed = atomic_load(&dev->exposed);
    out->as_of = (struct sp_emptied){
        .written = atomic_load(&dev->written), .code_turn = atomic_load(&dev->code_turn), .evictions = e->emptied.evictions};
    out->code = (reasons & SP_CACHES_ALL) || out->as_of.code_turn != e->emptied.code_turn;
    out->l2 = out->code || reasons || exposed || out->as_of.written != e->emptied.written || moved(q, &out->as_of);
}

void sp_caches_put(uint32_t *ib, const struct sp_invalidate *invalid, uint32_t busy)
{
    enum { GCR = PM4_ACQUIRE_MEM_NDW - 1 };
    uint32_t packet[PM4_ACQUIRE_MEM_NDW] = {0};
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLK_INV, 1);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLV_INV, 1);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GL1_INV, 1);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLI_INV, invalid->code != 0);
    /* Linux and Mesa also set WB whenever they set INV */
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLM_INV, invalid->l2 != 0);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GLM_WB, invalid->l2 != 0);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GL2_INV, invalid->l2 != 0);
    sp_put(packet, PM4_ACQUIRE_MEM_GCR_GL2_WB, invalid->l2 != 0);
    __atomic_store_n(ib + GCR, packet[GCR] | (busy ? ib[GCR] : 0), __ATOMIC_RELAXED);
}

void sp_caches_done(struct sp_engine *e, uint64_t slot, const struct sp_invalidate *invalid)
{
    e->used[slot] = e->jobs;
    if (!invalid->l2)
        return;
    e->emptied = invalid->as_of;
    e->emptied.job = e->jobs;
}

/* Asks for the invalidation of L2 at the beginning of a job. An SDMA IB of a user cannot flush
 * caches, because GCR_REQ is reserved for the kernel driver. A flag of the IB chunk asks the kernel
 * driver to do so. Up to Linux 6.19 the kernel driver flushes before the job waits for earlier jobs
 * of its ring; later versions flush after that wait (docs/AMDGPU_FACTS.md 6.1). Both orders are
 * right: those jobs are copies, which leave nothing in L2. Jobs of other rings have ended by
 * then. */
static void invalidate(const struct sp_job *job, const struct sp_invalidate *invalid)
{
    const struct sp_cached_ib *r = job->flight->recorded;
    job->q->request.ib.flags = job->copies_only && invalid->l2 ? AMDGPU_IB_FLAG_EMIT_MEM_SYNC : 0;
    if (!job->copies_only)
        sp_caches_put(job->ib, invalid, r && r->flights > 1);
}

/* Calls the CS ioctl until the kernel driver accepts the job. If memory is short, waits as RADV
 * does: first for our own jobs, then 1 ms at a time, up to 1 s. Replaces a failed context once. */
static int cs(const struct sp_job *job, uint32_t nchunks, struct sp_invalidate *invalid, uint64_t *seq)
{
    struct sp_amdgpu_queue *q = job->q;
    uint64_t until = 0;
    for (int renewed = 0;;) {
        union drm_amdgpu_cs args;
        int rc = sp_job_ioctl(q, q->request.pointer, nchunks, &args);
        if (rc < 0)
            rc = sp_amdgpu_failed(q->dev, DRM_IOCTL_AMDGPU_CS, &args, rc);
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
            /* earlier jobs of this submission were lost with the old context, so the submission
             * fails */
            if (rc || (q->sending && q->sending->rc))
                return rc ? rc : q->sending->rc;
            sp_caches_look(q, job->flight->engine, SP_CACHES_ALL, invalid);
            invalidate(job, invalid);
        } else {
            return rc < 0 ? rc : 0;
        }
    }
}

/* Fills in the chunks of this job and returns their number. The chunk with the list of memory comes
 * last and is not counted. */
static uint32_t fill_request(const struct sp_job *job, uint64_t point)
{
    const struct sp_engine *e = job->flight->engine;
    struct sp_request *r = &job->q->request;
    r->ib.ip_type = e->ip;
    r->ib.ring = e->entity;
    r->ib.va_start = job->va;
    r->ib.ib_bytes = job->ndw * 4;
    r->fence.offset = (uint32_t)(sizeof(uint64_t) * (uint32_t)(e - job->q->engine));
    r->signal.point = point;
    r->chunk[SP_CHUNK_WAITS].length_dw = (uint32_t)(job->nwaits * sizeof *r->waits / 4);
    const int has[SP_CHUNKS] = {1, 1, point != 0, job->nwaits != 0, 1};
    uint32_t n = 0;
    for (int i = 0; i < SP_CHUNKS; i++)
        if (has[i])
            r->pointer[n++] = (uint64_t)(uintptr_t)&r->chunk[i];
    return n - 1;
}

/* Makes the list of memory (BO handles) for the job. Returns 0 or -ENOMEM. */
static int list(const struct sp_job *job, struct sp_bo_list *list)
{
    const struct sp_flight *f = job->flight;
    const int rc = sp_bo_list_update(job->q->dev, list, f->records, f->nbytes);
    if (rc || !job->shared)
        return rc;
    /* the next job of this submission copies out of another chunk of the link, so its list must be
     * made again */
    list->turn = 0;
    return sp_bo_list_add(list, job->shared->bo->handle);
}

int sp_job_send(const struct sp_job *job, uint64_t point)
{
    struct sp_amdgpu_queue *q = job->q;
    struct sp_engine *e = job->flight->engine;
    const uint32_t nchunks = fill_request(job, point);
    /* Another thread may free memory that is on the BO list before the ioctl. The ioctl then
     * returns -ENOENT, and the loop below makes the list again. The loop makes it at most
     * MOST_LOOKS times in all. */
    enum { MOST_LOOKS = 100 };
    uint64_t seq;
    int rc = -ENOENT;
    struct sp_invalidate invalid;
    sp_caches_look(q, e, sp_caches_reasons(job), &invalid);
    invalidate(job, &invalid);
    struct sp_bo_list *named = job->flight->recorded ? &job->flight->recorded->list : &q->list;
    for (int i = 0; rc == -ENOENT && i < MOST_LOOKS; i++) {
        rc = list(job, named);
        if (rc)
            return rc;
        q->request.list.bo_number = named->n;
        q->request.list.bo_info_ptr = (uint64_t)(uintptr_t)named->at;
        rc = cs(job, nchunks + (named->n > 0), &invalid, &seq);
    }
    if (rc == -EFAULT)
        sp_bo_list_say_unmapped(q->dev, named);
    if (rc)
        return rc;
    if (!job->copies_only)
        q->measured[e->jobs % SP_JOBS] = job->measured;
    sp_flight_count_job(q, e, seq, job->ndw, job->ndispatches);
    sp_caches_done(e, job->slot, &invalid);
    return 0;
}
