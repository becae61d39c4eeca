/* Makes a submission of records that are checked. The caller holds the queue's lock, by
 * sp_queue_enter. */
#ifndef SP_AMDGPU_SUBMIT_H
#define SP_AMDGPU_SUBMIT_H
#include "amdgpu/flight/queue.h"

/* Submits records. `transfer` may be NULL. On success the submission owns the memory that
 * `transfer` keeps. */
int64_t sp_amdgpu_enqueue(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, const struct sp_transfer *transfer);
/* Sends the rest of a submission; each queue has this as its `push`. */
int sp_amdgpu_push(struct sp_amdgpu_queue *q, uint64_t timeout_ns);
#endif
