/* The function of each instruction, and the splitting of VOPD (two instructions in one). */
#ifndef SP_EMU_OPS_TABLE_H
#define SP_EMU_OPS_TABLE_H
#include "emu/wave/slot.h"

sp_wave_fn sp_wave_function(uint32_t op);
/* Splits the VOPD instruction in a slot into two instructions. Returns -1 if one of them is not
 * modelled. */
int sp_vopd_split(struct sp_slot *slot);
int sp_wave_vopd(struct sp_wave *w, const struct sp_inst *i);
#endif
