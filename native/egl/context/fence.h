/* GL's fences. */
#ifndef SP_EGL_FENCE_H
#define SP_EGL_FENCE_H
#include "egl/device/device.h"

/* Is the fence passed within `timeout_ns`? A lost context has passed them all. */
int sp_egl_passed(struct sp_egl *dev, void *sync, uint64_t timeout_ns);
void sp_egl_drain(struct sp_egl *dev); /* waits until everything issued has ended, or the context is lost */
#endif
