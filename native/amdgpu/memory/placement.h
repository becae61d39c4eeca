/* Chooses the heap of memory. */
#ifndef SP_AMDGPU_PLACEMENT_H
#define SP_AMDGPU_PLACEMENT_H
#include "bo.h"

struct sp_placement {
    struct sp_bo *bo;
    uint32_t domain;    /* AMDGPU_GEM_DOMAIN_VRAM or _GTT: the heap that the kernel chose */
    uint32_t cpu;       /* the CPU can map it */
    uint32_t displaced; /* it is not in its preferred heap */
};

/* Creates a BO for memory of that kind, with `flags` of GEM_CREATE. 0 or -errno. */
int sp_bo_place(struct sp_amdgpu *dev, uint64_t nbytes, uint32_t kind, uint64_t flags, struct sp_placement *out);
#endif
