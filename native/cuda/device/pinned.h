/* A pool of page-locked host memory, in blocks of powers of two from 4 KiB on. */
#ifndef SP_CUDA_PINNED_H
#define SP_CUDA_PINNED_H
#include "device.h"

int sp_cuda_pinned_take(struct sp_cuda *dev, uint64_t nbytes, void **host, uint64_t *got);
void sp_cuda_pinned_give(struct sp_cuda *dev, void *host, uint64_t got);
/* Frees all blocks of the pool. The caller holds the device's lock or the last reference. */
void sp_cuda_pinned_drop(struct sp_cuda *dev);
#endif
