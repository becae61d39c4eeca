"""Reads IBs from a devcoredump, which Linux keeps after a GPU hang: rings, and the IBs of the job.

The form is that of Linux amdgpu_dev_coredump.c. Only lines like these are read:

    HWIP: GC[1][0]: v10.3.1.0.0                      the generation
    IP Type: 1 Ring Name: comp_1.0.0                 the queue that timed out, whose IBs these are
    ring name: comp_1.0.0
    Rptr: 0x140 Wptr: 0x140 RB mask: 7ff
    0x0 \t 0xc0032200                                a ring: byte offset and dword
    IB #0 0xffff800100041000 64 dw
    0xc0004600                                       an IB; none if Linux could not read it

A ring is read from its oldest dword on, which stands at the write pointer; a submission begins
there. Rings of other engines (video, MES) hold no PM4 and no SDMA packets, so they are left out.
"""

from __future__ import annotations

import re

from .lex import TextError, located
from .model import IPS, MAX_DWORDS, RINGS, Ib, read_gfx

MARK = re.compile(
    rb"^[ \t]*(\*{4} AMDGPU Device Coredump \*{4}|IB #\d+ 0x[0-9a-f]+ -?\d+ dw)", re.M
)
_GC = re.compile(r"HWIP: GC\[\d+\]\[\d+\]: v(\d{1,3}\.\d{1,3})\.")
_QUEUE = re.compile(r"IP Type: (\d{1,3}) Ring Name: ")
_RING = re.compile(rf"ring name: ({'|'.join(RINGS)})?\S*$")
_POINTERS = re.compile(r"Rptr: 0x[0-9a-f]+ Wptr: 0x([0-9a-f]{1,16}) RB mask: ([0-9a-f]{1,8})$")
_SLOT = re.compile(r"0x([0-9a-f]{1,8})\s+0x([0-9a-f]{1,8})$")
_IB = re.compile(r"IB #\d+ 0x([0-9a-f]{1,16}) (\d{1,10}) dw$")
_DWORD = re.compile(r"0x([0-9a-f]{1,8})$")


class _Part:
    """A ring or an IB, while its dwords are read."""

    def __init__(self, ip: str, va: int | None, ndw: int | None):
        self.ip, self.va, self.ndw = ip, va, ndw
        self.wptr: int | None = None
        self.dwords: list[int] = []

    def take(self, line: str) -> None:
        """Appends the dword of a line. Raises ValueError for a wrong line."""
        match = (_SLOT if self.va is None else _DWORD).match(line)
        if match is None:
            raise ValueError(f"expected a dword, got {line[:40]!r}")
        if self.va is None and int(match[1], 16) != 4 * len(self.dwords):
            raise ValueError(f"expected offset {4 * len(self.dwords):#x}, got 0x{match[1]}")
        if len(self.dwords) == (MAX_DWORDS if self.ndw is None else self.ndw):
            raise ValueError(f"expected {len(self.dwords)} dwords of this ring or IB, got more")
        self.dwords.append(int(match[match.lastindex or 1], 16))

    def ib(self, gfx: int) -> Ib:
        dwords, whole = self.dwords, self.ndw in (None, len(self.dwords))
        if self.va is None:
            whole = self.wptr is not None and self.wptr < len(dwords)
            at = self.wptr or 0
            dwords = dwords[at:] + dwords[:at] if whole else dwords
        return Ib(tuple(dwords), gfx, self.ip, self.va, complete=whole)


def from_devcoredump(text: str, gfx: int | None, ip: str) -> list[Ib]:
    """Returns the rings, then the IBs, of a devcoredump. Raises TextError for a wrong line,
    ValueError if neither `gfx` nor the text names the level of hardware.
    """
    parts: list[_Part] = []
    part: _Part | None = None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line:
            continue
        if match := _IB.match(line):
            if (ndw := int(match[2])) > MAX_DWORDS:
                raise TextError(
                    number, 1, f"expected at most {MAX_DWORDS} dwords in an IB, got {ndw}"
                )
            parts.append(part := _Part(ip, int(match[1], 16), ndw))
        elif line.startswith("IB #"):
            raise TextError(number, 1, f"expected IB #N 0xADDRESS N dw, got {line[:40]!r}")
        elif match := _RING.match(line):
            part = _Part(RINGS.get(match[1], ""), None, None)
            parts += [part] if part.ip else []
        elif part and line.startswith("0x"):
            located(number, part.take, line)
        elif part and (match := _POINTERS.match(line)):
            part.wptr = int(match[1], 16) & int(match[2], 16)
        elif part and part.va is not None:
            part = None
        elif gfx is None and (match := _GC.match(line)):
            gfx = located(number, read_gfx, match[1])
        elif (match := _QUEUE.match(line)) and int(match[1]) < len(IPS):
            ip = IPS[int(match[1])]
    if not parts:
        raise TextError(1, 1, "this devcoredump has neither rings nor IBs; older Linux writes none")
    if gfx is None:
        raise ValueError("gfx: expected a value, because this devcoredump names no gfx")
    return [part.ib(gfx) for part in parts]
