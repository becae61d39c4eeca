/* Convolutions that read the image in place: by pixel tiles, by strips, by panels. On a geometry
 * that conv2d.c has checked, on `threads` threads. 0 or -errno. */
#ifndef SP_CPU_CONV_DIRECT_H
#define SP_CPU_CONV_DIRECT_H
#include "cpu/conv/shape/shape.h"

int sp_conv_pixels(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_strips(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
/* By panels; and 1 if panels suit this convolution better than strips. */
int sp_conv_panels(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_panels_take(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa);
/* Packed weights: their number of floats; and packing, which returns 1 if a weight is infinite or
 * NaN, 0, or -errno. */
int64_t sp_conv_pixels_floats(const struct sp_conv *v, enum sp_isa isa);
int sp_conv_pixels_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_strips_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
#endif
