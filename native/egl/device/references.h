/* Counts references to a device. The device's memory exists until the last reference is dropped,
 * even if the device's GL context is destroyed before. */
#ifndef SP_EGL_REFERENCES_H
#define SP_EGL_REFERENCES_H
#include "device.h"

/* Makes a device with one reference and without an owner thread. Returns NULL if memory is
 * short. */
struct sp_egl *sp_egl_new(int32_t index);
void sp_egl_hold(struct sp_egl *dev);
void sp_egl_let_go(struct sp_egl *dev);
#endif
