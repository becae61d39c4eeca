/* What the emulated waves can execute, for tests and documents. */
#ifndef SP_EMU_WAVE_H_
#define SP_EMU_WAVE_H_
#include "sp_base.h"

/* Is there a function for this instruction (enum sp_op, names by sp_emu_op_name)? 1 or 0. */
int sp_emu_op_modelled(uint32_t op);

/* Where texel `at` of a level lies behind the image's address, for tests; -1 where the swizzle mode is not modelled. `size`
 * is of level 0, of a texel `texel` is the logarithm of its bytes. */
struct sp_emu_image_place {
    uint32_t generation, gb_addr_config, sw_mode, is_3d, texel, size[3], levels, level, at[3];
};
int64_t sp_emu_image_offset(const struct sp_emu_image_place *place);
#endif
