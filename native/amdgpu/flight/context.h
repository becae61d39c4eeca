/* What a queue has of the kernel. */
#ifndef SP_AMDGPU_CONTEXT_H
#define SP_AMDGPU_CONTEXT_H
#include "queue.h"

int sp_amdgpu_queue_make(struct sp_amdgpu_queue *q);
void sp_amdgpu_queue_unmake(struct sp_amdgpu_queue *q);
/* A new context in place of one that failed, whose jobs have ended; `flags` say how (QUERY_STATE2). */
int sp_amdgpu_queue_renew(struct sp_amdgpu_queue *q, uint64_t *flags);
#endif
