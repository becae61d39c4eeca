/* GL fences: finds out whether issued work has ended. */
#ifndef SP_EGL_FENCE_H
#define SP_EGL_FENCE_H
#include "egl/device/device.h"

/* Returns 1 if the GL fence `sync` signals within `timeout_ns`, otherwise 0. On a lost context all
 * fences count as signalled. */
int sp_egl_passed(struct sp_egl *dev, void *sync, uint64_t timeout_ns);
/* waits until all issued work has ended or the context is lost */
void sp_egl_drain(struct sp_egl *dev);
#endif
