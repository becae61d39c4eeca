/* What the emulated waves can execute, for tests and documents. */
#ifndef SP_EMU_WAVE_H_
#define SP_EMU_WAVE_H_
#include "sp_base.h"

/* Is there a function for this instruction (enum sp_op, names by sp_emu_op_name)? 1 or 0. */
int sp_emu_op_modelled(uint32_t op);
#endif
