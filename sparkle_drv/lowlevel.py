"""What tools and bring-up may use below the public API: packets, registers, code objects, the ISA.

Names only. Nothing here is stable between versions.
"""

from .backends.amdgpu import (
    bits,
    codeobject,
    descriptors,
    dispatch,
    elf,
    isa,
    isa_formats,
    isa_rows,
    pm4,
    regs,
    sdma,
    setreg,
    targets,
    type3,
    values,
)

__all__ = [
    "bits",
    "codeobject",
    "descriptors",
    "dispatch",
    "elf",
    "isa",
    "isa_formats",
    "isa_rows",
    "pm4",
    "regs",
    "sdma",
    "setreg",
    "targets",
    "type3",
    "values",
]
