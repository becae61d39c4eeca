"""Reads the rows of the ISA tables native/emu/isa/rdna2.isa and rdna3.isa. A row looks like this:

    v_add_f32   VOP2   0x3   vdst:f32 src0:f32 vsrc1:f32   +e64 +dpp   = other_name   # D = S0 + S1

The name is spelled as in the generation's manual. Then come format, opcode, and operands in the
assembler's order. An operand is FIELD:TYPE; a `?` after the field means that it exists only with
GLC. `+` precedes a flag. `=` precedes the name of the same instruction in RDNA3, so that both
generations share one enumerator.

A field's name with an `s` before it (svdst, ssrc1) holds a scalar where its format usually has a
VGPR. `vcc` and `exec` are operands without a field.

TYPE is a letter and the bits of one element. The letters b, f, i and u stand for untyped, float,
signed and unsigned. f16x2 is two packed halves. h16 is half a register, written .l or .h. c16 is a
half whose constants are written with 32 bits. `mask` is a lane mask of the wave's size. Other types
name the syntax of an immediate (target, hwreg, sendmsg, waitcnt ...).

Flags: `vcc` says that VCC is read without being an operand, `bus1` that at most one scalar may be
read (bus.py). `rdna35` says that gfx11.5 has the instruction and gfx11.0 lacks it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .formats import VOP3_BASE

FLAGS = {"e64", "dpp", "dpp8", "sdwa", "e64dpp", "x", "y", "name", "vcc", "bus1", "rdna35"}
_TYPE = re.compile(r"([bfiuhc])(\d+)(x2)?$")


class RowOperand(NamedTuple):
    field: str
    type: str = ""
    optional: bool = False

    @property
    def nbits(self) -> int:
        """The number of bits of the registers that hold the operand.

        It is 0 for an operand that is no register. It is also 0 for an operand with a bit for each
        lane of the wave.
        """
        found = _TYPE.match(self.type)
        return int(found[2]) * (2 if found[3] else 1) if found else 0

    @property
    def ndw(self) -> int:
        return (self.nbits + 31) // 32


class Row(NamedTuple):
    name: str
    format: str
    opcode: int
    operands: tuple[RowOperand, ...]
    flags: frozenset[str]
    same_as: str  # name of the C enumerator, the same on gfx10 and gfx11
    note: str = ""

    @property
    def is_promoted(self) -> bool:
        """Whether this is the 64-bit form of a VOP1, VOP2 or VOPC."""
        return "promoted" in self.flags


def _operand(word: str) -> RowOperand:
    field, _, kind = word.partition(":")
    return RowOperand(field.rstrip("?"), kind, field.endswith("?"))


def parse_row(line: str) -> Row:
    """Reads one row, given without its line end. Raises ValueError with the reason."""
    facts, _, note = line.partition("#")
    facts, _, same_as = facts.partition("=")
    words = facts.split()
    if len(words) < 3:
        raise ValueError(f"expected a row NAME FORMAT OPCODE ..., got {line!r}")
    name, form, opcode = words[:3]
    flags = frozenset(word[1:] for word in words[3:] if word.startswith("+"))
    if flags - FLAGS:
        raise ValueError(f"{name}: no such flag: {sorted(flags - FLAGS)}")
    operands = tuple(_operand(word) for word in words[3:] if not word.startswith("+"))
    return Row(name, form, int(opcode, 0), operands, flags, same_as.strip() or name, note.strip())


def parse_table(text: str) -> list[Row]:
    """Returns the rows of the text of an ISA table. VOP3 forms have no row in the text: `promoted`
    makes them of other rows. Raises ValueError with the line number.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.partition("#")[0].strip():
            try:
                rows.append(parse_row(line))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    return rows


def promoted(row: Row) -> Row:
    """Returns the VOP3 form of a VOP1, VOP2 or VOPC that has one. With a carry out the form is
    VOP3B.
    """
    operands = []
    form = "VOP3"
    for i, operand in enumerate(row.operands):
        field, kind, _ = operand
        if field == "vcc" and row.format == "VOPC":
            field = "svdst"
        elif field == "vcc" and i == 1:
            field, form = "sdst", "VOP3B"
        elif field == "vcc":
            field = "ssrc2"
        elif field == "vsrc1":
            field = "src1"
        operands.append(RowOperand(field, kind))
    flags = {"promoted"} | ({"dpp", "dpp8"} if "e64dpp" in row.flags else set())
    opcode = VOP3_BASE[row.format] + row.opcode
    return row._replace(
        format=form, opcode=opcode, operands=tuple(operands), flags=frozenset(flags)
    )


def with_promoted(rows: list[Row]) -> list[Row]:
    return rows + [promoted(row) for row in rows if "e64" in row.flags]
