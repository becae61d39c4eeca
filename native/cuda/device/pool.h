/* The driver's stream-ordered memory pool. */
#ifndef SP_CUDA_POOL_H
#define SP_CUDA_POOL_H
#include "device.h"

void sp_cuda_empty_pool(struct sp_cuda *dev); /* Returns the pool's free memory to the driver. */
#endif
