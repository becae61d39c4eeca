/* Reads the device's clock, and converts its times to ns of CLOCK_MONOTONIC. */
#ifndef SP_EGL_CLOCK_H
#define SP_EGL_CLOCK_H
#include "egl/device/device.h"

void sp_egl_clock_start(struct sp_egl *dev);
/* Issues a TIMESTAMP query and returns its name; returns 0 if the device has no clock. */
uint32_t sp_egl_query(struct sp_egl *dev);
/* Returns the CLOCK_MONOTONIC time in ns of a TIMESTAMP query, and frees the query. */
uint64_t sp_egl_query_ns(struct sp_egl *dev, uint32_t query);
#endif
