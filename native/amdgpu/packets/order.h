/* What stands between the packets of a job: how it begins, order, how it ends. */
#ifndef SP_AMDGPU_ORDER_H
#define SP_AMDGPU_ORDER_H
#include "ib.h"

void sp_job_start(struct sp_job *job);
void sp_job_order(struct sp_job *job); /* what follows sees what came before */
void sp_job_end(struct sp_job *job);
#endif
