"""The instructions of one generation, found by name or by code, and one instruction as fields.

`Inst` is the form between text and dwords. codec.py converts it to dwords and back, print.py and
parse.py to text and back.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cache

from .formats import FORMATS, Format
from .rows import Row, parse_table, with_promoted

# Formats whose instructions are encoded in the layout of another format.
LAYOUT = {"SCRATCH": "FLAT", "GLOBAL": "FLAT"}
SEGMENT = {"FLAT": 0, "SCRATCH": 1, "GLOBAL": 2}
VOP12C = ("VOP1", "VOP2", "VOPC")
VOP3S = ("VOP3", "VOP3B", "VOP3P")


def generation(gfx: str | int) -> int:
    """Returns 10 or 11 for "gfx1036", "gfx1100", "gfx10", 10 ... Raises ValueError for another
    chip.
    """
    text = str(gfx).removeprefix("gfx")
    if text in ("10", "11") or (len(text) == 4 and text[:3] in ("103", "110", "115")):
        return int(text[:2])
    raise ValueError(
        f"gfx: got {gfx!r}, expected gfx1030..gfx1036 (RDNA2), gfx1100..1103 (RDNA3) or "
        "gfx1150..1153 (RDNA3.5)"
    )


def has(gfx: str | int, row: Row) -> bool:
    """Returns whether the chip `gfx` has the instruction `row`. gfx11.0 lacks the instructions that
    RDNA3.5 added.
    """
    return "rdna35" not in row.flags or str(gfx).removeprefix("gfx").startswith("115")


@dataclass
class Inst:
    """One instruction: its row, the raw value of each field, and its additional dwords."""

    row: Row
    fields: dict[str, int] = field(default_factory=dict)
    # format of the dword that SRC0 asks for: DPP16, DPP8, SDWA or SDWAB; "" if none
    second: str = ""
    second_fields: dict[str, int] = field(default_factory=dict)
    literal: int | None = None
    y: Row | None = None  # row of the second half of a VOPD
    reserved: int = 0  # bits that are set but belong to no field


class Table:
    """The instructions of one generation, as rows."""

    def __init__(self, gen: int) -> None:
        self.gen = gen
        text: str = importlib.import_module(f".gfx{gen}", __package__).TABLE
        self.rows = with_promoted(parse_table(text))
        self.formats: dict[str, Format] = FORMATS[gen]
        self.by_name: dict[str, list[Row]] = {}
        self.by_code: dict[tuple[str, int], Row] = {}
        for row in self.rows:
            self.by_name.setdefault(row.name, []).append(row)
            if row.format == "VOPD":
                for half in row.flags & {"x", "y"}:
                    self.by_code["VOPD" + half, row.opcode] = row
            else:
                self.by_code["VOP3" if row.format == "VOP3B" else row.format, row.opcode] = row
        self.null, self.m0 = (125, 124) if gen == 10 else (124, 125)

    def layout(self, row: Row) -> Format:
        return self.formats[LAYOUT.get(row.format, row.format)]

    def field_name(self, row: Row, operand: str) -> str:
        """Returns the format's field of an operand. An operand such as svdst is in the
        field vdst.
        """
        fields = self.layout(row).fields
        return operand if operand in fields else operand[1:]

    @property
    def aliases(self) -> dict[str, str]:
        """Names that the other generation has for instructions of this one: {other name:
        own name}.
        """
        return _aliases(self.gen)


@cache
def table(gen: int) -> Table:
    return Table(gen)


@cache
def _aliases(gen: int) -> dict[str, str]:
    pairs = [(row.name, row.same_as) for row in table(10).rows if row.same_as != row.name]
    known = table(gen).by_name
    if gen == 10:
        pairs = [(new, old) for old, new in pairs]
    return {theirs: ours for theirs, ours in pairs if theirs not in known and ours in known}
