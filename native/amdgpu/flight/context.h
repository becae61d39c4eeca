/* What a queue has of the kernel. */
#ifndef SP_AMDGPU_CONTEXT_H
#define SP_AMDGPU_CONTEXT_H
#include "queue.h"

/* A context of the kernel: 0 or -errno. Want of memory is waited for. */
int sp_amdgpu_context_new(struct sp_amdgpu *dev, uint32_t *id);
void sp_amdgpu_context_free(struct sp_amdgpu *dev, uint32_t id);
int sp_amdgpu_queue_make(struct sp_amdgpu_queue *q);
void sp_amdgpu_queue_unmake(struct sp_amdgpu_queue *q);
/* A new context in place of one that failed, whose jobs have ended; `flags` say how (QUERY_STATE2). */
int sp_amdgpu_queue_renew(struct sp_amdgpu_queue *q, uint64_t *flags);
#endif
