/* The call of an instruction's function, with the handling of undefined operands. */
#ifndef SP_EMU_OPS_ALU_POISON_H
#define SP_EMU_OPS_ALU_POISON_H
#include "emu/wave/slot.h"

/* Executes `fn` several more times, after `fn` has set w->stop to SP_WAVE_POISON. Result
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
#endif
