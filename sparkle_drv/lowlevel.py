"""What bring-up and tools may use below the public names: packets, registers and their kit."""

from .backends.amdgpu import bits, descriptors, pm4, regs, sdma, setreg, type3, values

__all__ = ["bits", "descriptors", "pm4", "regs", "sdma", "setreg", "type3", "values"]
