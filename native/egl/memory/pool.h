/* A device's buffers, and the pool of those that were freed. */
#ifndef SP_EGL_POOL_H
#define SP_EGL_POOL_H
#include "egl/device/device.h"

/* frees all buffers; the owner thread calls this before it destroys the context */
void sp_egl_buffers_drop(struct sp_egl *dev);
#endif
