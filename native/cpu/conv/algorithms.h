/* What conv2d.c chooses from, beside the rooms of pixels, strips, depthwise and Winograd. */
#ifndef SP_CPU_CONV_ALGORITHMS_H
#define SP_CPU_CONV_ALGORITHMS_H
#include "cpu/conv/shape/shape.h"

/* The weights as `form` wants them: those of a blob, or packed now, in the caller's scratch slot B. 0 or -errno. */
int sp_conv_weights(const struct sp_conv *v, enum sp_conv_form form, const struct sp_tile_plan *plan,
                    struct sp_pool *pool, enum sp_isa isa, uint32_t threads, struct sp_conv_weights *out);
/* On geometry that conv2d.c has checked, on `threads` threads: 0 or -errno. */
int sp_conv_im2col(const struct sp_conv *v, const struct sp_tile_plan *plan, struct sp_pool *pool, enum sp_isa isa,
                   uint32_t threads);
/* The oracle: seven loops, double accumulators. */
int sp_conv_naive(const struct sp_conv *conv, const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
