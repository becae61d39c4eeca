/* For the files of kernels: an argument struct, the checks, a function. The arguments are those of shaders/manifest.json,
 * in its order and with natural alignment, as PTX lays parameters out. */
#ifndef FAKE_CUDA_KERNELS_H
#define FAKE_CUDA_KERNELS_H
#include "../include/fake.h"

#pragma GCC visibility push(hidden)
/* All threads of a launch along x. */
static inline uint64_t fk_threads_x(const struct fk_launch *l)
{
    return (uint64_t)l->grid[0] * l->block[0];
}
static inline uint64_t fk_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
/* Memory that the kernel will touch; on a miss the kernel function ends. */
#define FK_NEED(pointer, elements)                                                                                     \
    do {                                                                                                               \
        if (!fk_reachable(l->ctx, (uint64_t)(uintptr_t)(pointer), (uint64_t)(elements) * sizeof *(pointer)))           \
            return CUDA_ERROR_ILLEGAL_ADDRESS;                                                                         \
    } while (0)
/* Tables of the files, joined in kernels.c. */
extern struct fk_kernel fk_kernels_elementwise[], fk_kernels_map[], fk_kernels_gemm[], fk_kernels_conv2d[],
    fk_kernels_reduce[], fk_kernels_layout[], fk_kernels_misc[];
#pragma GCC visibility pop
#endif
