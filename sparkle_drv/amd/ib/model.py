"""An indirect buffer (IB) for the tools: its dwords, its queue and level of hardware, and its
packets.

print.py, parse.py, dwords.py and capture.py convert it to text and bytes. run.py follows its
execution. amd/tables/ has the formats of the packets: this module knows none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sparkle_drv.amd.tables import packet, pm4, sdma
from sparkle_drv.amd.tables.bits import level

IPS = ("gfx", "compute", "sdma")  # in the order of the kernel driver's HW_IP types
# The type of a ring's queue, by the first letters of the kernel driver's name for that ring.
RINGS = {"gfx": "gfx", "comp": "compute", "kiq": "compute", "sdma": "sdma"}
MAX_DWORDS = 0xFFFFF  # the largest size that INDIRECT_BUFFER can name


@dataclass(frozen=True)
class Ib:
    """An indirect buffer. `gfx` is the level of hardware (10 is gfx10.3). `extra` has the bytes
    after the last whole dword.

    `complete` is False if the IB was cut, or comes from a capture, which leaves padding out. `gaps`
    says, by dword, why a dword is unknown; a substitute stands in its place.

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
        """Yields the packets in turn, from dword `start` on. A packet that no table declares has
        cls=None.
        """
        dwords = self.dwords[start:end]
        if self.ip == "sdma":
            return sdma.stream(dwords, self.gfx)
        return pm4.stream(dwords, self.gfx, self.ip)

    def gap(self, at: int, ndw: int) -> str:
        """Returns why one of the `ndw` dwords from `at` on is unknown, or "" if all are known."""
        return next((self.gaps[i] for i in range(at, at + ndw) if i in self.gaps), "")


def read_gfx(text: str) -> int:
    """Returns the level of hardware for "10.3", "11", "gfx1036" or "gfx1100". Raises ValueError if
    that level has no tables.

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
    """Returns the name of a queue type, one of IPS. `text` is that name, or the number that the
    kernel driver gives to the type.
    """
    names = {**{name: name for name in IPS}, **{str(i): name for i, name in enumerate(IPS)}}
    if text not in names:
        raise ValueError(f"ip: expected one of {', '.join(IPS)}, got {text!r}")
    return names[text]
