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

/* Begins a call that uses buffers in the caller's thread. The context, and with it every buffer,
 * stays until sp_egl_leave. Returns 0, or -ECHILD or -ENODEV if the call must not begin. */
int sp_egl_enter(struct sp_egl *dev);
void sp_egl_leave(struct sp_egl *dev);
/* Waits until no call is between sp_egl_enter and sp_egl_leave. The owner thread calls this after
 * it has set SP_EGL_ENDING, so no further call begins. */
void sp_egl_await_callers(struct sp_egl *dev);
/* Adds a holder of the context. Returns 0, or -ENODEV once the device is closed. */
int sp_egl_hold_context(struct sp_egl *dev);
#endif
