/* The function of each instruction, instructions that hold two others (VOPD), and the handling of
 * undefined operands. */
#ifndef SP_EMU_OPS_TABLE_H
#define SP_EMU_OPS_TABLE_H
#include "emu/wave/slot.h"

sp_wave_fn sp_wave_function(uint32_t op);
bool sp_wave_op_is_vector(uint32_t op);
/* True if it changes only registers, SCC and the program counter. Poison may spread through those
 * (spread.c). */
bool sp_wave_op_is_alu(uint32_t op);


/* spread.c: `fn` has set w->stop to SP_WAVE_POISON and is executed again: result bits are undefined
 * if they depend on undefined operands. 0, or a fault if such an operand decides. */
int sp_wave_spread(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn);

/* Calls an instruction within another one. */
static inline int sp_wave_call(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn)
{
    int rc = fn(w, i);
    return w->stop == SP_WAVE_POISON ? sp_wave_spread(w, i, fn) : rc;
}

/* Splits one slot into two instructions; -1: one of them is not modelled. */
int sp_vopd_split(struct sp_slot *slot);
int sp_wave_vopd(struct sp_wave *w, const struct sp_inst *i);
#endif
