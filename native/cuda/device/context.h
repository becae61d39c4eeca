/* Makes the device's context current in the calling thread. */
#ifndef SP_CUDA_CONTEXT_H
#define SP_CUDA_CONTEXT_H
#include "device.h"
#include "driver.h"

/* Makes the device's context current in this thread, and sets the thread's capture mode to relaxed.
 * Every driver call that uses the current context needs this first, except launches, copies and
 * event records on our own streams. */
int sp_cuda_enter(struct sp_cuda *dev);
/* To be called after a release of the device's primary context. If the release destroyed that
 * context, this thread no longer has it as the current context. */
void sp_cuda_released(const struct sp_cuda *dev);

static inline int sp_cuda_make_current(struct sp_cuda *dev)
{
    return sp_cuda_current == dev->context ? 0 : sp_cuda_enter(dev);
}
#endif
