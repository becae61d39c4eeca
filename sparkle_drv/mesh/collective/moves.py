"""Algorithms of the collectives other than all_reduce, as programs. All functions are pure.

The memory "data" of a device (a place) has its operand, "out" its result; a broadcast has only
"data". `parts` are (begin, bytes) of each device's part within the whole array, in the order of the
devices. The parts lie one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sparkle_drv.mesh.lanes.program import Program, Region

from .builder import ProgramBuilder
from .shares import aligned, cuts

Parts = Sequence[tuple[int, int]]


def tree(places: Sequence[str], nbytes: int) -> Program:
    """Builds a broadcast from the first place, all data at once. In each of log2 p rounds, each
    place that has the data sends it to a place that lacks it.
    """
    builder, have = ProgramBuilder(), 1
    while have < len(places):
        for source, to in zip(places[:have], places[have:], strict=False):
            _broadcast(builder, source, to, 0, nbytes)
        have *= 2
    return builder.program


def chain(places: Sequence[str], nbytes: int, itemsize: int, chunks: int) -> Program:
    """Builds a broadcast in chunks, from each place to the next one."""
    builder = ProgramBuilder()
    for begin, size in cuts(nbytes, itemsize, [1 / chunks] * chunks):
        for source, to in pairwise(places):
            _broadcast(builder, source, to, begin, size)
    return builder.program


def spread(places: Sequence[str], nbytes: int, itemsize: int, shares: Sequence[float]) -> Program:
    """Builds a broadcast in two rounds. In round one, the first place sends each other place a
    share of the data. In round two, these places send their shares to one another.
    """
    builder = ProgramBuilder()
    parts = cuts(nbytes, itemsize, [0.0, *shares])
    for place, (begin, size) in zip(places[1:], parts[1:], strict=True):
        _broadcast(builder, places[0], place, begin, size)
    for source, (begin, size) in zip(places[1:], parts[1:], strict=True):
        for to in _from(places[1:], source):
            _broadcast(builder, source, to, begin, size)
    return builder.program


def scatter(places: Sequence[str], root: str, parts: Parts) -> Program:
    """Builds a scatter: the root sends each place its part of the whole."""
    made = ProgramBuilder()
    for place, (begin, size) in zip(places, parts, strict=True):
        made.copy(Region(root, "data", begin, size), Region(place, "out", 0, size))
    return made.program


def gather(places: Sequence[str], root: str, parts: Parts) -> Program:
    """Builds a gather: each place sends its part to the root."""
    made = ProgramBuilder()
    for place, (begin, size) in zip(places, parts, strict=True):
        made.copy(Region(place, "data", 0, size), Region(root, "out", begin, size))
    return made.program


def all_gather(places: Sequence[str], parts: Parts) -> Program:
    """Builds an all_gather: each place sends its part to all others."""
    builder = ProgramBuilder()
    for place, (begin, size) in zip(places, parts, strict=True):
        for to in (place, *_from(places, place)):
            builder.copy(Region(place, "data", 0, size), Region(to, "out", begin, size))
    return builder.program


def all_gather_ring(places: Sequence[str], parts: Parts, order: Sequence[str]) -> Program:
    """Builds an all_gather in p - 1 rounds, where each place sends only to the next one in
    `order`.
    """
    builder, of = ProgramBuilder(), dict(zip(places, parts, strict=True))
    for place, (begin, size) in of.items():
        builder.copy(Region(place, "data", 0, size), Region(place, "out", begin, size))
    for turn in range(len(order) - 1):
        for i, place in enumerate(order):
            part = of[order[(i - turn) % len(order)]]
            to = order[(i + 1) % len(order)]
            builder.copy(Region(place, "out", *part), Region(to, "out", *part))
    return builder.program


def reduce_scatter(places: Sequence[str], parts: Parts) -> Program:
    """Builds a reduce_scatter: each place receives its part from all others and adds the
    parts up.
    """
    builder = ProgramBuilder()
    for place, (begin, size) in zip(places, parts, strict=True):
        mine = Region(place, "out", 0, size)
        builder.copy(Region(place, "data", begin, size), mine)
        for at, other in enumerate(_from(places, place)):
            temp = Region(place, "temp", at * aligned(size), size)
            builder.copy(Region(other, "data", begin, size), temp)
            builder.reduce(temp, mine)
    return builder.program


def reduce_scatter_ring(places: Sequence[str], parts: Parts, order: Sequence[str]) -> Program:
    """Builds a reduce_scatter on a ring. The owner of a part is the device that gets its sum. A
    part goes once around the ring, from the device after its owner to the owner. Each device that
    it reaches adds its own data.
    """
    builder, of, p = ProgramBuilder(), dict(zip(places, parts, strict=True)), len(order)
    most = aligned(max(size for _, size in parts))
    for turn in range(p - 1):
        for i, place in enumerate(order):
            owner, to = order[(i - 1 - turn) % p], order[(i + 1) % p]
            begin, size = of[owner]
            # The parts take turns in two slots of "temp". So a place can receive the next part
            # while it still sends the last one.
            came = Region(place, "temp", (turn - 1) % 2 * most, size)
            source = came if turn else Region(place, "data", begin, size)
            mine = Region(to, "out", 0, size) if to == owner else None
            slot = mine or Region(to, "temp", turn % 2 * most, size)
            builder.copy(source, slot)
            builder.reduce(Region(to, "data", begin, size), slot)
    return builder.program


def _broadcast(builder: ProgramBuilder, source: str, to: str, begin: int, size: int) -> None:
    builder.copy(Region(source, "data", begin, size), Region(to, "data", begin, size))


def _from(places: Sequence[str], place: str) -> list[str]:
    """Returns all other places, the next one first, so that not all send to the same place
    at once.
    """
    at = list(places).index(place)
    return [*places[at + 1 :], *places[:at]]
