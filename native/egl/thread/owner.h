/* The owner thread: the only thread in which a device's GL context is current. */
#ifndef SP_EGL_OWNER_H
#define SP_EGL_OWNER_H
#include "egl/device/device.h"

/* start routine of the owner thread, for pthread_create; `arg` is the device */
void *sp_egl_owner(void *arg);
#endif
