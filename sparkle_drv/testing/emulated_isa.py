"""The instructions that emulated waves execute, and those that they know only by name.

A program that reaches one of the latter ends with a fault that names it. tools/rdna_as.py prints
the list; tests/emu/wave/test_wave_lacking.py says which may be on it, and why.
"""

from __future__ import annotations

from .._emu import ffi, lib
from ..amd.isa.table import generation, has, table

__all__ = ["lacking"]


def _executed() -> set[str]:
    """Names of instructions that have a function; RDNA3 names where the generations differ."""
    found, number = set(), 1
    while (name := lib.sp_emu_op_name(number)) != ffi.NULL:
        if lib.sp_emu_op_modelled(number):
            found.add(ffi.string(name).decode())
        number += 1
    return found


def lacking(gfx: str) -> dict[str, list[str]]:
    """By format: the chip's instructions without a function. ValueError for an unknown chip."""
    executed, found = _executed(), dict[str, list[str]]()
    for row in table(generation(gfx)).rows:
        known = row.same_as in executed
        if has(gfx, row) and not known and row.name not in found.setdefault(row.format, []):
            found[row.format].append(row.name)
    return {form: sorted(names) for form, names in found.items() if names}
