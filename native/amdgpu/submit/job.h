/* One job: begun in a slot of the queue's ring, sent with one ioctl. */
#ifndef SP_AMDGPU_JOB_H
#define SP_AMDGPU_JOB_H
#include "amdgpu/packets/ib.h"

/* An IB, where the CPU writes it. */
static inline uint32_t *sp_job_ib(const struct sp_engine *e, uint64_t slot)
{
    return (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + slot * SP_SLOT_NBYTES);
}
/* Why L2 is emptied beside what the device tells: others wrote what the job reads; its arguments stand where some stood before;
 * everything, whatever was emptied before. */
enum { SP_CACHES_OTHERS = 1, SP_CACHES_ARGS = 2, SP_CACHES_ALL = 4 };

/* What to empty beside the caches of waves, and what that is good for. */
struct sp_invalidate {
    uint32_t code, l2;
    struct sp_emptied as_of;
};

/* The reasons that a job has by itself. */
uint32_t sp_caches_reasons(const struct sp_job *job);
/* For the next job of the engine; before it is submitted. */
void sp_caches_look(struct sp_amdgpu_queue *q, struct sp_engine *e, uint32_t reasons, struct sp_invalidate *out);
/* Into the packet that an IB begins with. `busy`: the IB may be on its way, and keeps what it has been asked for. */
void sp_caches_put(uint32_t *ib, const struct sp_invalidate *invalid, uint32_t busy);
/* The kernel has taken the job, the engine's newest. */
void sp_caches_done(struct sp_engine *e, uint64_t slot, const struct sp_invalidate *invalid);
/* A slot is free when fewer than SP_JOBS jobs of the engine are on their way. */
void sp_job_begin(struct sp_job *job, uint64_t slot);
/* Submits an IB that has been ended; point 0: more of this submission follows. */
int sp_job_send(const struct sp_job *job, uint64_t point);
/* The ioctl, once: `pointers` name the chunks. A queue that has been entered keeps the device's descriptor open. */
static inline int sp_job_ioctl(struct sp_amdgpu_queue *q, const uint64_t *pointers, uint32_t nchunks, union drm_amdgpu_cs *args)
{
    memset(args, 0, sizeof *args);
    args->in = (struct drm_amdgpu_cs_in){.ctx_id = q->ctx, .num_chunks = nchunks, .chunks = (uint64_t)(uintptr_t)pointers};
    sp_count(&q->counted.ioctls, 1);
    return q->dev->ops->ioctl(q->dev->ops->self, q->dev->fd, DRM_IOCTL_AMDGPU_CS, args);
}
#endif
