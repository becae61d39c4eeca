"""Converts captures back to dwords. The emulator's trace of a driver's submissions is a capture.

    IB ip=1 depth=0 va=ffff800100069000 ndw=256
      SET_SH_REG         COMPUTE_START_X = 0x00000000
      DISPATCH_DIRECT    hdr=c0031502 00000010 00000001 00000001 00000045

A capture lists packets in the order of execution, one register per line, without padding. Registers
with consecutive offsets become one packet here, even if the driver wrote pairs of offset and value.
Of a SET packet's header a capture keeps only the name; other bits are lost. The list of a called IB
also has the packets that its caller ran afterwards. These packets lie beyond the size of the called
IB. Lines of another indentation have other information and are skipped.

A recording (docs/recording.md) has the same form. Its IBs are lines of dwords, complete and with
padding:

      DWORDS hdr=c0004600 00000407 ffff1000
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sparkle_drv.amd.tables import pm4, regs
from sparkle_drv.amd.tables.bits import U32_MAX
from sparkle_drv.amd.tables.setreg import SetPairs, SetPairsPacked, SetRegisters

from .lex import TextError, located
from .model import MAX_DWORDS, Ib, read_gfx, read_ip
from .shape import by_name, close

HEAD = re.compile(r"IB ip=(\d+) depth=(\d+) va=([0-9a-f]{1,16}) ndw=(\d{1,7})\s*$")
PACKET = re.compile(r"\s+(\w+)\s+hdr=([0-9a-f ]+)$")
ENTRY = re.compile(r"  \S")  # a line with a deeper indentation belongs to the packet above
WRITE = re.compile(r"\s+(SET_\w+)\s+(\w[\w+]*) = 0x([0-9a-f]{1,8})\s*$")
RUN_MAX = 0x3FFF  # limit of dwords in a packet of registers; the header could count two more
VERBATIM = "DWORDS"  # stands in place of a packet's name before dwords that are no known packet
_CHIP = re.compile(r"gfx\d{3,4}\b")


def looks_like_one(text: str) -> bool:
    return any(HEAD.match(line) for line in text.split("\n"))


@dataclass
class _Listing:
    """One IB of a capture, while its lines are read."""

    ip: str
    depth: int
    va: int
    ndw: int
    dwords: list[int] = field(default_factory=list)
    verbatim: bool = False
    # the SET packet to which the next register may be added: its name, the register offset that
    # would follow, and the dword at which it begins
    run: tuple[str, int, int] | None = None

    def write(self, name: str, cls: type[SetRegisters], offset: int, value: int, gfx: int) -> None:
        """Appends a write of one register. A register whose offset follows the previous one joins
        the packet of that register.
        """
        if self.run and self.run[:2] == (name, offset) and len(self.dwords) - self.run[2] < RUN_MAX:
            start = self.run[2]
            self.dwords.append(value)
            self.dwords[start] += 1 << 16  # adds 1 to the count in the header
        else:
            start = len(self.dwords)
            reg = {"offset": offset, "index": 3 if name.endswith("_INDEX") else 0}
            self.dwords += cls.encode(gfx=gfx, reg=reg, values=[value])
        self.run = (name, offset + 1, start)


def from_capture(text: str, gfx: int | None = None) -> list[Ib]:
    """Returns the IBs of a capture. `gfx` is the level of hardware. If `gfx` is None, the first
    comment must name the chip.
    """
    listings: list[_Listing] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            if gfx is None and (chip := _CHIP.search(line)):
                gfx = located(number, read_gfx, chip[0])
        elif head := HEAD.match(line):
            if gfx is None:
                raise TextError(
                    number, 1, "gfx: expected a value (--gfx), because this capture names no gfx"
                )
            ip = located(number, read_ip, head[1])
            listings.append(_Listing(ip, int(head[2]), int(head[3], 16), int(head[4])))
        elif line.startswith("IB "):
            raise TextError(number, 1, "expected IB ip=N depth=N va=HEX ndw=N")
        elif ENTRY.match(line):
            if not listings or gfx is None:
                raise TextError(number, 1, "expected an IB line before the first packet")
            _packet(listings[-1], line, number, gfx)
    if gfx is None:
        return []
    made = [_ib(listing, gfx) for listing in listings]
    _give_back(listings, made)
    return made


def _packet(listing: _Listing, line: str, number: int, gfx: int) -> None:
    if match := WRITE.match(line):
        _write(listing, match, number, gfx)
    elif match := PACKET.match(line):
        listing.run = None
        listing.verbatim |= match[1] == VERBATIM
        for word in re.finditer(r"\S+", match[2]):
            value = int(word[0], 16)
            if value > U32_MAX:
                raise TextError(
                    number, match.start(2) + word.start() + 1, f"expected a dword, got {word[0]}"
                )
            listing.dwords.append(value)
    else:
        column = len(line) - len(line.lstrip()) + 1
        raise TextError(number, column, "expected NAME hdr=DWORDS or SET_... REGISTER = 0xVALUE")
    if len(listing.dwords) > MAX_DWORDS:
        raise TextError(number, 1, f"expected at most {MAX_DWORDS} dwords in an IB, got more")


def _write(listing: _Listing, match: re.Match[str], number: int, gfx: int) -> None:
    cls = by_name(gfx, listing.ip).get(match[1])
    if cls is not None and issubclass(cls, (SetPairs, SetPairsPacked)):
        cls = pm4.SETTERS[cls.SPACE]
    if cls is None or not issubclass(cls, SetRegisters):
        raise TextError(
            number, match.start(1) + 1, f"{match[1]} writes no registers on gfx{gfx} {listing.ip}"
        )
    space, _, offset = match[2].partition("+")
    try:
        named = not (offset and space == cls.SPACE)
        at = regs.find(match[2]).offset(gfx) if named else int(offset, 16)
        listing.write(cls.NAME, cls, at, int(match[3], 16), gfx)
    except KeyError:
        reason = f"no register {match[2]}{close(match[2], list(regs.REGISTERS))}"
        raise TextError(number, match.start(2) + 1, reason) from None
    except ValueError as error:
        raise TextError(number, match.start(2) + 1, str(error)) from None


def _ib(listing: _Listing, gfx: int) -> Ib:
    return Ib(tuple(listing.dwords), gfx, listing.ip, listing.va, complete=listing.verbatim)


def _give_back(listings: list[_Listing], ibs: list[Ib]) -> None:
    """Moves packets that lie beyond the size of a called IB to the IB that called it."""
    for i in range(len(ibs) - 1, 0, -1):
        ends = [p.at + len(p.dwords) for p in ibs[i].packets()]
        fits = max((end for end in ends if end <= listings[i].ndw), default=0)
        callers = [c for c in range(i) if listings[c].depth < listings[i].depth]
        if listings[i].verbatim or not callers or fits == len(ibs[i].dwords):
            continue
        caller = ibs[callers[-1]]
        beyond, listings[i].dwords = ibs[i].dwords[fits:], list(ibs[i].dwords[:fits])
        ibs[i] = _ib(listings[i], ibs[i].gfx)
        listings[callers[-1]].dwords = [*caller.dwords, *beyond]
        ibs[callers[-1]] = _ib(listings[callers[-1]], caller.gfx)
