"""Base classes of the packets that write registers, and the names of registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from . import regs
from .bits import U32, Tail, Word, bits
from .type3 import Type3Packet


def register_name(space: str, offset: int, gfx: int) -> str:
    """Returns the name of a register, or "SH+0x123" if no table declares it."""
    found = regs.at(space, offset, gfx)
    return found.name if found else f"{space}+{offset:#x}"


class SetRegisters(Type3Packet):
    """A packet that writes registers with consecutive offsets."""

    SPACE: ClassVar[str]
    SHARED: ClassVar[dict[str, Any]] = {
        "reg": Word(offset=bits(0, 15), vmid_shift=bits(23, 27), index=bits(28, 31)),
        "values": Tail(),
    }


class SetPairs(Type3Packet):
    """A packet that writes registers by pairs (offset, value). Mesa uses it from gfx11 on."""

    SPACE: ClassVar[str]
    SHARED: ClassVar[dict[str, Any]] = {"pairs": Tail(least=2, most=0x3FFE, step=2)}


# two register offsets in one dword
PACKED = Word(offset0=bits(0, 15), offset1=bits(16, 31))


class SetPairsPacked(Type3Packet):
    """A packet that writes an even number of registers: a count, then (offset0 | offset1 << 16,
    value0, value1) for each two registers.
    """

    SPACE: ClassVar[str]
    SHARED: ClassVar[dict[str, Any]] = {
        "count": U32(),
        "triples": Tail(least=3, most=0x3FFC, step=3),
    }

    @classmethod
    def validate(cls, gfx: int, fields: Mapping[str, Any]) -> None:
        if fields["count"] * 3 != len(fields["triples"]) * 2:
            got, want = fields["count"], len(fields["triples"]) // 3 * 2
            raise ValueError(f"{cls.NAME}.count={got}, but {want} registers follow")

    @classmethod
    def registers(cls, triples: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yields (offset, value) of each register."""
        for i in range(0, len(triples), 3):
            offsets = PACKED.decode(triples[i : i + 1], 11, "PACKED")
            yield offsets["offset0"], triples[i + 1]
            yield offsets["offset1"], triples[i + 2]
