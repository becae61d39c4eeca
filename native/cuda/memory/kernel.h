/* A kernel of the cuda device, with the signature of its arguments. */
#ifndef SP_CUDA_KERNEL_H
#define SP_CUDA_KERNEL_H
#include "cuda/device/device.h"
#include "include/sp_cmd.h"

enum { SP_CUDA_KERNEL_MAGIC = 0x43637073 }; /* "spcC" */

struct sp_cuda_kernel {
    uint32_t magic;
    struct sp_cuda *dev;
    void *function;
    struct sp_cuda_module *module;
    struct sp_cuda_shape shape;
    uint32_t most_shared; /* most bytes of dynamic shared memory that a launch may add */
    uint64_t serial;      /* number of the kernel, unique in this process */
    struct sp_signature sig;
    char name[64];
};
#endif
