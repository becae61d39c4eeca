/* The memory of a device outlives its context while references exist. */
#ifndef SP_EGL_REFERENCES_H
#define SP_EGL_REFERENCES_H
#include "device.h"

/* with one reference, without an owner thread; NULL: out of memory */
struct sp_egl *sp_egl_new(int32_t index);
void sp_egl_hold(struct sp_egl *dev);
void sp_egl_let_go(struct sp_egl *dev);
#endif
