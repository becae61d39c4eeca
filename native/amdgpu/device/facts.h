/* What a render node says of itself. */
#ifndef SP_AMDGPU_FACTS_H
#define SP_AMDGPU_FACTS_H
#include "include/sp_amdgpu.h"

static const uint64_t SP_IOCTL_NS = UINT64_C(5) * 1000000000; /* who is asked to come again for so long, gives up */

int sp_amdgpu_info_raw(const struct sp_kmd_ops *ops, int fd, uint32_t query, uint32_t type, void *out, uint32_t nbytes);
#endif
