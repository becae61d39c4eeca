/* A decoded instruction and the functions that execute it. */
#ifndef SP_EMU_WAVE_SLOT_H
#define SP_EMU_WAVE_SLOT_H
#include "wave.h"

struct sp_slot {
    sp_wave_fn fn; /* NULL: the slot has not been decoded yet */
    uint32_t vector;
    struct sp_inst inst, second; /* `second` is the second instruction of a VOPD */
    sp_wave_fn half[2];          /* functions of the two instructions of a VOPD */
};
#endif
