/* The emulator's extension. So far it says only which declarations it was built against. */
#ifndef SP_EMU_H
#define SP_EMU_H
#include "sp_base.h"

/* Grows when the interface between `_emu` and its caller changes; sparkle_drv.testing compares it before use. */
uint32_t sp_emu_version(void);
#endif
