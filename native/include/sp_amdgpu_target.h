/* Maps a chip to its compiler target. */
#ifndef SP_AMDGPU_TARGET_H
#define SP_AMDGPU_TARGET_H
#include "sp_amdgpu_drm.h"

/* Returns the compiler target of a chip as a number, such as 1036 for gfx1036, from the answers to
 * HW_IP_INFO of GFX and DEV_INFO. Returns 0 for an unknown chip. */
uint32_t sp_amdgpu_target(const struct drm_amdgpu_info_hw_ip *gfx, const struct drm_amdgpu_info_device *device);
#endif
