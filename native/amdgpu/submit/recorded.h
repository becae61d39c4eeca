/* Recorded submissions, which are sent again without encoding. */
#ifndef SP_AMDGPU_RECORDED_H
#define SP_AMDGPU_RECORDED_H
#include "amdgpu/packets/ib.h"

/* The caller has entered the queue. Returns the value of records that were sent again; they need no
 * check. 0: submit them as new records. Or -errno. */
int64_t sp_recorded_again(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
/* A slot for records whose IB may be kept; NULL: none is free, or the IB may not be kept. */
struct sp_recorded *sp_recorded_begin(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
/* The slot of the ring for the next job of a flight. */
uint64_t sp_recorded_slot(const struct sp_amdgpu_queue *q, const struct sp_flight *f);
/* the job holds its whole submission, and was sent */
void sp_recorded_keep(const struct sp_job *job);
void sp_recorded_free(struct sp_amdgpu_queue *q);
#endif
