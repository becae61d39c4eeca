/* Writes packets that store the GPU's clock. */
#ifndef SP_AMDGPU_CLOCK_H
#define SP_AMDGPU_CLOCK_H
#include "ib.h"

/* Stores the clock at the time when the CP reads this packet. */
void sp_encode_start(struct sp_job *job, uint64_t va);
/* Stores the clock after all earlier work has ended. */
void sp_encode_clock(struct sp_job *job, uint64_t va);
#endif
