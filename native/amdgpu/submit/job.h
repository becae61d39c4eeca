/* One job: begun in a slot of the queue's ring, sent with one ioctl. */
#ifndef SP_AMDGPU_JOB_H
#define SP_AMDGPU_JOB_H
#include "amdgpu/packets/ib.h"

/* An IB, where the CPU writes it. */
static inline uint32_t *sp_job_ib(const struct sp_engine *e, uint64_t slot)
{
    return (uint32_t *)(void *)((char *)sp_amdgpu_host(e->ring) + slot * SP_SLOT_NBYTES);
}
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
