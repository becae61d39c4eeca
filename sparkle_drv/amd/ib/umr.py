"""Reads IBs from umr's output of rings and IBs (--ring-stream, --ring, --dump-ib).

The form is that of umr's ring_stream.c. It has a line for each dword that umr can describe:

    Decoding IB at 0x3@0x80010005a100 from 0x0@0x1828 of 536 words (type 4)
    [0x3@0x80010005a100 + 0x0734]  [        0xc0017600]  Opcode 0x76 [PKT3_SET_SH_REG] (2 words, ...
    [0x3@0x80010005a100 + 0x073c]  [        0x00008003]  |---> gfx1033.mmCOMPUTE_PGM_LO=0x8003

umr does not print all dwords. The offset of a SET packet is found by the name of its register. If
no table has that name, a NOP of the same length replaces the packet. Any other missing dword
becomes 0 and is noted in `Ib.gaps`. umr does not print the payload of a NOP: fillers replace it.

The older form of --ring has every dword: `navi21.gfx.ring[ 512] == 0xc0032200`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sparkle_drv.amd.tables import pm4, regs, type3
from sparkle_drv.amd.tables.bits import canonical
from sparkle_drv.amd.tables.setreg import SetRegisters

from .lex import TextError
from .model import MAX_DWORDS, RINGS, Ib, read_gfx
from .shape import GFX_ONLY

MARK = re.compile(
    rb"^[ \t]*(Decoding IB at \S+@0x|\[\w+@0x\w+ \+ 0x\w+\]\s*\[\s*0x"
    rb"|\w+\.[\w.]+\.ring\[ *\d+\] == 0x)",
    re.M,
)
_HEAD = re.compile(r"\s*Decoding IB at \S+@0x([0-9a-f]{1,16}) from \S+ of (\d{1,10}) words")
_WORD = re.compile(
    r"\s*\[\w+@0x([0-9a-f]{1,16}) \+ 0x([0-9a-f]{1,8})\]\s*\[\s*0x([0-9a-f]+)\]\s*(.*)"
)
_OPCODE = re.compile(r"Opcode 0x[0-9a-f]+ \[\w+\] (Sub-Opcode \w+ )?\((\d{1,5}) words")
_NAME = re.compile(r"\|---> \w+\.(?:mm|reg)(\w+)=")
_SLOT = re.compile(r"\s*\w+\.([\w.]+)\.ring\[ *\d+\] == 0x([0-9a-f]{8})\b")
_CHIP = re.compile(r"\|---> gfx(\d{3,4})\.(?:mm|reg)")
# Limit of dwords in an input. NOPs of a few lines may claim more dwords than memory holds.
MOST = 4 * MAX_DWORDS
MOST_SDMA_GAP = 64  # dwords
FILLER = 0xFFFF1000


@dataclass
class _UmrPacket:
    """A packet of umr's output. `base` is the address of its IB, `at` the dword of the IB at which
    it begins. `words` has the printed dwords by position; 0 is the header. `names` has the
    registers that umr names. `head` is the size of the IB if this packet is the IB's first.
    """

    base: int
    at: int
    ndw: int
    sdma: bool
    head: int | None
    words: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    @property
    def opcode(self) -> int:
        return self.words[0] >> 8 & 0xFF

    def goes_on(self, after: _UmrPacket) -> bool:
        """Returns whether this packet directly follows `after`. If not, the output lacks the lines
        between the two.
        """
        if after.sdma and 0 < self.at - after.at - after.ndw <= MOST_SDMA_GAP:
            after.ndw = self.at - after.at
        return self.head is None and (self.base, self.at) == (after.base, after.at + after.ndw)


def from_umr(text: str, gfx: int | None, ip: str) -> list[Ib]:
    """Returns the IBs of an output of umr, in the order in which they stand there. Raises TextError
    for a wrong line, ValueError if neither `gfx` nor the text names the level of hardware.
    """
    if gfx is None and (chip := _CHIP.search(text)):
        gfx = read_gfx(chip[1])
    if gfx is None:
        raise ValueError("gfx: expected a value, because this umr output names no gfx")
    slots, packets, head = _Slots(), list[_UmrPacket](), None
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if match := _WORD.match(line):
                head = None if _word(packets, match, head) else head
            elif match := _HEAD.match(line):
                head = int(match[2])
            elif match := _SLOT.match(line):
                slots.take(match[1], match[2])
        except ValueError as error:
            raise TextError(number, 1, str(error)) from None
    if sum(packet.ndw for packet in packets) > MOST:
        raise TextError(1, 1, f"expected at most {MOST} dwords in all, got more")
    if any(packet.sdma for packet in packets):
        ip = "sdma"
    elif any(packet.opcode in GFX_ONLY for packet in packets):
        ip = "gfx"
    parts: list[list[_UmrPacket]] = []
    for packet in packets:
        if parts and packet.goes_on(parts[-1][-1]):
            parts[-1].append(packet)
        else:
            parts.append([packet])
    return [*slots.ibs(gfx), *(_ib(part, gfx, ip) for part in parts)]


def _word(packets: list[_UmrPacket], match: re.Match[str], head: int | None) -> bool:
    """Adds the dword of a line to the last packet of `packets`, or to a new packet if the line has
    an opcode. Returns True if it has one. Raises ValueError for a wrong line. `head` is the size of
    the IB that begins with this line. It is None if no IB begins here.
    """
    base, (at, rest), words = int(match[1], 16), divmod(int(match[2], 16), 4), match[4]
    if rest or len(match[3]) > 8 or at >= MAX_DWORDS:
        raise ValueError(f"expected a dword of PM4 or SDMA, got {match[0].strip()[:60]!r}")
    if opcode := _OPCODE.match(words):
        ndw = 1 if opcode[1] else int(opcode[2]) + 1
        packets.append(_UmrPacket(base, at, ndw, bool(opcode[1]), head))
    elif not packets or packets[-1].base != base:
        raise ValueError("expected the line of the packet's opcode before this one")
    packet = packets[-1]
    i = at - packet.at
    if packet.sdma and i <= max(packet.words, default=0) + MOST_SDMA_GAP:
        packet.ndw = max(packet.ndw, i + 1)
    if not 0 <= i < packet.ndw or i in packet.words:
        raise ValueError(
            f"expected each of the {packet.ndw} dwords of a packet once, got dword {i}"
        )
    packet.words[i] = int(match[3], 16)
    if named := _NAME.match(words):
        packet.names[i] = named[1]
    return bool(opcode)


class _Slots:
    """Collects the lines of umr's older --ring output: the dwords of each ring."""

    def __init__(self) -> None:
        self.rings: dict[str, list[int]] = {}

    def take(self, ring: str, value: str) -> None:
        dwords = self.rings.setdefault(ring, [])
        if len(dwords) >= MAX_DWORDS:
            raise ValueError(f"expected at most {MAX_DWORDS} dwords of a ring, got more")
        dwords.append(int(value, 16))

    def ibs(self, gfx: int) -> list[Ib]:
        return [
            Ib(tuple(dwords), gfx, ip, complete=False)
            for ring, dwords in self.rings.items()
            for prefix, ip in RINGS.items()
            if ring.startswith(prefix)
        ]


def _ib(packets: list[_UmrPacket], gfx: int, ip: str) -> Ib:
    dwords: list[int] = []
    gaps: dict[int, str] = {}
    for packet in packets:
        told, why = _filled(packet, gfx, ip)
        gaps |= {len(dwords) + i: reason for i, reason in why.items()}
        dwords += told
    first = packets[0]
    # umr prints only 48 bits of an IB's address; `canonical` adds the upper bits. For a ring, umr
    # prints 0 instead of its address.
    va = canonical(first.base + 4 * first.at) if first.base else None
    whole = first.head is not None and len(dwords) >= first.head
    return Ib(tuple(dwords), gfx, ip, va, complete=whole, gaps=gaps)


def _filled(packet: _UmrPacket, gfx: int, ip: str) -> tuple[list[int], dict[int, str]]:
    """Returns all dwords of a packet, and a note for each dword that umr does not print."""
    words = packet.words
    if not packet.sdma and packet.opcode == type3.NOP and len(words) < packet.ndw:
        return [FILLER] * packet.ndw, {}
    cls = type3.PACKETS.get((packet.opcode, gfx, ip)) if not packet.sdma else None
    if cls is not None and issubclass(cls, SetRegisters) and 1 not in words:
        offset = _offset(packet, cls.SPACE, gfx)
        if offset is None:
            values = [words.get(i, 0) for i in range(1, packet.ndw)]
            name = packet.names.get(2, "registers that umr does not name")
            nop = pm4.Nop.encode(gfx=gfx, payload=values)
            return nop, {0: f"{cls.NAME} of {name}, whose offset is not known"}
        words[1] = offset
    gaps = {i: f"dword {i} of it is not printed" for i in range(packet.ndw) if i not in words}
    if cls is not None and issubclass(cls, SetRegisters):
        others = {i: name for i, name in packet.names.items() if not _declared(name, gfx)}
        gaps |= {i: f"dword {i} of it is {name}" for i, name in others.items()}
    return [words.get(i, 0) for i in range(packet.ndw)], gaps


def _offset(packet: _UmrPacket, space: str, gfx: int) -> int | None:
    """Returns the offset of the first register that a SET packet writes. It follows from any
    register of the packet that umr names. Returns None if umr names no register that a table
    declares.
    """
    for i, name in packet.names.items():
        if _declared(name, gfx) and (register := regs.find(name)).space == space:
            return register.offset(gfx) - (i - 2)
    return None


def _declared(name: str, gfx: int) -> bool:
    found = regs.REGISTERS.get(regs.ALIASES.get(name, name))
    return found is not None and gfx in found.gfx
