/* Ending a device. */
#ifndef SP_EGL_OPEN_H
#define SP_EGL_OPEN_H
#include "egl/device/device.h"

int sp_egl_end(struct sp_egl *dev, uint64_t timeout_ns); /* stops the owner: 0 or -ETIMEDOUT */
#endif
