/* How a device is lost, and the words for it. */
#ifndef SP_CUDA_LOST_H
#define SP_CUDA_LOST_H
#include "device.h"
#include "driver.h"

/* The device is gone: `why` in words. Once. */
void sp_cuda_lose(struct sp_cuda *dev, const char *why);
/* Its context is no more, nor what belonged to it: another library did that. */
void sp_cuda_reset_by_others(struct sp_cuda *dev);
/* As sp_cu_rc; an answer after which nothing works any more loses the device. */
int sp_cuda_rc(struct sp_cuda *dev, const char *call, int result);
#define SP_CUDA_RC(dev, name, ...) sp_cuda_rc(dev, #name, sp_##name(__VA_ARGS__))
/* -ENODEV, and for sp_cuda_why the words of how the device was lost; 0 while it is not. */
int sp_cuda_gone(struct sp_cuda *dev);
#endif
