"""An indirect buffer (IB) for the tools: its dwords, its queue and generation, and its packets.

print.py, parse.py, dwords.py and capture.py have its forms as text and bytes. run.py follows its
execution. Nothing here knows packets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sparkle_drv.amd.tables import packet, pm4, sdma
from sparkle_drv.amd.tables.bits import level

IPS = ("gfx", "compute", "sdma")  # in the order of the kernel's HW_IP types
# The queue of a ring, by the beginning of the kernel's name of the ring.
RINGS = {"gfx": "gfx", "comp": "compute", "kiq": "compute", "sdma": "sdma"}
MAX_DWORDS = 0xFFFFF  # the largest size in INDIRECT_BUFFER


@dataclass(frozen=True)
class Ib:
    """`gfx` is a level (10 is gfx10.3). `extra` are the bytes behind the last whole dword. An IB
    that is not `complete` comes from a capture, which leaves padding out, or was cut. `gaps` says
    why a dword is unknown: a substitute stands in its place.

    >>> ib = lowlevel.Ib((0xC0001000, 0), gfx=11)
    >>> [packet.cls.NAME for packet in ib.packets()]
    ['NOP']
    """

    dwords: tuple[int, ...]
    gfx: int
    ip: str = "compute"
    va: int | None = None
    extra: bytes = b""
    complete: bool = True
    gaps: Mapping[int, str] = field(default_factory=dict, compare=False)

    def packets(self, start: int = 0, end: int | None = None) -> Iterator[packet.Decoded]:
        """Its packets in turn, from dword `start` on. A packet that no table declares has
        cls=None.
        """
        dwords = self.dwords[start:end]
        if self.ip == "sdma":
            return sdma.stream(dwords, self.gfx)
        return pm4.stream(dwords, self.gfx, self.ip)

    def gap(self, at: int, ndw: int) -> str:
        """Why some of the `ndw` dwords at `at` are unknown; "" when all are known."""
        return next((self.gaps[i] for i in range(at, at + ndw) if i in self.gaps), "")


def read_gfx(text: str) -> int:
    """The level of "10.3", "11", "gfx1036" or "gfx1100". ValueError: it has no tables.

    >>> lowlevel.read_gfx("gfx1036"), lowlevel.read_gfx("11")
    (10, 11)
    """
    name = text.lower().removeprefix("gfx")
    if re.fullmatch(r"\d+\.\d+|\d\d?", name):
        return level(float(name))
    if re.fullmatch(r"9[0-9a-f]{2}|1[0-2][0-9a-f]{2}", name):
        return level(int(name[:-2]))
    raise ValueError(f"gfx: expected 9, 10.3, 11, 12, gfx1036 or gfx1100, got {text!r}")


def read_ip(text: str) -> str:
    """A name of IPS, from the name itself or from the kernel's number for it."""
    names = {**{name: name for name in IPS}, **{str(i): name for i, name in enumerate(IPS)}}
    if text not in names:
        raise ValueError(f"ip: expected one of {', '.join(IPS)}, got {text!r}")
    return names[text]
