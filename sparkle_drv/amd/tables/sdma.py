"""SDMA packets: the packets of the copy engines of gfx9 (SDMA 4), gfx10.3 (5.2), gfx11 (6.0) and
gfx12 (7).

The sources are Linux (navi10_sdma_pkt_open.h, sdma_v6_0_0_pkt_open.h), Mesa (common/sid.h) and
ROCr (sdma_registers.h). `SdmaPacket.decode` and `stream` work as those of pm4.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from . import packet
from .bits import G10UP, GFX, U32, Addr, Field, Tail, Word, bits, level
from .values import GCR, Function

WAIT_FOREVER = 0xFFF
MTYPE_UC = 3  # the value for FENCE from gfx10 on; gfx9 takes 0


class SdmaPacket(packet.Packet):
    """An SDMA packet, with op and sub_op in its header. Subclasses declare the rest. `extra` has
    the other fields of the header.
    """

    KIND = "SDMA packet"
    OP: ClassVar[int]
    SUB_OP: ClassVar[int]

    def __init_subclass__(
        cls,
        *,
        op: int,
        sub_op: int = 0,
        gfx: tuple[int, ...] = GFX,
        name: str,
        extra: Mapping[str, Field] | None = None,
    ):
        cls.OP, cls.SUB_OP, cls.LEVELS = op, sub_op, gfx
        fields = {"op": bits(0, 7), "sub_op": bits(8, 15), **(extra or {})}
        cls.declare(Word(0, **fields), name)
        for gen in gfx:
            if PACKETS.setdefault((op, sub_op, gen), cls) is not cls:
                raise ValueError(f"{name}: op {op} sub_op {sub_op} is declared twice on gfx{gen}")

    @classmethod
    def encode(
        cls, *, gfx: float = 11, header: Mapping[str, int] | None = None, **v: Any
    ) -> list[int]:
        """Returns the dwords of the packet. `header` has the fields of the header except op and
        sub_op.
        """
        g = cls.on(gfx)
        start = {**(header or {}), "op": cls.OP, "sub_op": cls.SUB_OP}
        if cls is SdmaNop and v.get("payload"):
            start["count"] = len(v["payload"])
        if cls is SdmaWrite and "count" not in v:
            v = {**v, "count": {"ndw": len(v.get("values", ()))}}
        dwords = cls.encode_elements(g, {"header": start, **v})
        if cls.length(dwords) != len(dwords):
            raise ValueError(
                f"{cls.NAME}: expected {cls.length(dwords)} dwords, as its count says, "
                f"got {len(dwords)}"
            )
        return dwords

    @classmethod
    def length(cls, dwords: Sequence[int]) -> int:
        """Returns the number of dwords of the packet at the start of `dwords`, by the packet's own
        count.
        """
        return cls.fixed_ndw()

    @staticmethod
    def decode(
        dwords: Sequence[int], gfx: float = 11, start: int = 0
    ) -> tuple[type[SdmaPacket], dict[str, Any], int]:
        """Decodes the packet at `start`, like pm4.Type3Packet.decode. After an unknown packet the
        rest of a stream cannot be decoded.
        """
        g, left = level(gfx), len(dwords) - start
        op, sub_op = dwords[start] & 0xFF, dwords[start] >> 8 & 0xFF
        cls = PACKETS.get((op, sub_op, g))
        if cls is None:
            raise packet.Unknown(f"op {op} sub_op {sub_op} is no SDMA packet of gfx{gfx}", left)
        if left < cls.fixed_ndw() or left < (ndw := cls.length(dwords[start:])):
            raise packet.Unknown(f"{cls.NAME}: expected a whole packet, got {left} dwords", left)
        try:
            fields = cls.decode_elements(g, dwords[start : start + ndw])
        except ValueError as error:
            raise packet.Unknown(str(error), ndw) from None
        own = {k: v for k, v in fields["header"].items() if k not in ("op", "sub_op", "count")}
        header = {"header": own} if any(own.values()) else {}
        return cls, {**{k: v for k, v in fields.items() if k != "header"}, **header}, ndw


PACKETS: dict[tuple[int, int, int], type[SdmaPacket]] = {}


class SdmaNop(SdmaPacket, op=0, name="NOP", extra={"count": bits(16, 29)}):
    payload = Tail(least=0, most=0x3FFF)

    @classmethod
    def length(cls, dwords: Sequence[int]) -> int:
        return 1 + cls.where("header.count").get(dwords)


# The count field has 30 bits from SDMA 5.2 on.
_COPY_COUNT = (bits(0, 21, gfx=(9,), bias=1), bits(0, 29, gfx=G10UP, bias=1))  # fault: bias


class CopyLinear(SdmaPacket, op=1, sub_op=0, gfx=(9, 10, 11), name="COPY_LINEAR"):
    count = Word(bytes=_COPY_COUNT)
    parameters = Word()  # fields such as src_sw and dst_sw; all stay 0
    src = Addr(align=1)
    dst = Addr(align=1)


class CopyLinearGfx12(SdmaPacket, op=1, sub_op=0, gfx=(12,), name="COPY_LINEAR"):
    count = Word(bytes=_COPY_COUNT)
    parameters = Word()
    src = Addr(align=1)
    dst = Addr(align=1)
    meta = U32()


class SdmaWrite(SdmaPacket, op=2, name="WRITE"):
    addr = Addr(align=4)
    count = Word(ndw=bits(0, 19, bias=1))
    values = Tail(most=1 << 20)

    @classmethod
    def length(cls, dwords: Sequence[int]) -> int:
        return 4 + cls.where("count.ndw").get(dwords)


class Indirect(SdmaPacket, op=4, name="INDIRECT", extra={"vmid": bits(16, 19)}):
    """Calls an IB. Only the kernel driver may use this packet."""

    base = Addr(align=32)
    size = Word(ndw=bits(0, 19))
    csa = Addr(align=1)


_FENCE_HEADER = {"mtype": bits(16, 18, gfx=G10UP)}


class SdmaFence(SdmaPacket, op=5, name="FENCE", extra=_FENCE_HEADER):  # fault: fence
    addr = Addr(align=4)
    value = U32()


class Trap(SdmaPacket, op=6, name="TRAP"):
    """Raises an interrupt. Only the kernel driver may use this packet."""

    interrupt = Word(context=bits(0, 27))


class PollRegmem(
    SdmaPacket,
    op=8,
    name="POLL_REGMEM",
    extra={"function": bits(28, 30, Function), "mem": bits(31)},
):
    addr = Addr(align=4)
    value = U32()
    mask = U32(0xFFFFFFFF)
    poll = Word(interval=bits(0, 15), retry=bits(16, 27))


# The count field has 22 bits up to SDMA 5.2, and 30 bits from 6.0 on (Mesa radv_sdma.c).
class ConstFill(SdmaPacket, op=11, name="CONST_FILL", extra={"fillsize": bits(30, 31)}):
    """Fills memory. With fillsize 2 it writes whole dwords, but the count is still in bytes."""

    addr = Addr(align=4)
    value = U32()
    count = Word(
        bytes=(bits(0, 21, gfx=(9, 10), bias=1), bits(0, 29, gfx=(11, 12), bias=1))  # fault: fill
    )


class SdmaTimestamp(SdmaPacket, op=13, sub_op=2, name="TIMESTAMP"):
    addr = Addr(align=8)


class GcrReq(SdmaPacket, op=17, gfx=G10UP, name="GCR_REQ"):
    """Invalidates and writes back caches. Only the kernel driver may use this packet, because the
    packet names the VMID. Addresses of 0 mean the whole address space. The bits of GCR are split
    over two dwords.
    """

    base_lo = Word(va=bits(7, 31))
    base_hi = Word(va=bits(0, 15), gcr=bits(16, 31))
    limit_lo = Word(gcr=bits(0, 2), va=bits(7, 31))
    limit_hi = Word(va=bits(0, 15), vmid=bits(24, 27))


class UserGcr(SdmaPacket, op=17, sub_op=1, gfx=G10UP, name="USER_GCR"):
    """Invalidates and writes back caches in the VMID of the queue. ROCr's user queues use it in
    place of GCR_REQ. The two packets differ only in sub_op and in the VMID, which USER_GCR lacks.
    """

    base_lo = Word(va=bits(7, 31))
    base_hi = Word(va=bits(0, 15), gcr=bits(16, 31))
    limit_lo = Word(gcr=bits(0, 2), va=bits(7, 31))
    limit_hi = Word(va=bits(0, 15))

    @classmethod
    def everything(cls, gfx: float = 11, **gcr: int) -> list[int]:
        """Returns the packet for the whole address space, with the fields `gcr` of pm4.GCR."""
        cntl = GCR.encode(gcr, level(gfx), "GCR_CNTL")[0]
        halves = {"base_hi": {"gcr": cntl & 0xFFFF}, "limit_lo": {"gcr": cntl >> 16}}
        return cls.encode(gfx=gfx, **halves)


def max_copy_bytes(gfx: float) -> int:
    """Returns the most bytes of one COPY_LINEAR: the largest multiple of 256 in the count field, as
    in Mesa.
    """
    return _count_field(PACKETS[CopyLinear.OP, CopyLinear.SUB_OP, level(gfx)], gfx) & ~0xFF


def max_fill_bytes(gfx: float) -> int:
    """Returns the most bytes of one CONST_FILL: the largest multiple of 4 in the count field, as in
    Mesa.
    """
    return _count_field(ConstFill, gfx) & ~3


def _count_field(cls: type[SdmaPacket], gfx: float) -> int:
    return (1 << cls.where("count.bytes", gfx).width) - 1


def stream(dwords: Sequence[int], gfx: float = 11) -> Iterator[packet.Decoded]:
    """Yields every packet of an IB in turn."""
    return packet.walk(dwords, lambda at: SdmaPacket.decode(dwords, gfx, at))
