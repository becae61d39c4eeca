/* Converts the GPU's clock to CLOCK_MONOTONIC. Unused if the frequency of the GPU's clock is
 * unknown. */
#ifndef SP_AMDGPU_ANCHOR_H
#define SP_AMDGPU_ANCHOR_H
#include "device.h"

/* An anchor is one reading of both clocks. Reads a new one if the newest anchor is a second old.
 * The caller calls this before it converts the ticks of an ended submission. */
void sp_anchor_renew(struct sp_amdgpu *dev);
/* Returns the CLOCK_MONOTONIC time in ns at which the GPU's clock read `ticks`. */
uint64_t sp_amdgpu_ns(struct sp_amdgpu *dev, uint64_t ticks);
/* Returns the duration of `ticks` in ns, by the clock frequency that the kernel driver reports. */
uint64_t sp_ticks_ns(const struct sp_amdgpu *dev, uint64_t ticks);
#endif
