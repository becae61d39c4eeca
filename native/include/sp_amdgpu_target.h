/* Maps a chip to its compiler target. */
#ifndef SP_AMDGPU_TARGET_H
#define SP_AMDGPU_TARGET_H
#include "sp_amdgpu_drm.h"

/* 1036 for gfx1036, from HW_IP_INFO of GFX and from DEV_INFO. 0: unknown chip. */
uint32_t sp_amdgpu_target(const struct drm_amdgpu_info_hw_ip *gfx, const struct drm_amdgpu_info_device *device);
#endif
