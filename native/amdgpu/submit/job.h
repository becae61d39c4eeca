/* Builds one job in a slot of the queue's ring, and sends it by one ioctl. */
#ifndef SP_AMDGPU_JOB_H
#define SP_AMDGPU_JOB_H
#include "amdgpu/packets/ib.h"

/* Returns the CPU address of a slot's IB. */
static inline uint32_t *sp_job_ib(const struct sp_engine *e, uint64_t slot)
{
    return (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + slot * SP_SLOT_NBYTES);
}
/* Reasons why a job must invalidate L2, besides counters that have changed since the last time
 * (struct sp_emptied). OTHERS: another ring or device wrote what the job reads. ARGS: the job's
 * arguments overwrote earlier arguments. ALL: invalidate everything. */
enum { SP_CACHES_OTHERS = 1, SP_CACHES_ARGS = 2, SP_CACHES_ALL = 4 };

/* Which caches a job invalidates, besides the waves' data caches (scalar, vector L0, GL1), which
 * every job invalidates: `code` for the instruction cache, `l2` for L2. `as_of` holds the values of
 * the device's counters that this invalidation covers. */
struct sp_invalidate {
    uint32_t code, l2;
    struct sp_emptied as_of;
};

/* Returns the reasons (a mask of SP_CACHES_*) for which this job needs an invalidation of L2. */
uint32_t sp_caches_reasons(const struct sp_job *job);
/* Decides which caches the next job of the engine invalidates. The caller calls this before it
 * submits the job. */
void sp_caches_look(struct sp_amdgpu_queue *q, struct sp_engine *e, uint32_t reasons, struct sp_invalidate *out);
/* Patches the first packet of an IB, which invalidates caches. `busy`: the IB may be in flight, so
 * bits that are already set stay set. */
void sp_caches_put(uint32_t *ib, const struct sp_invalidate *invalid, uint32_t busy);
/* Records what the engine's newest job invalidated, after the kernel driver has accepted that
 * job. */
void sp_caches_done(struct sp_engine *e, uint64_t slot, const struct sp_invalidate *invalid);
/* Begins a job in `slot`. The caller ensures that fewer than SP_JOBS jobs of the engine are in
 * flight, so that the slot is free. */
void sp_job_begin(struct sp_job *job, uint64_t slot);
/* Submits a finished IB. `point` is the timeline value of the submission for its last job, 0 for an
 * earlier job. */
int sp_job_send(const struct sp_job *job, uint64_t point);
/* Makes one CS ioctl with the chunks at `pointers`. The device's descriptor is open, because the
 * caller holds the queue's lock and the queue is not closed. */
static inline int sp_job_ioctl(struct sp_amdgpu_queue *q, const uint64_t *pointers, uint32_t nchunks, union drm_amdgpu_cs *args)
{
    memset(args, 0, sizeof *args);
    args->in = (struct drm_amdgpu_cs_in){.ctx_id = q->ctx, .num_chunks = nchunks, .chunks = (uint64_t)(uintptr_t)pointers};
    sp_count(&q->counted.ioctls, 1);
    return q->dev->ops->ioctl(q->dev->ops->self, q->dev->fd, DRM_IOCTL_AMDGPU_CS, args);
}
#endif
