/* Counts references to a device. Releasing the last reference closes the device. */
#ifndef SP_CUDA_OPEN_H
#define SP_CUDA_OPEN_H
#include "device.h"

void sp_cuda_ref(struct sp_cuda *dev);
void sp_cuda_unref(struct sp_cuda *dev);
#endif
