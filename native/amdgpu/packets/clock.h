/* Writes packets that store the GPU's clock. */
#ifndef SP_AMDGPU_CLOCK_H
#define SP_AMDGPU_CLOCK_H
#include "ib.h"

/* Encodes a packet that stores the GPU's clock at `va` when the CP reads the packet. */
void sp_encode_start(struct sp_job *job, uint64_t va);
/* Encodes a packet that stores the GPU's clock at `va` after all earlier work has ended. */
void sp_encode_clock(struct sp_job *job, uint64_t va);
#endif
