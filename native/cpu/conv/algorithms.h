/* The algorithms im2col and naive (the oracle) of conv2d, and the packing of weights. The other
 * algorithms are declared in direct/, depthwise/ and winograd/. */
#ifndef SP_CPU_CONV_ALGORITHMS_H
#define SP_CPU_CONV_ALGORITHMS_H
#include "cpu/conv/shape/shape.h"

/* Gives the weights in the layout of `form`: those of the plan's packed blob, or weights packed now
 * into the calling thread's scratch memory SP_SCRATCH_B. Returns 0 or -errno. */
int sp_conv_weights(const struct sp_conv *v, enum sp_conv_form form, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads, struct sp_conv_weights *out);
/* Computes the convolution by im2col, on `threads` threads. conv2d.c has checked the geometry.
 * Returns 0 or -errno. */
int sp_conv_im2col(const struct sp_conv *v, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa,
                   uint32_t threads);
/* The oracle of conv2d: seven nested loops with double accumulators. */
int sp_conv_naive(const struct sp_conv *conv, const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
