/* Addresses of a buffer access's lanes, for plain (buffer.c) and formatted (texel/typed.c)
 * instructions. */
#ifndef SP_EMU_OPS_BUFFER_H
#define SP_EMU_OPS_BUFFER_H
#include "memory.h"

/* Computes the lanes' addresses. Returns a mask of the lanes in range for `nbytes`. */
uint64_t sp_buffer_addresses(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint64_t *va);
/* Reports an instruction's accesses to race/, except to the wave's own scratch. 0, or the wave's
 * stop. */
int sp_buffer_raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a);
/* Swizzling interleaves dwords: the distance in bytes between dwords of a wider access. */
uint64_t sp_buffer_step(struct sp_wave *w, const struct sp_inst *i);
/* One dword of each active lane, loaded into LDS instead of a register, poison in the lanes of
 * `undefined`. 0, or the wave's stop. */
int sp_buffer_to_lds(struct sp_wave *w, const struct sp_inst *i, const uint32_t *data, uint64_t undefined);
#endif
