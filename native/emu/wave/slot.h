/* A decoded instruction and the functions that execute it. */
#ifndef SP_EMU_WAVE_SLOT_H
#define SP_EMU_WAVE_SLOT_H
#include "wave.h"

struct sp_slot {
    sp_wave_fn fn; /* NULL: not yet decoded */
    uint32_t vector;
    struct sp_inst inst, second; /* second: VOPD's other half */
    sp_wave_fn half[2];          /* of VOPD */
};
#endif
