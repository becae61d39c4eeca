/* Poison spreads: the result of an instruction with undefined operands is undefined in the bits that depend on them. */
#ifndef SP_EMU_OPS_SPREAD_H
#define SP_EMU_OPS_SPREAD_H
#include "emu/wave/operand.h"

/* `fn` has left SP_WAVE_POISON in w->stop: does it once more. 0, or the fault of what decides. */
int sp_wave_spread(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn);

/* Calls an instruction within another one. */
static inline int sp_wave_call(struct sp_wave *w, const struct sp_inst *i, sp_wave_fn fn)
{
    int rc = fn(w, i);
    return SP_UNLIKELY(w->stop == SP_WAVE_POISON) ? sp_wave_spread(w, i, fn) : rc;
}
#endif
