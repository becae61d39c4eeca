"""Rules that printing and reading the text form of packets share: names of packets, and which
elements of a packet the text must name.

Only an element with a default may be left out. So the text of `print` is short, and a person cannot
forget an address.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from sparkle_drv.amd.tables import sdma, type3
from sparkle_drv.amd.tables.bits import Element, Field, Record, Tail, Word
from sparkle_drv.amd.tables.setreg import SetPairs, SetPairsPacked, SetRegisters

RAW, BYTES, IB, NOP = "RAW", "BYTES", "IB", "NOP"
WRITERS = (SetRegisters, SetPairs, SetPairsPacked)
# By class of SET packet: the class's attributes that are computed from the list of registers.
_IMPLIED = {
    SetRegisters: ("reg", "values"),
    SetPairs: ("pairs",),
    SetPairsPacked: ("count", "triples"),
}


# Opcodes of packets that only a GFX queue takes. They reveal the queue of a dump that does not name
# it.
GFX_ONLY = frozenset(op for op, _, ip in type3.PACKETS if ip == "gfx") - frozenset(
    op for op, _, ip in type3.PACKETS if ip == "compute"
)


def required(name: str, element: Element, gfx: int) -> bool:
    """Returns whether a packet's text form must name the element `name`. The header is never
    required: except for optional flags, it follows from the packet's name and length.
    """
    if name == "header":
        return False
    if isinstance(element, Tail):
        return element.least > 0
    if isinstance(element, Word):
        return bool(element.layout(gfx)) and not element.default & element.allowed(gfx)
    return element.default == 0


def implied(cls: type[Record]) -> tuple[str, ...]:
    """Returns the names of the elements of a SET packet that follow from its list of registers."""
    return next((names for kind, names in _IMPLIED.items() if issubclass(cls, kind)), ())


def layout_of(cls: type[Record], name: str, word: Word, gfx: int) -> dict[str, Field]:
    """Returns the fields of a dword of a packet. Leaves out those fields of a header that follow
    from the packet's name and length.
    """
    layout = word.layout(gfx)
    if name != "header":
        return layout
    if issubclass(cls, sdma.SdmaPacket):
        return {k: f for k, f in layout.items() if k not in ("op", "sub_op", "count")}
    return {k: f for k, f in layout.items() if k in type3.FLAGS}


@cache
def by_name(gfx: int, ip: str) -> dict[str, type[Record]]:
    """Returns the packets that a queue takes, by name."""
    if ip == "sdma":
        return {c.NAME: c for (_, _, g), c in sdma.PACKETS.items() if g == gfx}
    return {c.NAME: c for (_, g, queue), c in type3.PACKETS.items() if (g, queue) == (gfx, ip)}


def close(name: str, names: list[str]) -> str:
    """Returns "; did you mean X?" for similar names, or "" if there are none."""
    found = get_close_matches(name[:64].upper(), [n.upper() for n in names], 3, 0.7)
    spelled = [n for n in names if n.upper() in found]
    return f"; did you mean {' or '.join(spelled)}?" if spelled else ""
