/* Marks a device as lost, and keeps the reason as a text. */
#ifndef SP_CUDA_LOST_H
#define SP_CUDA_LOST_H
#include "device.h"
#include "driver.h"

/* Marks the device as lost for the reason `why`. A later call does not change the reason. */
void sp_cuda_lose(struct sp_cuda *dev, const char *why);
/* Marks the device as lost because another library has reset the context. The objects of the
 * context no longer exist. */
void sp_cuda_reset_by_others(struct sp_cuda *dev);
/* Converts a CUresult like sp_cu_rc. A sticky error also marks the device as lost. */
int sp_cuda_rc(struct sp_cuda *dev, const char *call, int result);
#define SP_CUDA_RC(dev, name, ...) sp_cuda_rc(dev, #name, sp_##name(__VA_ARGS__))
/* Returns -ENODEV if the device is lost, and records the reason for sp_cuda_why. Otherwise returns
 * 0. */
int sp_cuda_gone(struct sp_cuda *dev);
#endif
