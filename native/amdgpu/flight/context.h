/* What a queue has in the kernel driver: a context, a timeline syncobj, a fence page. */
#ifndef SP_AMDGPU_CONTEXT_H
#define SP_AMDGPU_CONTEXT_H
#include "queue.h"

/* Creates a context in the kernel driver. Returns 0 or -errno. Waits for memory if the kernel
 * driver has none. */
int sp_amdgpu_context_new(struct sp_amdgpu *dev, uint32_t *id);
void sp_amdgpu_context_free(struct sp_amdgpu *dev, uint32_t id);
int sp_amdgpu_queue_make(struct sp_amdgpu_queue *q);
void sp_amdgpu_queue_unmake(struct sp_amdgpu_queue *q);
/* Replaces a failed context all of whose jobs have ended. `flags` receives the reason of the
 * failure (AMDGPU_CTX_OP_QUERY_STATE2). */
int sp_amdgpu_queue_renew(struct sp_amdgpu_queue *q, uint64_t *flags);
#endif
