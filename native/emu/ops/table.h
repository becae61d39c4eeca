/* The function of each instruction, the splitting of VOPD (two instructions in one), and the
 * handling of undefined operands. */
#ifndef SP_EMU_OPS_TABLE_H
#define SP_EMU_OPS_TABLE_H
#include "emu/wave/slot.h"

sp_wave_fn sp_wave_function(uint32_t op);
bool sp_wave_op_is_vector(uint32_t op);
/* Returns true if the instruction changes only registers, SCC and the program counter. Poison may
 * spread through such instructions (alu_poison.c). */
bool sp_wave_op_is_alu(uint32_t op);
/* Returns true for dot products of halves and for WMMA. */
bool sp_wave_op_is_matrix(uint32_t op);

/* alu_poison.c: executes `fn` several more times, after `fn` has set w->stop to SP_WAVE_POISON. Result
 * bits that depend on undefined operands become undefined. Returns 0, or a fault if such an operand
 * decides. */
int sp_wave_spread(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn);

/* Executes `fn` and handles undefined operands. The function of an instruction may call this for a
 * part of its work, such as each half of a VOPD. */
static inline int sp_wave_call(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn)
{
    int rc = fn(w, i);
    return w->stop == SP_WAVE_POISON ? sp_wave_spread(w, i, fn) : rc;
}

/* Splits the VOPD instruction in a slot into two instructions. Returns -1 if one of them is not
 * modelled. */
int sp_vopd_split(struct sp_slot *slot);
int sp_wave_vopd(struct sp_wave *w, const struct sp_inst *i);
#endif
