/* Memory that the GPU sees. */
#ifndef SP_AMDGPU_MEMORY_H
#define SP_AMDGPU_MEMORY_H
#include "bo.h"

/* Which submissions name it to the kernel. */
enum sp_listed {
    SP_LISTED_BY_JOB = 0, /* those whose job asks for it; none must, if it is VM_ALWAYS_VALID */
    SP_LISTED_TOUCHED,    /* those that touch it: others share it, or it is host memory in place */
    SP_LISTED_ALWAYS      /* all: the kernel knows no VM_ALWAYS_VALID */
};

struct sp_amdgpu_memory {
    struct sp_amdgpu *dev;
    struct sp_bo *bo;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t domain; /* AMDGPU_GEM_DOMAIN_VRAM or _GTT */
    uint64_t va;     /* of the first byte that was asked for */
    uint64_t base;   /* mapped from here on ... */
    uint64_t nbytes; /* ... so many bytes */
    uint32_t listed; /* enum sp_listed */
    uint32_t cpu;    /* the CPU can map it */
    uint32_t displaced; /* it is not in the heap where it was to be */
    uint32_t exposed;   /* others have it, too, and may write it at any time; with the device's lock */
    void *host;      /* of `va`, when wrapped */
};

/* Where the CPU sees memory that is mapped and was not wrapped. */
static inline void *sp_amdgpu_host(const struct sp_amdgpu_memory *m)
{
    return m->bo->mapping;
}

/* The memory that has all these bytes, and the address of the first for the CPU (NULL: it cannot reach it) */
struct sp_amdgpu_memory *sp_amdgpu_find(struct sp_amdgpu *dev, uint64_t address, uint64_t nbytes, void **host);
/* With the device's lock: where in `memories` the first is that begins above `address`. */
size_t sp_memory_above(const struct sp_amdgpu *dev, uint64_t address);
/* From now on a job lists this SHARED memory only if the job itself asks for it, and none but such jobs of either device
 * writes it. */
void sp_amdgpu_list_by_job(struct sp_amdgpu_memory *m);
void sp_amdgpu_pool_empty(struct sp_amdgpu *dev);
#endif
