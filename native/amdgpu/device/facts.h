/* Facts that a render node reports. */
#ifndef SP_AMDGPU_FACTS_H
#define SP_AMDGPU_FACTS_H
#include "include/sp_amdgpu.h"

/* time limit for repeats of an ioctl that the kernel driver interrupts */
static const uint64_t SP_IOCTL_NS = UINT64_C(5) * 1000000000;

int sp_amdgpu_info_raw(const struct sp_kmd_ops *ops, int fd, uint32_t query, uint32_t type, void *out, uint32_t nbytes);
#endif
