"""The reg command: prints registers with their addresses, generations and fields, and
decodes a value.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from _console.problems import FAILED, OK

from sparkle_drv import lowlevel
from sparkle_drv.lowlevel import NoSuchRegister, TextError, regs

from . import common
from .common import InputError

LEVELS = {9: "gfx9", 10: "gfx10.3", 11: "gfx11", 12: "gfx12"}


def add(sub: common.Subcommands) -> None:
    made = common.command(
        sub, "reg", reg, "registers: offsets, generations, fields, a value decoded"
    )
    made.add_argument(
        "names",
        nargs="+",
        metavar="NAME[=VALUE]",
        help="a name or a pattern such as 'PGM*' (COMPUTE_ may be left out), a byte or dword "
        "address, SH+0x212; the value is a number or '{FIELD=1 FIELD=2}'",
    )
    made.add_argument("--gfx", type=common.gfx, metavar="GFX", help="only this generation")


def reg(args: argparse.Namespace) -> int:
    code = OK
    for number, wanted in enumerate(args.names):
        name, equals, value = wanted.partition("=")
        try:
            found = lowlevel.lookup(name, args.gfx)
        except NoSuchRegister as error:
            raise InputError(str(error)) from None
        for i, register in enumerate(found):
            if number or i:
                print()
            if args.gfx is not None and args.gfx not in register.gfx:
                print(f"{register.name} is not in {LEVELS[args.gfx]}")
                code = FAILED
                continue
            for line in described(register, args.gfx, value if equals else None):
                print(line)
    return code


def described(register: regs.Register, gfx: int | None, value: str | None) -> Iterator[str]:
    """Yields the lines about one register. Generations with the same address and fields share their
    lines.
    """
    levels = [gfx] if gfx is not None else list(register.gfx)
    alias = [other for other, name in regs.ALIASES.items() if name == register.name]
    yield register.name + "".join(f", also {name}" for name in alias)
    if not register.user:
        yield "  users may not write it"
    for some in grouped(register, levels):
        byte, first = register.address(some[0]), some[0]
        yield (
            f"  {', '.join(LEVELS[g] for g in some)}: byte {byte:#x}, dword {byte // 4:#x}, "
            f"{register.space}+{register.offset(first):#x}"
        )
        number = None if value is None else valued(register, value, first)
        if number is not None:
            yield f"    = {number:#x}"
        for name, form in register.for_gfx(first).items():
            place = f"[{form.hi}:{form.lo}]" if form.width > 1 else f"[{form.lo}]"
            shown = "" if number is None else f" = {lowlevel.field_value(form, form.get(number))}"
            yield f"    {name} {place}{shown}"
        if number is not None and (odd := number & ~register.word.allowed(first)):
            yield f"    bits {odd:#x} are not declared"


def grouped(register: regs.Register, levels: list[int]) -> list[list[int]]:
    """Returns the gfx levels (generations) in groups with the same address and fields."""
    found: dict[object, list[int]] = {}
    for g in levels:
        fields = tuple((n, f.lo, f.hi) for n, f in register.for_gfx(g).items())
        found.setdefault((register.address(g), fields), []).append(g)
    return list(found.values())


def valued(register: regs.Register, text: str, gfx: int) -> int:
    try:
        return lowlevel.read_value(text, register, gfx)
    except TextError as error:
        raise InputError(f"{register.name}={text}: cannot read the value: {error.reason}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
