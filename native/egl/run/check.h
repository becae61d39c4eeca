/* Checks a dispatch record before a queue accepts it. */
#ifndef SP_EGL_CHECK_H
#define SP_EGL_CHECK_H
#include "egl/device/device.h"

int sp_egl_check_dispatch(const struct sp_egl *dev, const void *record, size_t nbytes);
#endif
