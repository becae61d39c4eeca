/* The owner thread. */
#ifndef SP_EGL_OWNER_H
#define SP_EGL_OWNER_H
#include "egl/device/device.h"

void *sp_egl_owner(void *arg); /* start routine for pthread_create; `arg` is the device */
#endif
