/* One job: begun in a slot of the queue's ring, sent with one ioctl. */
#ifndef SP_AMDGPU_JOB_H
#define SP_AMDGPU_JOB_H
#include "amdgpu/packets/ib.h"

/* CPU address of a slot's IB. */
static inline uint32_t *sp_job_ib(const struct sp_engine *e, uint64_t slot)
{
    return (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + slot * SP_SLOT_NBYTES);
}
/* Reasons to empty L2 besides the device's counters. OTHERS: others wrote what the job reads. ARGS:
 * its arguments overwrote earlier ones. ALL: empty everything. */
enum { SP_CACHES_OTHERS = 1, SP_CACHES_ARGS = 2, SP_CACHES_ALL = 4 };

/* Caches to empty besides those of waves, and the counters that this satisfies. */
struct sp_invalidate {
    uint32_t code, l2;
    struct sp_emptied as_of;
};

/* The reasons of the job itself. */
uint32_t sp_caches_reasons(const struct sp_job *job);
/* Fills `out` for the next job of the engine, before it is submitted. */
void sp_caches_look(struct sp_amdgpu_queue *q, struct sp_engine *e, uint32_t reasons, struct sp_invalidate *out);
/* Patches the first packet of an IB. `busy`: the IB may be in flight, so bits already set stay
 * set. */
void sp_caches_put(uint32_t *ib, const struct sp_invalidate *invalid, uint32_t busy);
/* Call it after the kernel has accepted the engine's newest job. */
void sp_caches_done(struct sp_engine *e, uint64_t slot, const struct sp_invalidate *invalid);
/* Call it when fewer than SP_JOBS jobs of the engine are in flight: then a slot is free. */
void sp_job_begin(struct sp_job *job, uint64_t slot);
/* Submits a finished IB. point 0: more of this submission follows. */
int sp_job_send(const struct sp_job *job, uint64_t point);
/* One CS ioctl; `pointers` are those of the chunks. A queue that was entered keeps the device's
 * descriptor open. */
static inline int sp_job_ioctl(struct sp_amdgpu_queue *q, const uint64_t *pointers, uint32_t nchunks, union drm_amdgpu_cs *args)
{
    memset(args, 0, sizeof *args);
    args->in = (struct drm_amdgpu_cs_in){.ctx_id = q->ctx, .num_chunks = nchunks, .chunks = (uint64_t)(uintptr_t)pointers};
    sp_count(&q->counted.ioctls, 1);
    return q->dev->ops->ioctl(q->dev->ops->self, q->dev->fd, DRM_IOCTL_AMDGPU_CS, args);
}
#endif
