/* A queue's objects in the kernel. */
#ifndef SP_AMDGPU_CONTEXT_H
#define SP_AMDGPU_CONTEXT_H
#include "queue.h"

/* Makes a context in the kernel. 0 or -errno. Waits if memory is short. */
int sp_amdgpu_context_new(struct sp_amdgpu *dev, uint32_t *id);
void sp_amdgpu_context_free(struct sp_amdgpu *dev, uint32_t id);
int sp_amdgpu_queue_make(struct sp_amdgpu_queue *q);
void sp_amdgpu_queue_unmake(struct sp_amdgpu_queue *q);
/* Replaces a failed context, whose jobs have ended. `flags` receives the reason (QUERY_STATE2). */
int sp_amdgpu_queue_renew(struct sp_amdgpu_queue *q, uint64_t *flags);
#endif
