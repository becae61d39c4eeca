/* Swizzle equations: the bits of a texel's coordinates that make each bit of its offset in a
 * block. */
#ifndef SP_EMU_OPS_TEXEL_SWIZZLE_H
#define SP_EMU_OPS_TEXEL_SWIZZLE_H
#include <stdbool.h>
#include <stdint.h>

enum { SP_SWIZZLE_BITS = 18 };

/* swizzle_table.c: by configuration, then by the logarithm of a texel's bytes */
extern const char sp_swizzle_render_gfx10[], sp_swizzle_render_gfx11[], sp_swizzle_render256_gfx11[];

struct sp_equation {
    uint32_t block;                      /* logarithm of a block's bytes */
    bool thick;                          /* blocks have a depth */
    bool xored;                          /* the exclusive or includes low bits of the image's address */
    uint16_t mask[SP_SWIZZLE_BITS][3];   /* for each offset bit: bits of x, y, z */
};

/* The equation of SW_MODE for texels of 1 << `texel` bytes; false: the mode is not modelled.
 * `gb_addr_config`: that register. */
bool sp_swizzle_equation(uint32_t generation, uint32_t mode, bool volume, uint32_t texel, uint32_t gb_addr_config,
                         struct sp_equation *out);
uint32_t sp_swizzle_offset(const struct sp_equation *e, const uint32_t at[3]);
#endif
