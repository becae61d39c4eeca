/* Checks records before a queue accepts them. */
#ifndef SP_EGL_CHECK_H
#define SP_EGL_CHECK_H
#include "egl/device/device.h"

/* The caller holds the lock of an open queue, or is between sp_egl_enter and sp_egl_leave. */
int sp_egl_check_dispatch(const struct sp_egl *dev, const void *record, size_t nbytes);
/* Does what sp_egl_check does, under the condition of sp_egl_check_dispatch. */
int sp_egl_check_records(const struct sp_egl *dev, const void *records, size_t nbytes);
#endif
