/* The device's clock. */
#ifndef SP_EGL_CLOCK_H
#define SP_EGL_CLOCK_H
#include "egl/device/device.h"

void sp_egl_clock_start(struct sp_egl *dev);
uint32_t sp_egl_query(struct sp_egl *dev); /* issues a TIMESTAMP query; 0: no clock */
uint64_t sp_egl_query_ns(struct sp_egl *dev, uint32_t query); /* its CLOCK_MONOTONIC time; frees the query */
#endif
