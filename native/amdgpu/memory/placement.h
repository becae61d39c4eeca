/* Which heap memory goes to. */
#ifndef SP_AMDGPU_PLACEMENT_H
#define SP_AMDGPU_PLACEMENT_H
#include "memory.h"

/* A BO for `m->nbytes` bytes of `m->kind`, with `flags` of GEM_CREATE: fills in bo, domain, cpu and displaced. 0 or -errno. */
int sp_amdgpu_place(struct sp_amdgpu *dev, uint64_t flags, struct sp_amdgpu_memory *m);
#endif
