"""The type 3 packet: its header, and the base class of all PM4 packets of pm4.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from . import packet
from .bits import G11UP, GFX, Word, bits, level

QUEUES = ("gfx", "compute")

HEADER = Word(
    predicate=bits(0),
    shader_type=bits(1),  # 1 is compute; the bit matters only on a GFX queue
    reset_filter_cam=bits(2, gfx=G11UP),
    opcode=bits(8, 15),
    count=bits(16, 29),  # number of the packet's dwords, with the header, minus 2; fault: count
    type=bits(30, 31),
)
TYPE3 = 3
# Opcode of NOP, and the value of the header's field `count` with which a NOP is one dword long.
NOP = 0x10
COUNT_ONE_DWORD = 0x3FFF  # fault: nop
FLAGS = ("predicate", "shader_type", "reset_filter_cam")


class Type3Packet(packet.Packet):
    """A type 3 packet. Subclasses declare the elements after the header."""

    KIND = "packet"
    OPCODE: ClassVar[int]
    ON: ClassVar[tuple[str, ...]]

    def __init_subclass__(
        cls,
        *,
        opcode: int = -1,
        gfx: tuple[int, ...] = GFX,
        queues: tuple[str, ...] = QUEUES,
        name: str = "",
    ):
        if opcode < 0:  # a base class, whose subclasses inherit the fields in SHARED
            return
        cls.OPCODE, cls.LEVELS, cls.ON = opcode, gfx, queues
        inherited = {k: v for b in cls.__mro__[1:-1] for k, v in getattr(b, "SHARED", {}).items()}
        for key, element in inherited.items():
            if key not in vars(cls):
                setattr(cls, key, element)
        cls.declare(HEADER, name or spelled(cls.__name__))
        for gen in gfx:
            for queue in queues:
                other = PACKETS.setdefault((opcode, gen, queue), cls)
                if other is not cls:
                    raise ValueError(
                        f"{cls.NAME} and {other.NAME} both have opcode {opcode:#x} on gfx{gen}"
                    )

    @classmethod
    def encode(
        cls, *, gfx: float = 11, header: Mapping[str, int] | None = None, **v: Any
    ) -> list[int]:
        """Returns the dwords of the packet. `header` may have predicate, shader_type and
        reset_filter_cam.
        """
        g = cls.on(gfx)
        start = {**(header or {}), "opcode": cls.OPCODE, "type": TYPE3}
        dwords = cls.encode_elements(g, {"header": start, **v})
        filler = cls.OPCODE == NOP and len(dwords) == 1
        start["count"] = COUNT_ONE_DWORD if filler else len(dwords) - 2
        dwords[:1] = HEADER.encode(start, g, f"{cls.NAME}.header")
        cls.validate(g, cls.decode_elements(g, dwords))
        return dwords

    @classmethod
    def validate(cls, gfx: int, fields: Mapping[str, Any]) -> None:
        """Checks the packet's rules about its fields, other than their widths. Raises ValueError if
        the fields break a rule.
        """

    @staticmethod
    def decode(
        dwords: Sequence[int], gfx: float = 11, queue: str = "compute", start: int = 0
    ) -> tuple[type[Type3Packet], dict[str, Any], int]:
        """Returns class, fields and number of dwords of the packet at `start`. `cls.encode(gfx=gfx,
        **fields)` gives these dwords again. Raises packet.Unknown, a ValueError that knows the
        length, if no table declares the packet, its length or its bits.
        """
        g, dword, left = level(gfx), dwords[start], len(dwords) - start
        if dword >> 30 != TYPE3:
            raise packet.Unknown(f"{dword:#010x} is not a type 3 header", 1)
        opcode, count = dword >> 8 & 0xFF, dword >> 16 & 0x3FFF
        ndw = 1 if (opcode, count) == (NOP, COUNT_ONE_DWORD) else count + 2
        cls = PACKETS.get((opcode, g, queue))
        if ndw > left:
            raise packet.Unknown(
                f"opcode {opcode:#x}: {ndw} dwords, but only {left} are left", left
            )
        if cls is None:
            raise packet.Unknown(f"no table has opcode {opcode:#x} on gfx{gfx} {queue} queues", ndw)
        try:
            cls.check_length(ndw)
            fields = cls.decode_elements(g, dwords[start : start + ndw])
            cls.validate(g, fields)
        except ValueError as error:
            raise packet.Unknown(str(error), ndw) from None
        header = {key: fields["header"][key] for key in FLAGS if fields["header"].get(key)}
        return cls, {**fields, "header": header} if header else _without_header(fields), ndw


PACKETS: dict[tuple[int, int, str], type[Type3Packet]] = {}


def _without_header(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "header"}


def spelled(name: str) -> str:
    """Returns the manual's spelling of a class name: WAIT_REG_MEM64 for WaitRegMem64."""
    return "".join(f"_{c}" if c.isupper() and i else c for i, c in enumerate(name)).upper()


def classes() -> list[type[Type3Packet]]:
    """Returns every declared packet once, sorted by opcode."""
    found = dict.fromkeys(PACKETS[key] for key in sorted(PACKETS))
    return list(found)
