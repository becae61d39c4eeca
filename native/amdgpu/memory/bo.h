/* Buffer objects: created, mapped, shared by handle. */
#ifndef SP_AMDGPU_BO_H
#define SP_AMDGPU_BO_H
#include "amdgpu/device/device.h"

/* A BO, by its handle in our open of the node. Importing a descriptor that this node exported gives
 * the same handle. */
struct sp_bo {
    uint32_t handle;
    uint32_t refs;
    uint64_t nbytes;
    void *mapping; /* NULL until it is needed */
    int dmabuf;    /* descriptor of an imported BO, else -1 */
    struct sp_bo *next;
};

int sp_bo_create(struct sp_amdgpu *dev, uint64_t nbytes, uint64_t domains, uint64_t flags, struct sp_bo **out);
int sp_bo_adopt(struct sp_amdgpu *dev, uint32_t handle, uint64_t nbytes, struct sp_bo **out);
void sp_bo_drop(struct sp_amdgpu *dev, struct sp_bo *bo);
int sp_bo_map(struct sp_amdgpu *dev, struct sp_bo *bo);
int sp_bo_va(struct sp_amdgpu *dev, const struct sp_bo *bo, uint32_t operation, uint64_t va, uint64_t nbytes,
             uint32_t flags);
#endif
