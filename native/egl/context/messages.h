/* Reports of the driver. */
#ifndef SP_EGL_MESSAGES_H
#define SP_EGL_MESSAGES_H
#include "egl/device/device.h"

void sp_egl_messages_start(struct sp_egl *dev, int khr_suffix);
void sp_egl_say(struct sp_egl *dev, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The driver's error since the last call; NULL: none. `ask`: also calls glGetError. */
const char *sp_egl_complaint(struct sp_egl *dev, int ask);
int sp_egl_context_lost(struct sp_egl *dev); /* asks the driver, and marks the device as lost */
#endif
