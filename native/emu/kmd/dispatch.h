/* The entry of all ioctls: finds and calls the handler. */
#ifndef SP_EMU_KMD_DISPATCH_H
#define SP_EMU_KMD_DISPATCH_H
#include "emu/kmd/state/state.h"

int kmd_ioctl(void *self, int fd, uint32_t request, void *arg);
const char *kmd_ioctl_name(uint32_t nr);
#endif
