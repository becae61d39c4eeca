/* Memory that the GPU sees. */
#ifndef SP_AMDGPU_MEMORY_H
#define SP_AMDGPU_MEMORY_H
#include "bo.h"

/* Which submissions list it for the kernel. */
enum sp_listed {
    SP_LISTED_BY_JOB = 0, /* those whose job asks for it; never needed for VM_ALWAYS_VALID */
    SP_LISTED_TOUCHED,    /* those that touch it: shared memory, or wrapped host memory */
    SP_LISTED_ALWAYS      /* all: the kernel does not know VM_ALWAYS_VALID */
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
    uint32_t listed; /* enum sp_listed */
    uint32_t cpu;    /* the CPU can map it */
    uint32_t displaced; /* it is not in its preferred heap */
    /* other processes or devices may write it at any time; with the device's lock */
    uint32_t exposed;
    void *host;      /* CPU address of `va` in wrapped memory */
};

/* CPU address of memory that is mapped and not wrapped. */
static inline void *sp_amdgpu_host(const struct sp_amdgpu_memory *m)
{
    return m->bo->mapping;
}

/* Finds the memory that contains all these bytes. `host`: CPU address of the first byte; NULL: the
 * CPU cannot reach it. */
struct sp_amdgpu_memory *sp_amdgpu_find(struct sp_amdgpu *dev, uint64_t address, uint64_t nbytes, void **host);
/* With the device's lock: index in `memories` of the first entry that begins above `address`. */
size_t sp_memory_above(const struct sp_amdgpu *dev, uint64_t address);
/* From now on a job lists this SHARED memory only if the job asks for it. Only such jobs, of either
 * device, may write it. */
void sp_amdgpu_list_by_job(struct sp_amdgpu_memory *m);
void sp_amdgpu_pool_empty(struct sp_amdgpu *dev);
#endif
