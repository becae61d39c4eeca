/* Memory of the cuda device. */
#ifndef SP_CUDA_MEMORY_H
#define SP_CUDA_MEMORY_H
#include "cuda/device/device.h"

struct sp_cuda_memory {
    struct sp_cuda *dev;
    _Atomic uint32_t refs;
    uint32_t kind;
    uint32_t flags; /* set of enum sp_cuda_memory_flag */
    /* descriptor of the file of memory of kind SP_CUDA_SHARED, or of exported memory of kind
     * SP_CUDA_ALONE; otherwise -1 */
    int fd;
    uint64_t address;
    uint64_t nbytes;
    /* size in bytes of its block from the page-locked pool; 0: it has none */
    uint64_t pinned_nbytes;
    void *host;      /* host address; NULL if the host cannot access the memory */
    /* `next` is the next element of the device's list of memory that the host can access. `link` is
     * the address of the pointer to this element. */
    struct sp_cuda_memory *next, **link;
};

enum sp_cuda_memory_flag {
    SP_CUDA_POOLED = 1,     /* allocated from the driver's stream-ordered pool */
    SP_CUDA_REGISTERED = 2, /* registered host memory that has another owner */
    SP_CUDA_ADOPTED = 4,
    SP_CUDA_IMPORTED = 8    /* memory that another process has exported */
};

/* Returns the host address of the `nbytes` bytes at `address`, or NULL if the host cannot access
 * them. */
void *sp_cuda_reach(struct sp_cuda *dev, uint64_t address, uint64_t nbytes);
#endif
