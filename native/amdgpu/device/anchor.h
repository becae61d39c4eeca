/* Maps the GPU's clock to CLOCK_MONOTONIC. Not used if the frequency of the GPU's clock is
 * unknown. */
#ifndef SP_AMDGPU_ANCHOR_H
#define SP_AMDGPU_ANCHOR_H
#include "device.h"

/* Takes a new anchor if the newest one is a second old. Call it before the ticks of an ended
 * submission are converted. */
void sp_anchor_renew(struct sp_amdgpu *dev);
/* CLOCK_MONOTONIC, in ns, at these ticks. */
uint64_t sp_amdgpu_ns(struct sp_amdgpu *dev, uint64_t ticks);
/* Duration of `ticks` in ns, by the frequency that the kernel reports. */
uint64_t sp_ticks_ns(const struct sp_amdgpu *dev, uint64_t ticks);
#endif
