/* The main loop of a wave. */
#ifndef SP_EMU_RUN_RUN_H
#define SP_EMU_RUN_RUN_H
#include "emu/wave/wave.h"

/* Runs a wave until it stops, or until it has executed `budget` instructions. Returns why the wave
 * stopped, or SP_WAVE_GO after `budget` instructions. */
int sp_wave_run(struct sp_wave *w, uint64_t budget);
#endif
