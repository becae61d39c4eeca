/* Handles reports of the GL driver: messages, errors, loss of the context. */
#ifndef SP_EGL_MESSAGES_H
#define SP_EGL_MESSAGES_H
#include "egl/device/device.h"

void sp_egl_messages_start(struct sp_egl *dev, int khr_suffix);
void sp_egl_say(struct sp_egl *dev, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the driver's error text since the last call, or NULL if there was none. With `ask`, also
 * calls glGetError. */
const char *sp_egl_complaint(struct sp_egl *dev, int ask);
/* Returns 1 if the context is lost. Asks the driver, and marks the device as lost. */
int sp_egl_context_lost(struct sp_egl *dev);
#endif
