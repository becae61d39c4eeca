/* The beginning and the end of a job, and the order between its packets. */
#ifndef SP_AMDGPU_ORDER_H
#define SP_AMDGPU_ORDER_H
#include "ib.h"

void sp_job_start(struct sp_job *job);
void sp_job_order(struct sp_job *job); /* later packets see the writes of earlier ones */
void sp_job_end(struct sp_job *job);
#endif
