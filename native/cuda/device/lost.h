/* Loss of a device, and its text. */
#ifndef SP_CUDA_LOST_H
#define SP_CUDA_LOST_H
#include "device.h"
#include "driver.h"

/* Marks the device as lost, with the reason `why`. Only the first call counts. */
void sp_cuda_lose(struct sp_cuda *dev, const char *why);
/* Another library has reset the context: its objects no longer exist. */
void sp_cuda_reset_by_others(struct sp_cuda *dev);
/* As sp_cu_rc; a sticky error also marks the device as lost. */
int sp_cuda_rc(struct sp_cuda *dev, const char *call, int result);
#define SP_CUDA_RC(dev, name, ...) sp_cuda_rc(dev, #name, sp_##name(__VA_ARGS__))
/* -ENODEV if the device is lost, with the reason for sp_cuda_why; else 0. */
int sp_cuda_gone(struct sp_cuda *dev);
#endif
