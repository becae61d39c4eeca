/* Creates and destroys a GL context. Only the owner thread, in which the context is current, calls
 * these functions. */
#ifndef SP_EGL_CONTEXT_H
#define SP_EGL_CONTEXT_H
#include "egl/device/device.h"

int sp_egl_context_make(struct sp_egl *dev, char *why, size_t why_nbytes);
void sp_egl_context_drop(struct sp_egl *dev);
#endif
