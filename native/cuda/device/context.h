/* The device's context in this thread. */
#ifndef SP_CUDA_CONTEXT_H
#define SP_CUDA_CONTEXT_H
#include "device.h"
#include "driver.h"

/* Asks the driver, makes the device's context current and relaxes the thread: before every call that goes by the current
 * context, but for those that are safe. */
int sp_cuda_enter(struct sp_cuda *dev);
/* The primary context was released: if that was its end, it is not left current in this thread. */
void sp_cuda_released(const struct sp_cuda *dev);

static inline int sp_cuda_near(struct sp_cuda *dev)
{
    return sp_cuda_current == dev->context ? 0 : sp_cuda_enter(dev);
}
#endif
