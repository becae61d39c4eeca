/* A submission, after the queue is entered and the records are checked. */
#ifndef SP_AMDGPU_SUBMIT_H
#define SP_AMDGPU_SUBMIT_H
#include "amdgpu/flight/queue.h"

/* On success the submission owns what `transfer` (or NULL) keeps. */
int64_t sp_amdgpu_enqueue(struct sp_amdgpu_queue *q, const void *records, size_t nbytes, const struct sp_transfer *transfer);
int sp_amdgpu_push(struct sp_amdgpu_queue *q, uint64_t timeout_ns); /* the queue's `push` */
#endif
