/* The algorithms that conv2d.c can choose, besides those in the rooms direct, depthwise and
 * winograd. */
#ifndef SP_CPU_CONV_ALGORITHMS_H
#define SP_CPU_CONV_ALGORITHMS_H
#include "cpu/conv/shape/shape.h"

/* The weights in the layout of `form`: a blob's, or packed now into the caller's scratch slot B. 0
 * or -errno. */
int sp_conv_weights(const struct sp_conv *v, enum sp_conv_form form, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads, struct sp_conv_weights *out);
/* On a geometry that conv2d.c has checked, on `threads` threads. 0 or -errno. */
int sp_conv_im2col(const struct sp_conv *v, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa,
                   uint32_t threads);
/* The oracle: seven loops, double accumulators. */
int sp_conv_naive(const struct sp_conv *conv, const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
