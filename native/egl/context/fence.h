/* GL fences. */
#ifndef SP_EGL_FENCE_H
#define SP_EGL_FENCE_H
#include "egl/device/device.h"

/* 1 if the fence is passed within `timeout_ns`. On a lost context all fences count as passed. */
int sp_egl_passed(struct sp_egl *dev, void *sync, uint64_t timeout_ns);
void sp_egl_drain(struct sp_egl *dev); /* waits until all issued work has ended, or the context is lost */
#endif
