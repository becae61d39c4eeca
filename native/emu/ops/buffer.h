/* Addresses of the lanes of a buffer access, for plain (buffer.c) and formatted (texel/typed.c)
 * instructions. */
#ifndef SP_EMU_OPS_BUFFER_H
#define SP_EMU_OPS_BUFFER_H
#include "memory.h"

/* Computes the lanes' addresses. Returns a mask of the lanes in range. Without `inside`, a lane is in
 * range if all its `nbytes` are. With it, each dword has a check of its own: inside[k] is the mask
 * of lanes whose dword k is in range, and the returned mask has lanes with any dword in range. */
uint64_t sp_buffer_addresses(struct sp_wave *w, const struct sp_inst *i, uint32_t nbytes, uint64_t *va, uint64_t *inside);
/* Reports an instruction's accesses to the race check (emu/race), except those to the wave's own
 * scratch. Returns 0, or w->stop if the wave must stop. */
int sp_buffer_raced(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a);
/* Returns the distance in bytes between the dwords of one access. Swizzling interleaves the dwords
 * of several lanes. */
uint64_t sp_buffer_step(struct sp_wave *w, const struct sp_inst *i);
/* Writes a loaded dword of each active lane to LDS instead of a register. Lanes in `undefined`
 * write poison. Returns 0, or w->stop if the wave must stop. */
int sp_buffer_to_lds(struct sp_wave *w, const struct sp_inst *i, const uint32_t *data, uint64_t undefined);
#endif
