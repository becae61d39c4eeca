"""Reads IBs from Mesa's own dumps. RADV_DEBUG=hang writes trace.log; RADV_DEBUG=dumpibs and
AMD_DEBUG=ib write to stderr.

The form is that of Mesa's ac_parse_ib and format_ib_output. Each IB has a section, and each dword a
line in that section:

    ------------------ Main IB begin - COMPUTE ------------------
    c0027600 SET_SH_REG:
    0000020c
    00800300         COMPUTE_PGM_LO <- 0x00800300
    ------------------- Main IB end - COMPUTE -------------------

A called IB is indented by four columns, between "nested begin" and "nested end". A chained IB
continues the section of the IB that jumps to it. The reader ignores colour codes and the words
that explain a dword.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkle_drv.amd.tables import pm4
from sparkle_drv.amd.tables.type3 import TYPE3

from .lex import TextError
from .model import MAX_DWORDS, Ib
from .run import call
from .shape import GFX_ONLY

MARK = re.compile(rb"^[ \t]*-{10,} .{1,80}? begin( - \w+)?( \(dw = \d+\))? -{10,}\s*$", re.M)
_BORDER = re.compile(
    r" *-{10,} (?P<name>.{1,80}?) (?P<what>begin|end)( - (?P<ip>\w+))?( \(dw = \d+\))? -{10,}$"
)
_DWORD = re.compile(r" *([0-9a-f]{8})( |$)")
# Matches what Mesa prints for a dword that it cannot read: the packet is longer than its IB.
_BEYOND = re.compile(r" *\?{8}( |$)")
_IPS = {"GFX": "gfx", "COMPUTE": "compute", "SDMA": "sdma"}
NESTED, CALL_NDW = "nested", 4


@dataclass
class _Section:
    ip: str
    va: int | None = None
    dwords: list[int] = field(default_factory=list)
    ended: bool = False


def from_mesa(text: str, gfx: int | None, ip: str) -> list[Ib]:
    """Returns the IBs of a dump of Mesa, in the order in which their "begin" lines stand in the
    text. Raises TextError for a wrong line, ValueError if `gfx` is None.
    """
    if gfx is None:
        raise ValueError("gfx: expected a value, because Mesa's dumps name no gfx")
    sections: list[_Section] = []
    stack: list[_Section] = []
    names_queue = False  # whether any section of the dump names its queue; RADV 22.3 names none
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip()
        if border := _BORDER.match(line):
            if border["what"] == "begin":
                va = _target(stack[-1], gfx) if border["name"] == NESTED and stack else None
                if va is None:
                    stack = []
                queue = _IPS.get(border["ip"] or border["name"].partition(" ")[0])
                names_queue |= queue is not None
                section = _Section(queue or (stack[-1].ip if stack else ip), va)
                sections.append(section)
                stack.append(section)
            elif stack:
                stack.pop().ended = True
        elif stack and line:
            _take(stack, line, number)
    if not names_queue and any(_is_graphics(section.dwords, gfx) for section in sections):
        for section in sections:
            section.ip = "gfx"
    return [one for section in sections for one in _chained(section, gfx)]


def _take(stack: list[_Section], line: str, number: int) -> None:
    """Appends the dword of a line to the innermost open IB. Skips a line that explains the previous
    dword in words. Such a line is indented by nine columns or more.
    """
    indent, depth = len(line) - len(line.lstrip()), 4 * (len(stack) - 1)
    if indent >= depth + 9 or _BEYOND.match(line):
        return
    match = _DWORD.match(line)
    if match is None or indent != depth:
        raise TextError(
            number, indent + 1, f"expected a dword at column {depth + 1}, got {line.strip()[:40]!r}"
        )
    if len(stack[-1].dwords) == MAX_DWORDS:
        raise TextError(number, 1, f"expected at most {MAX_DWORDS} dwords in an IB, got more")
    stack[-1].dwords.append(int(match[1], 16))


def _target(caller: _Section, gfx: int) -> int | None:
    """Returns the address that the last packet of an IB calls, or None."""
    last = Ib(tuple(caller.dwords[-CALL_NDW:]), gfx, caller.ip)
    return next((to.va for packet in last.packets() if (to := call(packet))), None)


def _is_graphics(dwords: list[int], gfx: int) -> bool:
    """Returns whether a packet occurs that only a GFX queue takes. First looks for a dword that may
    be the header of such a packet, because most IBs have none.
    """
    if not any(dword >> 30 == TYPE3 and dword >> 8 & 0xFF in GFX_ONLY for dword in dwords):
        return False
    packets = Ib(tuple(dwords), gfx, "gfx").packets()
    return any(packet.cls and packet.dwords[0] >> 8 & 0xFF in GFX_ONLY for packet in packets)


def _chained(section: _Section, gfx: int) -> Iterator[Ib]:
    """Yields the IB of a section, then the IBs to which it jumps."""
    start, va = 0, section.va
    dwords = tuple(section.dwords)
    called = any(d >> 30 == TYPE3 and d >> 8 & 0xFF == pm4.IndirectBuffer.OPCODE for d in dwords)
    for packet in Ib(dwords if called else (), gfx, section.ip).packets():
        to, end = call(packet), packet.at + len(packet.dwords)
        if to and to.chain and end < len(dwords):
            yield Ib(dwords[start:end], gfx, section.ip, va)
            start, va = end, to.va
    yield Ib(dwords[start:], gfx, section.ip, va, complete=section.ended)
