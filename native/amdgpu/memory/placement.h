/* Chooses the heap, VRAM or GTT, for new memory. */
#ifndef SP_AMDGPU_PLACEMENT_H
#define SP_AMDGPU_PLACEMENT_H
#include "bo.h"

struct sp_placement {
    struct sp_bo *bo;
    uint32_t domain;    /* AMDGPU_GEM_DOMAIN_VRAM or _GTT: the heap that the kernel driver chose */
    uint32_t cpu;       /* 1 if the CPU can map the BO */
    uint32_t displaced; /* 1 if the BO is not in its preferred heap */
};

/* Creates a BO for memory of `kind`, with `flags` of GEM_CREATE, in the best heap. Returns 0 or
 * -errno. */
int sp_bo_place(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, uint64_t flags, struct sp_placement *out);
#endif
