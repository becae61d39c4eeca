/* Memory of the cuda device. */
#ifndef SP_CUDA_MEMORY_H
#define SP_CUDA_MEMORY_H
#include "cuda/device/device.h"

struct sp_cuda_memory {
    struct sp_cuda *dev;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t flags; /* enum sp_cuda_memory_flag */
    int fd;         /* of SHARED memory, or of exported ALONE memory, else -1 */
    uint64_t address;
    uint64_t nbytes;
    uint64_t pinned_nbytes; /* bytes taken from the page-locked pool */
    void *host;      /* NULL: the host cannot reach it */
    struct sp_cuda_memory *next, **link; /* in the device's list of memory that the host reaches */
};

enum sp_cuda_memory_flag {
    SP_CUDA_POOLED = 1,     /* from the stream-ordered pool */
    SP_CUDA_REGISTERED = 2, /* host memory of another owner */
    SP_CUDA_ADOPTED = 4,
    SP_CUDA_IMPORTED = 8    /* of another process */
};

/* Host address of the `nbytes` bytes at `address`; NULL: the host cannot reach them. */
void *sp_cuda_reach(struct sp_cuda *dev, uint64_t address, uint64_t nbytes);
#endif
