/* Declares the lists of instructions, one list for each family (such as SOP1 or FLAT). A list gives
 * the function that executes each instruction. */
#ifndef SP_EMU_OPS_FAMILIES_H
#define SP_EMU_OPS_FAMILIES_H
#include "emu/wave/wave.h"

/* Lists of scalar and memory instructions. The lists of vector instructions (sp_wave_lanes_*) are
 * compiled once for each instruction set of the host. */
extern const struct sp_wave_op sp_wave_sop1[], sp_wave_sop2[], sp_wave_control[], sp_wave_smem[], sp_wave_flat[],
    sp_wave_buffer[], sp_wave_typed[], sp_wave_image[], sp_wave_ds[], sp_wave_ds_atomic[],
    sp_wave_matrix[], sp_wave_rare[], sp_wave_sfloat[];
extern const struct sp_wave_op *const sp_wave_lanes_base[];
#if defined(__x86_64__)
extern const struct sp_wave_op *const sp_wave_lanes_v3[];
#endif
#endif
