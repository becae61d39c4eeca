/* Checks a dispatch record before a queue accepts it. */
#ifndef SP_CUDA_CHECK_H
#define SP_CUDA_CHECK_H
#include "cuda/device/device.h"

int sp_cuda_check_dispatch(const struct sp_cuda *dev, const void *record, size_t nbytes);
#endif
