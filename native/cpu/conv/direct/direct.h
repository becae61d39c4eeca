/* Convolution that reads the image where it lies: by tiles of pixels, by strips, by panels. On geometry that conv2d.c has
 * checked, on `threads` threads: 0 or -errno. */
#ifndef SP_CPU_CONV_DIRECT_H
#define SP_CPU_CONV_DIRECT_H
#include "cpu/conv/shape/shape.h"

int sp_conv_pixels(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_strips(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
/* The same by panels; whether it is better so. */
int sp_conv_panels(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_panels_take(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa);
/* Packed weights: how many floats; made, and whether one of them is wild or -errno. */
int64_t sp_conv_pixels_floats(const struct sp_conv *v, enum sp_isa isa);
int sp_conv_pixels_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_strips_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
#endif
