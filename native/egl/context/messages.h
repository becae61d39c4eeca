/* What the driver says. */
#ifndef SP_EGL_MESSAGES_H
#define SP_EGL_MESSAGES_H
#include "egl/device/device.h"

void sp_egl_messages_start(struct sp_egl *dev, int khr_suffix);
void sp_egl_say(struct sp_egl *dev, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the driver complained of since the last call; NULL if nothing. GL_NO_ERROR is asked for when `ask`. */
const char *sp_egl_complaint(struct sp_egl *dev, int ask);
int sp_egl_context_lost(struct sp_egl *dev); /* asks the driver, and marks the device lost */
#endif
