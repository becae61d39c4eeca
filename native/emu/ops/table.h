/* Which function executes which instruction, and which instructions are two. */
#ifndef SP_EMU_OPS_TABLE_H
#define SP_EMU_OPS_TABLE_H
#include "emu/wave/slot.h"

sp_wave_fn sp_wave_function(uint32_t op);
bool sp_wave_op_is_vector(uint32_t op);
/* Does it nothing but change registers, SCC and the program counter? Poison may spread through those (spread.c). */
bool sp_wave_op_is_alu(uint32_t op);


/* Makes one slot of two instructions; -1 when one of them is lacking. */
int sp_vopd_split(struct sp_slot *slot);
int sp_wave_vopd(struct sp_wave *w, const struct sp_inst *i);
#endif
