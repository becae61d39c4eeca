#ifndef SP_EMU_KMD_SEAM_TIME_H
#define SP_EMU_KMD_SEAM_TIME_H
#include "include/sp_emu.h"

/* Begins to measure an ioctl. Call it at the ioctl's outermost point in the emulator. Returns the
 * start time, or 0 if this thread is already measuring an ioctl. */
uint64_t sp_seam_enter(void);
/* Ends the measurement of an ioctl. `ours`: the ioctl was for the emulated kernel driver; other
 * ioctls are not counted. */
void sp_seam_leave(uint64_t began, uint32_t request, int ours);
#endif
