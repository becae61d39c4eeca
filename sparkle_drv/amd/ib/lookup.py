"""Finds registers by what people write: a name, part of a name, a pattern, or an offset."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fnmatch import fnmatchcase

from sparkle_drv.amd.tables import regs
from sparkle_drv.amd.tables.bits import GFX

from .lex import items, tokens
from .parse import register as parsed

# The kernel driver's headers give register offsets in dwords from segment 0 of the graphics block.
# That segment is at this dword: AMDGPU_FACTS 3.1.
GC_SEGMENT0 = 0x1260
_SPACE = re.compile(r"(SH|CONTEXT|UCONFIG)\+(0x[0-9a-f]+|\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)


class NoSuchRegister(LookupError):
    """No table has the register. `close` has similar names.

    >>> lowlevel.lookup("COMPUTE_NUM_THREAD_W")
    Traceback (most recent call last):
        ...
    sparkle_drv.amd.ib.lookup.NoSuchRegister: no register COMPUTE_NUM_THREAD_W; did you mean ...
    """

    def __init__(self, wanted: str, close: list[str]):
        more = f"; did you mean {', '.join(close)}?" if close else ""
        super().__init__(f"no register {wanted[:60]}{more}")
        self.close = close

    def __str__(self) -> str:
        return str(self.args[0])


def lookup(wanted: str, gfx: int | None = None) -> list[regs.Register]:
    """Returns the registers that `wanted` names.

    `wanted` is a name in any case, with or without COMPUTE_; a byte address; a dword address;
    "SH+0x212"; an offset in SH; an offset of the kernel driver's headers; or a pattern such as
    "COMPUTE_PGM*". Returns several registers if a pattern fits several, or if levels of hardware
    differ and `gfx` is None. Raises NoSuchRegister if none fits.

    >>> [r.name for r in lowlevel.lookup("num_thread_x", gfx=11)]
    ['COMPUTE_NUM_THREAD_X']
    """
    levels = GFX if gfx is None else (gfx,)
    if _NUMBER.fullmatch(wanted) or _SPACE.fullmatch(wanted):
        places = _places(wanted)
        registers = {
            r.name: r for space, off in places for g in levels if (r := regs.at(space, off, g))
        }
        if not registers:
            raise NoSuchRegister(wanted, [])
        return list(registers.values())
    name = wanted.upper()
    if set(name) & set("*?["):
        return _fitting(name, levels)
    names = {**{n: n for n in regs.REGISTERS}, **regs.ALIASES}
    for candidate in (name, f"COMPUTE_{name}", f"COMPUTE_PGM_{name}"):
        if candidate in names:
            return [regs.REGISTERS[names[candidate]]]
    short = {n.removeprefix("COMPUTE_").removeprefix("PGM_"): n for n in names}
    near = get_close_matches(name[:64], [*names, *short], 4, 0.6)
    near += sorted(n for n in names if name in n)[:4] if len(name) > 2 else []
    raise NoSuchRegister(wanted, list(dict.fromkeys(short.get(n, n) for n in near)))


def _fitting(pattern: str, levels: tuple[int, ...]) -> list[regs.Register]:
    """Returns the registers that fit the pattern by their name or an alias, sorted by address. Only
    registers that one of the levels has count. Raises NoSuchRegister if none fits.
    """
    patterns = (pattern, f"COMPUTE_{pattern}", f"COMPUTE_PGM_{pattern}")
    names = {**{n: n for n in regs.REGISTERS}, **regs.ALIASES}
    fitting = {own for n, own in names.items() if any(fnmatchcase(n, p) for p in patterns)}
    registers = [regs.REGISTERS[name] for name in fitting]
    registers = [register for register in registers if set(register.gfx) & set(levels)]
    if not registers:
        raise NoSuchRegister(pattern, [])
    return sorted(registers, key=lambda register: (register.byte, register.name))


def _places(wanted: str) -> list[tuple[str, int]]:
    """Returns (register space, dword offset) of the register that the number `wanted` means. There
    is never more than one, because the address ranges of the spaces do not overlap.
    """
    if found := _SPACE.fullmatch(wanted):
        return [(found[1].upper(), int(found[2], 0))]
    number = int(wanted, 16 if wanted[:2].lower() == "0x" else 10)
    for space, (low, end) in regs.SPACES.items():
        if low <= number < end and number % 4 == 0:
            return [(space, (number - low) // 4)]
        for dword in (number, number + GC_SEGMENT0):
            if low // 4 <= dword < end // 4:
                return [(space, dword - low // 4)]
    return [("SH", number)]


def read_value(text: str, register: regs.Register, gfx: int) -> int:
    """Reads a register's value from a text such as "0x8c" or "{USER_SGPR=6 TGID_X_EN=1}". Raises
    ValueError for other text, an unknown field, or a value that does not fit.

    >>> register = lowlevel.lookup("COMPUTE_NUM_THREAD_X", gfx=11)[0]
    >>> lowlevel.read_value("0x40", register, 11)
    64
    """
    found = list(items(list(tokens(f"{register.name}={text}", 1))))
    if len(found) != 1:
        raise ValueError(f"expected one number, or fields in brackets, got {text!r}")
    return parsed(register.space, found[0], gfx)[1]
