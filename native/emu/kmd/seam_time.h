#ifndef SP_EMU_KMD_SEAM_TIME_H
#define SP_EMU_KMD_SEAM_TIME_H
#include "include/sp_emu.h"

/* Around an ioctl's work, at the outermost place of a thread where the emulator has it: when it began, 0 within another. */
uint64_t sp_seam_enter(void);
/* `ours`: it was for the emulated kernel; else nothing is counted. */
void sp_seam_leave(uint64_t began, uint32_t request, int ours);
#endif
