/* One job: begun in a slot of the queue's ring, sent with one ioctl. */
#ifndef SP_AMDGPU_JOB_H
#define SP_AMDGPU_JOB_H
#include "amdgpu/packets/ib.h"

int sp_job_begin(struct sp_job *job, uint64_t slot);
/* Submits an IB that has been ended; point 0: more of this submission follows. */
int sp_job_send(const struct sp_job *job, uint64_t point);
#endif
