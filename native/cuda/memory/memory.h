/* Memory of the cuda device. */
#ifndef SP_CUDA_MEMORY_H
#define SP_CUDA_MEMORY_H
#include "cuda/device/device.h"

struct sp_cuda_memory {
    struct sp_cuda *dev;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t flags; /* enum sp_cuda_memory_flag */
    int fd;         /* of SHARED memory, or of ALONE memory that was exported, else -1 */
    uint64_t address;
    uint64_t nbytes;
    uint64_t pinned_nbytes; /* what the pool of page-locked memory gave */
    void *host;      /* NULL: the host does not reach it */
    struct sp_cuda_memory *next, **link; /* in the device's list of what the host reaches */
};

enum sp_cuda_memory_flag {
    SP_CUDA_POOLED = 1,     /* from the stream-ordered pool */
    SP_CUDA_REGISTERED = 2, /* host memory that was not allocated here */
    SP_CUDA_ADOPTED = 4,
    SP_CUDA_IMPORTED = 8    /* another process's */
};

/* The address of `nbytes` bytes at `address` for the host, NULL where it does not reach them */
void *sp_cuda_reach(struct sp_cuda *dev, uint64_t address, uint64_t nbytes);
#endif
