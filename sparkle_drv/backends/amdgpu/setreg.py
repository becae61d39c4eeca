"""What packets that write registers share: their shapes, and register names in their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from . import regs
from .bits import U32, Tail, Word, bits, number
from .type3 import Packet


def register_name(space: str, offset: int, gfx: int) -> str:
    """The register's name, or "SH+0x123" where none is declared."""
    found = regs.at(space, offset, gfx)
    return found.name if found else f"{space}+{offset:#x}"


def read_register(space: str, token: str, gfx: int) -> tuple[int, int]:
    """(offset, value) of "COMPUTE_PGM_LO=0x50d" or "SH+0x20c=0x50d"."""
    name, _, text = token.partition("=")
    if name.startswith(f"{space}+"):
        return number(name[len(space) + 1 :], token), number(text, token)
    try:
        return regs.find(name).offset(gfx), number(text, token)
    except KeyError:
        raise ValueError(f"{token!r}: no register {name}") from None


class SetRegisters(Packet):
    """A run of registers from one offset on. Its text names them."""

    SPACE: ClassVar[str]
    SHARED: ClassVar[dict[str, Any]] = {
        "reg": Word(offset=bits(0, 15), vmid_shift=bits(23, 27), index=bits(28, 31)),
        "values": Tail(),
    }

    @classmethod
    def words(cls, fields: Mapping[str, Any], gfx: int) -> list[str]:
        rest = {**fields, "reg": {**fields["reg"], "offset": 0}, "values": []}
        return super().words(rest, gfx) + [
            f"{register_name(cls.SPACE, fields['reg']['offset'] + i, gfx)}={value:#x}"
            for i, value in enumerate(fields["values"])
        ]

    @classmethod
    def read_words(cls, tokens: Sequence[str], gfx: int) -> dict[str, Any]:
        own = [t for t in tokens if t.split("=")[0].partition(".")[0] in cls.ELEMENTS]
        values = super().read_words(own, gfx)
        pairs = [read_register(cls.SPACE, t, gfx) for t in tokens if t not in own]
        first = pairs[0][0] if pairs else 0
        if [offset for offset, _ in pairs] != list(range(first, first + len(pairs))):
            raise ValueError(f"{cls.NAME}: registers are not neighbours in their order")
        values.setdefault("reg", {})["offset"] = first
        return {**values, "values": [value for _, value in pairs]}


class SetPairs(Packet):
    """(offset, value) again and again. Mesa: gfx11 on."""

    SPACE: ClassVar[str]
    SHARED: ClassVar[dict[str, Any]] = {"pairs": Tail(least=2, most=0x3FFE, step=2)}

    @classmethod
    def words(cls, fields: Mapping[str, Any], gfx: int) -> list[str]:
        pairs = fields["pairs"]
        return super().words({k: v for k, v in fields.items() if k != "pairs"}, gfx) + [
            f"{register_name(cls.SPACE, pairs[i], gfx)}={pairs[i + 1]:#x}"
            for i in range(0, len(pairs), 2)
        ]

    @classmethod
    def read_words(cls, tokens: Sequence[str], gfx: int) -> dict[str, Any]:
        own = [t for t in tokens if t.startswith("header.")]
        pairs = [read_register(cls.SPACE, t, gfx) for t in tokens if t not in own]
        flat = [number for pair in pairs for number in pair]
        return {**super().read_words(own, gfx), "pairs": flat}


# Two register offsets in one dword.
PACKED = Word(offset0=bits(0, 15), offset1=bits(16, 31))


class SetPairsPacked(Packet):
    """A count, then (offset0 | offset1 << 16, value0, value1): an even number of registers."""

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
        """(offset, value) of each."""
        for i in range(0, len(triples), 3):
            offsets = PACKED.decode(triples[i : i + 1], 11, "PACKED")
            yield offsets["offset0"], triples[i + 1]
            yield offsets["offset1"], triples[i + 2]

    @classmethod
    def words(cls, fields: Mapping[str, Any], gfx: int) -> list[str]:
        rest = {k: v for k, v in fields.items() if k == "header"}
        return super().words(rest, gfx) + [
            f"{register_name(cls.SPACE, offset, gfx)}={value:#x}"
            for offset, value in cls.registers(fields["triples"])
        ]

    @classmethod
    def read_words(cls, tokens: Sequence[str], gfx: int) -> dict[str, Any]:
        own = [t for t in tokens if t.startswith("header.")]
        found = [read_register(cls.SPACE, t, gfx) for t in tokens if t not in own]
        if len(found) % 2:
            raise ValueError(f"{cls.NAME} takes an even number of registers, not {len(found)}")
        triples: list[int] = []
        for (o0, v0), (o1, v1) in zip(found[::2], found[1::2], strict=True):
            offsets = PACKED.encode({"offset0": o0, "offset1": o1}, gfx, "PACKED")
            triples += [*offsets, v0, v1]
        return {**super().read_words(own, gfx), "count": len(found), "triples": triples}
