/* Keeps the IBs of submissions, so that the same records are sent again without encoding. */
#ifndef SP_AMDGPU_IB_CACHE_H
#define SP_AMDGPU_IB_CACHE_H
#include "amdgpu/packets/ib.h"

/* Sends the IB that the queue keeps for these records. The records need no check. Returns the new
 * timeline value, 0 if the caller must submit them as new records, or -errno. The caller holds the
 * queue's lock, by sp_queue_enter. */
int64_t sp_ib_cache_resend(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
/* Returns a slot in which the queue can keep the IB of these records. Returns NULL if no slot is
 * free, or if this IB cannot be sent again. */
struct sp_cached_ib *sp_ib_cache_reserve(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
/* Returns the index of the ring's slot for the next job of the submission `f`. */
uint64_t sp_ib_cache_slot(const struct sp_amdgpu_queue *q, const struct sp_flight *f);
/* Keeps the IB of a job that was sent. The job must hold all records of its submission. */
void sp_ib_cache_store(const struct sp_job *job);
void sp_ib_cache_free(struct sp_amdgpu_queue *q);
#endif
