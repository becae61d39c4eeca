/* Packets that store the GPU's clock. */
#ifndef SP_AMDGPU_CLOCK_H
#define SP_AMDGPU_CLOCK_H
#include "ib.h"

void sp_encode_start(struct sp_job *job, uint64_t va); /* at the time the packet is read */
void sp_encode_clock(struct sp_job *job, uint64_t va); /* after all earlier work has ended */
#endif
