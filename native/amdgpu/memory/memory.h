/* Memory of the AMD device: a BO with its addresses for GPU and CPU. */
#ifndef SP_AMDGPU_MEMORY_H
#define SP_AMDGPU_MEMORY_H
#include "bo.h"

/* Which submissions must name a piece of memory in the BO list that they give to the kernel
 * driver. */
enum sp_listed {
    /* No submission names the memory, except the jobs whose member `shared` (struct sp_job) is
     * this memory. VM_ALWAYS_VALID memory is never named. */
    SP_LISTED_BY_JOB = 0,
    /* Only submissions that touch the memory name it in their BO lists. Used for shared memory
     * and wrapped host memory. */
    SP_LISTED_TOUCHED,
    /* Every submission names the memory in its BO list. Used if the kernel driver does not know
     * VM_ALWAYS_VALID. */
    SP_LISTED_ALWAYS
};

struct sp_amdgpu_memory {
    struct sp_amdgpu *dev;
    struct sp_bo *bo;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t domain; /* AMDGPU_GEM_DOMAIN_VRAM or _GTT */
    uint64_t va;     /* GPU address of the first requested byte */
    uint64_t base;   /* GPU address of the mapping */
    uint64_t nbytes; /* bytes of the mapping */
    uint32_t listed; /* which submissions name this memory in their BO list: enum sp_listed */
    uint32_t cpu;    /* 1 if the CPU can map the memory */
    uint32_t displaced; /* 1 if the memory is not in its preferred heap */
    /* 1 if other processes or devices may write the memory at any time; guarded by the device's
     * lock */
    uint32_t exposed;
    void *host;      /* CPU address that belongs to `va`, for wrapped host memory; otherwise NULL */
};

/* Returns the CPU address of memory that is mapped and is not wrapped host memory. */
static inline void *sp_amdgpu_host(const struct sp_amdgpu_memory *m)
{
    return m->bo->mapping;
}

/* Finds the memory that contains all `nbytes` from `address`. `host` receives the CPU address of
 * the first byte, or NULL if the CPU cannot access the memory. */
struct sp_amdgpu_memory *sp_amdgpu_find(struct sp_amdgpu *dev, uint64_t address, uint64_t nbytes, void **host);
/* Returns the index in `memories` of the first entry that begins above `address`. The caller holds
 * the device's lock. */
size_t sp_memory_above(const struct sp_amdgpu *dev, uint64_t address);
/* Changes SHARED memory so that only jobs whose `shared` is this memory name it in their BO list.
 * After this call only such jobs, of either device, may write the memory. */
void sp_amdgpu_list_by_job(struct sp_amdgpu_memory *m);
void sp_amdgpu_pool_empty(struct sp_amdgpu *dev);
#endif
