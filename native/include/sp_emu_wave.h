/* Queries which instructions the emulated waves can execute, for tests and documents. */
#ifndef SP_EMU_WAVE_H_
#define SP_EMU_WAVE_H_
#include "sp_base.h"

/* Returns 1 if the emulator can execute instruction `op` (enum sp_op, names by sp_emu_op_name),
 * else 0. */
int sp_emu_op_modelled(uint32_t op);

/* Returns the offset of a texel from its image's address, for tests, or -1 if the swizzle mode is
 * not modelled. `place` is generation, GB_ADDR_CONFIG, SW_MODE, dimensions, logarithm of a texel's
 * bytes, width, height, depth, levels, level, x, y, z. */
int64_t sp_emu_image_offset(const uint32_t place[13]);
#endif
