/* Records that come again. */
#ifndef SP_AMDGPU_RECORDED_H
#define SP_AMDGPU_RECORDED_H
#include "amdgpu/packets/ib.h"

/* Entered: the value of records that were sent once more; 0: they go the way of new ones; or -errno. They need no check. */
int64_t sp_recorded_again(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
/* A slot for records whose IB may be kept; NULL: there is none, or it may not. */
struct sp_recorded *sp_recorded_begin(struct sp_amdgpu_queue *q, const void *records, size_t nbytes);
/* The slot of the ring that the next job of a flight is written to. */
uint64_t sp_recorded_slot(const struct sp_amdgpu_queue *q, const struct sp_flight *f);
void sp_recorded_keep(const struct sp_job *job); /* it has all of its submission, and was sent */
void sp_recorded_free(struct sp_amdgpu_queue *q);
#endif
