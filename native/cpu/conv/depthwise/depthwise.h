/* Convolution with one channel per group. */
#ifndef SP_CPU_CONV_DEPTHWISE_H
#define SP_CPU_CONV_DEPTHWISE_H
#include "cpu/conv/shape/shape.h"

/* Computes a convolution with one channel per group from unpacked weights, on `threads` threads.
 * conv2d.c has checked the geometry. Returns 0 or -errno. */
int sp_conv_depthwise(const struct sp_conv *v, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
#endif
