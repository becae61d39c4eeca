"""The instructions that the emulator executes, and those that it only knows by name.

A program that reaches an instruction of the second kind ends with a fault that names the
instruction. tools/rdna_as.py prints the list of such instructions.
tests/emu/wave/test_wave_lacking.py says which instructions may be on the list, and why.
"""

from __future__ import annotations

from .._emu import ffi, lib
from ..amd.isa.table import generation, has, table

__all__ = ["lacking"]


def _executed() -> set[str]:
    """Returns the names of the instructions that a C function of the emulator executes.

    If generations name an instruction differently, its RDNA3 name counts.
    """
    names, number = set(), 1
    while (name := lib.sp_emu_op_name(number)) != ffi.NULL:
        if lib.sp_emu_op_modelled(number):
            names.add(ffi.string(name).decode())
        number += 1
    return names


def lacking(gfx: str) -> dict[str, list[str]]:
    """Returns the chip's instructions that the emulator cannot execute, by format.

    Raises ValueError for an unknown chip.
    """
    executed, missing = _executed(), dict[str, list[str]]()
    for row in table(generation(gfx)).rows:
        known = row.same_as in executed
        if has(gfx, row) and not known and row.name not in missing.setdefault(row.format, []):
            missing[row.format].append(row.name)
    return {form: sorted(names) for form, names in missing.items() if names}
