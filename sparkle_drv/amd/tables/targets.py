"""The chips that a code object is for: EF_AMDGPU_MACH of the ELF header's flags, by name.

The numbers are those that clang 19 writes for each -mcpu. clang 19 lacks gfx1153, whose number is
from LLVM's AMDGPU usage guide. Only the low byte of the flags is compared: bits 8 to 11 are xnack
and sramecc of gfx9, bits 24 to 31 the version of a generic target.
"""

from __future__ import annotations

from .bits import GFX

MACH = {
    0x2C: "gfx900", 0x2D: "gfx902", 0x2E: "gfx904", 0x2F: "gfx906", 0x30: "gfx908",
    0x31: "gfx909", 0x32: "gfx90c", 0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012",
    0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3D: "gfx1035",
    0x3E: "gfx1034", 0x3F: "gfx90a", 0x40: "gfx940", 0x41: "gfx1100", 0x42: "gfx1013",
    0x43: "gfx1150", 0x44: "gfx1103", 0x45: "gfx1036", 0x46: "gfx1101", 0x47: "gfx1102",
    0x48: "gfx1200", 0x4A: "gfx1151", 0x4B: "gfx941", 0x4C: "gfx942", 0x4E: "gfx1201",
    0x51: "gfx9-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic",
    0x54: "gfx11-generic", 0x55: "gfx1152", 0x58: "gfx1153", 0x59: "gfx12-generic",
}  # fmt: skip

# Generic targets, by the first letters of the chips that they run on (LLVM's AMDGPU usage guide).
# Only the levels that this backend drives are listed.
_GENERIC = {"gfx103": "gfx10-3-generic", "gfx110": "gfx11-generic", "gfx115": "gfx11-generic"}


def accepted(chip: str) -> tuple[str, ...]:
    """Returns the targets whose code runs on `chip` ("gfx1036"): the chip itself, then the generic
    target of its family.
    """
    generic = _GENERIC.get(chip[:6]) if len(chip) == 7 else None
    return (chip, generic) if generic else (chip,)


def gfx_level(target: str) -> int:
    """Returns the hardware level of a target: 10 for "gfx1036" and "gfx10-3-generic".

    Raises ValueError for a target without register tables.
    """
    digits = target.removeprefix("gfx").split("-")[0]
    number = digits if "-" in target else digits[:-2]
    if not target.startswith("gfx") or not number.isdigit() or int(number) not in GFX:
        raise ValueError(f"expected a target whose registers are known, got {target!r}")
    return int(number)


def mach_name(flags: int) -> str:
    """Returns the name of the target in e_flags, or "MACH 0x99" if the target has no name here."""
    mach = flags & 0xFF
    return MACH.get(mach, f"MACH {mach:#x}")
