/* Copies shadows (host memory for callers) to their buffers before a job, and back after that
 * job. */
#ifndef SP_EGL_SHADOW_H
#define SP_EGL_SHADOW_H
#include "buffer.h"

void sp_egl_touch(struct sp_egl *dev, struct sp_egl_buffer *b);
void sp_egl_untouch(struct sp_egl *dev);
void sp_egl_shadow_drop(struct sp_egl_buffer *b);
#endif
