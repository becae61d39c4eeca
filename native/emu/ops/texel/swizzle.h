/* Swizzle equations: which bits of a texel's coordinates make each bit of its offset in a block. */
#ifndef SP_EMU_OPS_TEXEL_SWIZZLE_H
#define SP_EMU_OPS_TEXEL_SWIZZLE_H
#include <stdbool.h>
#include <stdint.h>

enum { SP_SWIZZLE_BITS = 18 };

/* Defined in swizzle_table.c. Each array is one string of equations in text form. The equations are
 * ordered by the chip's number of pipes and packers, then by the size of a texel. */
extern const char sp_swizzle_render_gfx10[], sp_swizzle_render_gfx11[], sp_swizzle_render256_gfx11[];

struct sp_equation {
    uint32_t block;                      /* logarithm to base 2 of a block's bytes */
    bool thick;                          /* true if blocks have a depth */
    /* true if low bits of the image's address are combined with a texel's offset by exclusive or */
    bool xored;
    uint16_t mask[SP_SWIZZLE_BITS][3];   /* for each offset bit: masks of the bits of x, y and z */
};

/* Computes the equation of SW_MODE `mode` for texels of 1 << `texel` bytes. `gb_addr_config` is the
 * register GB_ADDR_CONFIG. Returns false if the mode is not modelled. */
bool sp_swizzle_equation(uint32_t generation, uint32_t mode, bool volume, uint32_t texel, uint32_t gb_addr_config,
                         struct sp_equation *out);
uint32_t sp_swizzle_offset(const struct sp_equation *e, const uint32_t at[3]);
#endif
