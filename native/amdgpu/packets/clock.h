/* The GPU's clock, stored by packets. */
#ifndef SP_AMDGPU_CLOCK_H
#define SP_AMDGPU_CLOCK_H
#include "ib.h"

void sp_encode_start(struct sp_job *job, uint64_t va); /* as soon as the packet is read */
void sp_encode_clock(struct sp_job *job, uint64_t va); /* when everything before the packet has ended */
#endif
