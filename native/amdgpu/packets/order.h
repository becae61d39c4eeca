/* Writes the beginning and the end of a job, and the packets that order its other packets. */
#ifndef SP_AMDGPU_ORDER_H
#define SP_AMDGPU_ORDER_H
#include "ib.h"

void sp_job_start(struct sp_job *job);
void sp_job_order(struct sp_job *job); /* Makes later packets see the writes of earlier packets. */
void sp_job_end(struct sp_job *job);
#endif
