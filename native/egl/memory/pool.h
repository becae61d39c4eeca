/* All buffers of a device. */
#ifndef SP_EGL_POOL_H
#define SP_EGL_POOL_H
#include "egl/device/device.h"

void sp_egl_buffers_drop(struct sp_egl *dev); /* owner, before the context is destroyed */
#endif
