/* The GPU's clock beside CLOCK_MONOTONIC; nothing here is asked where the GPU's clock has no known frequency. */
#ifndef SP_AMDGPU_ANCHOR_H
#define SP_AMDGPU_ANCHOR_H
#include "device.h"

/* Takes a new anchor if the newest one is a second old: before ticks of a submission that has ended are asked for. */
void sp_anchor_renew(struct sp_amdgpu *dev);
/* CLOCK_MONOTONIC at these ticks. */
uint64_t sp_amdgpu_ns(struct sp_amdgpu *dev, uint64_t ticks);
/* How long so many ticks are, by the frequency that the kernel tells. */
uint64_t sp_ticks_ns(const struct sp_amdgpu *dev, uint64_t ticks);
#endif
