"""Rules that printing and reading the text form share: required elements, and names.

An element with a default may be left out, any other may not. So the text of `print` is short, and a
person's text cannot forget an address.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

from sparkle_drv.amd.tables import sdma, type3
from sparkle_drv.amd.tables.bits import Element, Field, Record, Tail, Word
from sparkle_drv.amd.tables.setreg import SetPairs, SetPairsPacked, SetRegisters

RAW, BYTES, IB, NOP = "RAW", "BYTES", "IB", "NOP"
WRITERS = (SetRegisters, SetPairs, SetPairsPacked)
# Elements of SET packets that follow from their list of registers.
_IMPLIED = {
    SetRegisters: ("reg", "values"),
    SetPairs: ("pairs",),
    SetPairsPacked: ("count", "triples"),
}


# Packets that only a GFX queue takes: a dump without the queue's name shows it by them.
GFX_ONLY = frozenset(op for op, _, ip in type3.PACKETS if ip == "gfx") - frozenset(
    op for op, _, ip in type3.PACKETS if ip == "compute"
)


def required(name: str, element: Element, gfx: int) -> bool:
    """Must the text name it? Never for the header: without a flag it is the packet's name."""
    if name == "header":
        return False
    if isinstance(element, Tail):
        return element.least > 0
    if isinstance(element, Word):
        return bool(element.layout(gfx)) and not element.default & element.allowed(gfx)
    return element.default == 0


def implied(cls: type[Record]) -> tuple[str, ...]:
    """Elements that follow from the registers of a SET packet."""
    return next((names for kind, names in _IMPLIED.items() if issubclass(cls, kind)), ())


def layout_of(cls: type[Record], name: str, word: Word, gfx: int) -> dict[str, Field]:
    """A word's fields; for a header only those that are not computed."""
    layout = word.layout(gfx)
    if name != "header":
        return layout
    if issubclass(cls, sdma.Packet):
        return {k: f for k, f in layout.items() if k not in ("op", "sub_op", "count")}
    return {k: f for k, f in layout.items() if k in type3.FLAGS}


@cache
def by_name(gfx: int, ip: str) -> dict[str, type[Record]]:
    """The packets that a queue takes."""
    if ip == "sdma":
        return {c.NAME: c for (_, _, g), c in sdma.PACKETS.items() if g == gfx}
    return {c.NAME: c for (_, g, queue), c in type3.PACKETS.items() if (g, queue) == (gfx, ip)}


def close(name: str, names: list[str]) -> str:
    """ "; did you mean X?", or nothing."""
    found = get_close_matches(name[:64].upper(), [n.upper() for n in names], 3, 0.7)
    spelled = [n for n in names if n.upper() in found]
    return f"; did you mean {' or '.join(spelled)}?" if spelled else ""
