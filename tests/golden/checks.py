"""Holds a set of packet and register modules against the facts; each check raises AssertionError.

The modules are arguments: the same checks judge ours, and copies with one planted wrong constant.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import facts_packets as packets
import facts_registers as registers

CAPTURES = sorted((Path(__file__).parent / "captures").glob("*.txt"))
LEVELS = (9, 10, 11, 12)


def dwords(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def same(found, wanted, empty, where):
    """`wanted` field by field; what it leaves out must be as in `empty`."""
    for name in found.keys() | wanted.keys():
        got, want, usual = found.get(name), wanted.get(name), empty.get(name)
        if isinstance(want, dict):
            same(got, want, usual or {}, f"{where}.{name}")
        else:
            assert got == (usual or type(got)() if want is None else want), f"{where}.{name}"


def check_opcodes(m: SimpleNamespace) -> None:
    named = {cls.NAME: cls.OPCODE for cls in m.type3.classes()}
    for name, opcode in packets.OPCODES.items():
        assert named.get(name) == opcode, name
    assert m.type3.HEADER.encode({"opcode": 0x10, "count": 0x3FFF, "type": 3}, 11, "") == [
        0xFFFF1000
    ]


def check_packets(m: SimpleNamespace) -> None:
    for levels, queue, text, name, fields, source in packets.PACKETS:
        for gfx in levels:
            where, words = f"gfx{gfx} {name} ({source})", dwords(text)
            decoded = list(m.pm4.stream(words, gfx, queue))
            assert len(decoded) == 1, where
            one = decoded[0]
            if fields is None:
                assert one.cls is None, where
                continue
            assert one.cls is not None, f"{where}: {one.error}"
            assert name == one.cls.NAME, where
            same(one.fields, fields, defaults(m, one.cls, gfx), where)
            assert one.cls.encode(gfx=gfx, **one.fields) == words, where
            assert one.cls.encode(gfx=gfx, **fields) == words, where


def defaults(m, cls, gfx):
    """Fields of a packet as an empty encode has them; {} where it cannot be empty."""
    try:
        return m.pm4.Type3Packet.decode(cls.encode(gfx=gfx), gfx, cls.ON[0])[1]
    except ValueError:
        return {}


def check_places(m: SimpleNamespace) -> None:
    named = {cls.NAME: cls for cls in m.type3.classes()}
    for line in packets.PLACES.strip().splitlines():
        name, field, dw, high, low = line.split()
        place = named[name].where(field, 11)
        assert (place.dw, place.lo, place.width) == (int(dw), int(low), int(high) - int(low) + 1), (
            line
        )


def check_sdma(m: SimpleNamespace) -> None:
    for levels, text, name, fields, source in packets.SDMA:
        for gfx in levels:
            where, words = f"gfx{gfx} SDMA {name} ({source})", dwords(text)
            cls, found, ndw = m.sdma.SdmaPacket.decode(words, gfx)
            assert (cls.NAME, ndw) == (name, len(words)), where
            for key, want in fields.items():
                got = found[key]
                assert got == want or (isinstance(want, dict) and want.items() <= got.items()), (
                    where
                )
            assert cls.encode(gfx=gfx, **fields) == words, where
    # 22 bits of bytes on SDMA 5.0 and before, 30 from 5.2 on; fills: 22 up to 5.2, 30 from 6.0 on
    assert [m.sdma.max_copy_bytes(g) for g in LEVELS] == [0x3FFF00, *[0x3FFFFF00] * 3]
    assert [m.sdma.max_fill_bytes(g) for g in LEVELS] == [0x3FFFFC] * 2 + [0x3FFFFFFC] * 2


def check_registers(m: SimpleNamespace) -> None:
    for line in registers.COMPUTE.strip().splitlines():
        name, byte, offset, *there = line.split()
        for gfx, has in zip(LEVELS, there, strict=True):
            reg = m.regs.find(f"COMPUTE_{name}")
            if has == "n":
                at = m.regs.at("SH", int(offset, 16), gfx)
                assert gfx not in reg.gfx, line
                assert at is not reg, line
            elif has == "y":
                assert (reg.address(gfx), reg.offset(gfx)) == (int(byte, 16), int(offset, 16)), line
                assert m.regs.at("SH", int(offset, 16), gfx) is reg, line
                assert reg.user == (name != "DISPATCH_INITIATOR"), line
    for name, gfx, byte in registers.FORBIDDEN:
        at = m.regs.at("SH", (byte - 0xB000) // 4, gfx)
        assert (at.name, at.user) == (name, False), name
    for byte in range(0xB8AC, 0xB8BC, 4):
        assert not m.regs.at("SH", (byte - 0xB000) // 4, 10).user, hex(byte)
    for name, byte, offset, levels in registers.UCONFIG:
        reg = m.regs.find(name)
        assert (reg.byte, reg.offset(levels[0]), reg.gfx) == (byte, offset, levels), name


def check_fields(m: SimpleNamespace) -> None:
    for line in registers.FIELDS.strip().splitlines():
        name, field, high, low, *levels = line.split()
        for gfx in map(int, levels):
            form = m.regs.find(f"COMPUTE_{name}").for_gfx(gfx).get(field)
            assert form is not None, line
            assert (form.hi, form.lo) == (int(high), int(low)), line
    for name, gfx, value, fields in registers.VALUES:
        reg = m.regs.find(f"COMPUTE_{name}")
        assert {k: v for k, v in reg.decode(value, gfx).items() if v} == fields, name
        assert reg.encode(gfx=gfx, **fields) == value, name


def check_dispatch_ib(m: SimpleNamespace) -> None:
    for gfx, rows in packets.DISPATCH_IB.items():
        golden = [dword for row in rows for dword in dwords(row)]
        made = m.pm4.AcquireMem.encode(gfx=gfx, gcr=0xC3F1)
        if gfx == 10:
            made += m.pm4.set_registers({"CP_COHER_START_DELAY": 0x20}, gfx=gfx)
        named = {f"COMPUTE_{k}": v for k, v in packets.DISPATCH_REGISTERS[gfx].items()}
        made += m.pm4.set_registers(named, gfx=gfx)
        made += m.pm4.DispatchDirect.encode(gfx=gfx, dim_x=2, dim_y=1, dim_z=1, initiator=0x8005)
        made += m.pm4.EventWrite.encode(
            gfx=gfx, event={"type": m.pm4.Event.CS_PARTIAL_FLUSH, "index": 4}
        )
        assert in_order(m, made, gfx) == in_order(m, golden, gfx)
        padded = m.pm4.pad(golden, gfx=gfx)
        assert len(padded) % 8 == 0
        assert set(padded[len(golden) :]) <= {0xFFFF1000}


def in_order(m, stream, gfx):
    """Register writes one by one, other packets as they are: packing is the encoder's choice."""
    steps = []
    for packet in m.pm4.stream(stream, gfx):
        assert packet.cls is not None, packet.error
        if "values" in packet.fields and "reg" in packet.fields:
            first = packet.fields["reg"]["offset"]
            space = packet.cls.SPACE
            steps += [(space, first + i, v) for i, v in enumerate(packet.fields["values"])]
        else:
            steps.append(packet.dwords)
    return steps


def check_captures(m: SimpleNamespace) -> None:
    for path in CAPTURES:
        gfx, queue = (10 if "gfx1036" in path.name else 11), path.stem.rpartition("_")[2]
        for line in path.read_text().splitlines():
            if found := re.match(r"  (\w+) +hdr=([0-9a-f ]+)$", line):
                words = dwords(found[2])
                cls, fields, ndw = m.pm4.Type3Packet.decode(words, gfx, queue)
                assert (cls.NAME, ndw) == (found[1], len(words)), line
                assert cls.encode(gfx=gfx, **fields) == words, line
            elif found := re.match(r"  (SET_\w+) +(\w+) = 0x(\w+)$", line):
                reg = m.regs.find(found[2])
                reg.decode(int(found[3], 16), gfx)
                words = m.pm4.set_registers({found[2]: int(found[3], 16)}, gfx=gfx)
                assert reg.space == m.pm4.Type3Packet.decode(words, gfx, queue)[0].SPACE, line


def check_descriptors(m: SimpleNamespace) -> None:
    words = registers.KERNEL_DESCRIPTOR
    found = m.descriptors.KernelDescriptor.decode(words, 10)
    for name, want in registers.KERNEL_DESCRIPTOR_FIELDS.items():
        got = found[name]
        if isinstance(want, dict):
            got = {k: v for k, v in got.items() if v}
        assert got == want, name
    made = m.descriptors.KernelDescriptor.encode(gfx=10, **registers.KERNEL_DESCRIPTOR_FIELDS)
    assert made == words
    word = m.descriptors.KernelDescriptor.ELEMENTS["properties"]
    for value, names in registers.PROPERTIES.items():
        wanted = {f"enable_{name}" for name in names}
        assert {k for k, v in word.decode([value], 11, "").items() if v} == wanted, hex(value)
    for word3, stride in registers.SCRATCH_WORD3.items():
        made = m.descriptors.ScratchResource.encode(
            gfx=10,
            base_lo=0x1000,
            base_hi={"base": 0x8001, "swizzle_enable": 1},
            word3={"dst_sel": 0xFAC, "format": 0x14, "index_stride": stride, "add_tid_enable": 1,
                   "resource_level": 1, "oob_select": 2},
        )  # fmt: skip
        assert made == [0x1000, 0x80008001, 0xFFFFFFFF, word3]


ALL = (
    check_opcodes, check_packets, check_places, check_sdma, check_registers, check_fields,
    check_dispatch_ib, check_captures, check_descriptors,
)  # fmt: skip
