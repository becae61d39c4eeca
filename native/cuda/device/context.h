/* Makes the device's context current in the calling thread. */
#ifndef SP_CUDA_CONTEXT_H
#define SP_CUDA_CONTEXT_H
#include "device.h"
#include "driver.h"

/* Makes the device's context current in this thread, and sets the thread's capture mode to relaxed.
 * Every driver call that uses the current context needs this first, except launches, copies and
 * event records on our own streams. */
int sp_cuda_enter(struct sp_cuda *dev);
/* Updates this thread's current context after a release of the primary context. If the release
 * destroyed the context, the thread no longer has it as current context. */
void sp_cuda_released(const struct sp_cuda *dev);

static inline int sp_cuda_make_current(struct sp_cuda *dev)
{
    return sp_cuda_current == dev->context ? 0 : sp_cuda_enter(dev);
}
#endif
