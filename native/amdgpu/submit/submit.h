/* A submission, once entered, and the records are checked. */
#ifndef SP_AMDGPU_SUBMIT_H
#define SP_AMDGPU_SUBMIT_H
#include "amdgpu/flight/queue.h"

/* What `transfer` (or NULL) keeps is the submission's own when this succeeds. */
int64_t sp_amdgpu_enqueue(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, const struct sp_transfer *transfer);
int sp_amdgpu_push(struct sp_amdgpu_queue *q, uint64_t timeout_ns); /* the queue's `push` */
#endif
