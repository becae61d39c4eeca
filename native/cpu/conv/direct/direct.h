/* Direct convolutions: by pixel tiles, which read the image in place, by strips of output rows, or
 * by panels (pixels copied in the order of use). They run on `threads` threads, on a geometry that
 * conv2d.c has checked. They return 0 or -errno. */
#ifndef SP_CPU_CONV_DIRECT_H
#define SP_CPU_CONV_DIRECT_H
#include "cpu/conv/shape/shape.h"

int sp_conv_pixels(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_strips(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
/* sp_conv_panels computes the convolution by panels. sp_conv_panels_take returns 1 if panels suit
 * this convolution better than strips. */
int sp_conv_panels(const struct sp_conv *v, const struct sp_conv_weights *packed, const struct sp_tile_plan *plan,
                   struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_panels_take(const struct sp_conv *v, const struct sp_tile_plan *plan, enum sp_isa isa);
/* sp_conv_pixels_floats returns the number of floats of the packed weights. sp_conv_pixels_pack and
 * sp_conv_strips_pack pack the weights. They return 1 if a weight is infinite or NaN, else 0, or
 * -errno. */
int64_t sp_conv_pixels_floats(const struct sp_conv *v, enum sp_isa isa);
int sp_conv_pixels_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
int sp_conv_strips_pack(const struct sp_conv *v, float *to, struct sp_pool *pool, enum sp_isa isa, uint32_t threads);
#endif
