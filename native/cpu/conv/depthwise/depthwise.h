/* Convolution with one channel per group. */
#ifndef SP_CPU_CONV_DEPTHWISE_H
#define SP_CPU_CONV_DEPTHWISE_H
#include "cpu/conv/shape/shape.h"

/* On a geometry that conv2d.c has checked, with unpacked weights, on `threads` threads. 0 or
 * -errno. */
int sp_conv_depthwise(const struct sp_conv *v, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
#endif
