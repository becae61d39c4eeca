/* How a device ends: by stopping its owner thread, which owns the GL context. */
#ifndef SP_EGL_OPEN_H
#define SP_EGL_OPEN_H
#include "egl/device/device.h"

/* Stops the owner thread. Returns 0 or -ETIMEDOUT. */
int sp_egl_end(struct sp_egl *dev, uint64_t timeout_ns);
#endif
