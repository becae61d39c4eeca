/* Makes the device's context current in the calling thread. */
#ifndef SP_CUDA_CONTEXT_H
#define SP_CUDA_CONTEXT_H
#include "device.h"
#include "driver.h"

/* Asks the driver for the current context, makes the device's one current, and relaxes the thread's
 * capture mode. Needed before every call that uses the current context, except safe ones. */
int sp_cuda_enter(struct sp_cuda *dev);
/* Call it after the primary context was released. If the context was destroyed, it is no longer
 * left current in this thread. */
void sp_cuda_released(const struct sp_cuda *dev);

static inline int sp_cuda_near(struct sp_cuda *dev)
{
    return sp_cuda_current == dev->context ? 0 : sp_cuda_enter(dev);
}
#endif
