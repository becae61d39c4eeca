/* The memory of a device outlives its context for as long as somebody refers to it. */
#ifndef SP_EGL_REFERENCES_H
#define SP_EGL_REFERENCES_H
#include "device.h"

struct sp_egl *sp_egl_new(int32_t index); /* with one reference, without an owner thread; NULL: no memory */
void sp_egl_hold(struct sp_egl *dev);
void sp_egl_let_go(struct sp_egl *dev);
#endif
