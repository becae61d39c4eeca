/* Buffer objects (BOs): creates and maps them, shares them by handle. */
#ifndef SP_AMDGPU_BO_H
#define SP_AMDGPU_BO_H
#include "amdgpu/device/device.h"

/* A BO, known by its handle in our open file of the render node. An import of a descriptor that
 * this open file exported gives the same handle. */
struct sp_bo {
    uint32_t handle;
    uint32_t refs;
    uint64_t nbytes;
    void *mapping; /* CPU address; NULL until a caller needs the mapping */
    int dmabuf;    /* descriptor of the dma-buf of an imported BO; -1 for any other BO */
    struct sp_bo *next;
};

int sp_bo_create(struct sp_amdgpu *dev, uint64_t nbytes, uint64_t domains, uint64_t flags, struct sp_bo **out);
int sp_bo_adopt(struct sp_amdgpu *dev, uint32_t handle, uint64_t nbytes, struct sp_bo **out);
void sp_bo_drop(struct sp_amdgpu *dev, struct sp_bo *bo);
int sp_bo_map(struct sp_amdgpu *dev, struct sp_bo *bo);
int sp_bo_va(struct sp_amdgpu *dev, const struct sp_bo *bo, uint32_t operation, uint64_t va, uint64_t nbytes,
             uint32_t flags);
#endif
