/* One function for each ioctl of ioctls.def. `data` is the emulated kernel driver's copy of the
 * caller's struct. It is as long as the larger of the caller's struct and the one known here, with
 * zeros after the caller's bytes. The machine is locked during the call. */
#ifndef SP_EMU_KMD_HANDLERS_H
#define SP_EMU_KMD_HANDLERS_H
#include "state.h"

#define SP_IOCTL(request, type, handler) int kmd_do_##handler(struct kmd_file *file, void *data);
#define SP_IOCTL_DENIED(nr, name)
#include "ioctls.def"
#undef SP_IOCTL
#undef SP_IOCTL_DENIED
#endif
