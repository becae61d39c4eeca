/* Checks a dispatch record before a queue accepts it. */
#ifndef SP_AMDGPU_CHECK_H
#define SP_AMDGPU_CHECK_H
#include "amdgpu/device/device.h"

int sp_amdgpu_check_dispatch(const struct sp_amdgpu *dev, const void *record, size_t nbytes);
#endif
