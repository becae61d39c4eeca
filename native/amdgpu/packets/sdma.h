/* Writes packets of the copy ring (SDMA): copies, fills and order. */
#ifndef SP_AMDGPU_SDMA_H
#define SP_AMDGPU_SDMA_H
#include "ib.h"

void sp_sdma_copy(struct sp_job *job, uint64_t dst, uint64_t src, uint64_t nbytes);
void sp_sdma_fill(struct sp_job *job, uint64_t dst, uint32_t value, uint64_t nbytes);
void sp_sdma_order(struct sp_job *job);
void sp_sdma_end(struct sp_job *job);
#endif
