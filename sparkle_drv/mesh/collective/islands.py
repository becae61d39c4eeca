"""all_reduce on islands: places that share memory, or that have faster links than others. All
functions are pure.

First each island adds up its own data, a part on each of its places. Then the islands add up each
part with one another, and each island distributes the sums. Slow links thus carry the data of one
place instead of a whole island's.

Data is cut into units, each with an owner on every island. For two islands of s and t places there
are s t units. No two units have the same pair of owners, so all links between the islands are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise, permutations

from sparkle_drv.mesh.lanes.program import Program, Region
from sparkle_drv.mesh.links.network import Network

from .builder import ProgramBuilder
from .shares import aligned, cuts

APART = 4.0
"""Links within islands are at least this many times as fast as those between them."""
MOST_UNITS = 16
"""Most units that the data is cut into. Where all pairs of owners would need more units, some links
between islands stay idle."""
AHEAD = 2
"""Chunks that islands add up before the first chunk's sums are distributed."""
WINDOW = AHEAD + 1
"""Chunks that a place has scratch memory for."""

Islands = Sequence[Sequence[str]]


def islands(network: Network) -> Islands:
    """Returns the places of each island, or [] if the network has no islands."""
    pairs = list(combinations(network.places, 2))
    direct = {pair for pair in pairs if {pair, pair[::-1]} <= network.direct}
    if direct and len(direct) < len(pairs):
        groups = joined(network.places, direct)
        if all(pair in network.direct for group in groups for pair in permutations(group, 2)):
            return groups
    rates = {(a, b): min(network.rate(a, b), network.rate(b, a)) for a, b in pairs}
    steps = sorted(rate for rate in set(rates.values()) if rate > 0)
    gaps = [(high / low, high) for low, high in pairwise(steps)]
    ratio, least = max(gaps, default=(1.0, 0.0))
    if ratio < APART:
        return []
    groups = joined(network.places, {pair for pair, rate in rates.items() if rate >= least})
    return groups if 1 < len(groups) < len(network.places) else []


def joined(places: Sequence[str], pairs: set[tuple[str, str]]) -> list[list[str]]:
    """Returns groups of places that `pairs` join, directly or through others, in the order of
    `places`.
    """
    of = {place: {place} for place in places}
    for a, b in pairs:
        of[a] |= of[b]
        for place in of[a]:
            of[place] = of[a]
    groups: list[list[str]] = []
    for place in places:
        if not any(place in other for other in groups):
            groups.append([other for other in places if other in of[place]])
    return groups


def by_islands(
    network: Network, groups: Islands, nbytes: int, itemsize: int, chunks: int
) -> Program:
    """Builds the all_reduce of `nbytes` on each device, in chunks. A chunk is added up within each
    island, then between the islands. Then its sums go back to all devices. Several chunks are in
    progress at once.
    """
    builder, unit = ProgramBuilder(), _owners(groups)
    cut = cuts(nbytes, itemsize, [1 / (chunks * len(unit))] * (chunks * len(unit)))
    most = aligned(max(size for _, size in cut))
    inner = max(len(places) for places in groups)
    slots = inner + len(groups)
    owned = {
        place: {at: rank for rank, at in enumerate(at for at, o in enumerate(unit) if place in o)}
        for place in network.places
    }
    pieces = [
        [(cut[chunk * len(unit) + at], at, owners) for at, owners in enumerate(unit)]
        for chunk in range(chunks)
    ]

    def temp(place: str, chunk: int, at: int, slot: int, size: int) -> Region:
        """Returns `size` bytes of scratch memory of `place`, which no other copy of this chunk
        uses.
        """
        row = (chunk % WINDOW * len(owned[place]) + owned[place][at]) * slots + slot
        return Region(place, "temp", row * most, size)

    def within(chunk: int) -> None:
        for (begin, size), at, owners in pieces[chunk]:
            for owner, places in zip(owners, groups, strict=True):
                mine = Region(owner, "data", begin, size)
                for slot, place in enumerate(places):
                    source = mine._replace(place=place)
                    if place != owner and (place, owner) not in network.direct:
                        came = temp(owner, chunk, at, slot, size)
                        builder.copy(source, came)
                        source = came
                    if place != owner:
                        builder.reduce(source, mine)

    def between(chunk: int) -> None:
        for (begin, size), at, owners in pieces[chunk]:
            parts = cuts(size, itemsize, [1 / len(owners)] * len(owners))
            # Two owners send each other the whole unit, in one message each. More owners each add
            # up a part of it and then exchange the results. Two owners that did so would send as
            # many bytes, but in two messages each.
            if len(owners) == 2:
                parts = [(0, size)] * 2
            came: list[tuple[Region, Region]] = []
            for to, (offset, part) in zip(owners, parts, strict=True):
                mine = Region(to, "data", begin + offset, part)
                for slot, place in enumerate(owners):
                    if place != to:
                        scratch = temp(to, chunk, at, inner + slot, part)
                        builder.copy(mine._replace(place=place), scratch)
                        came.append((scratch, mine))
            for scratch, mine in came:
                builder.reduce(scratch, mine)
            for source, (offset, part) in zip(owners, parts, strict=True):
                for place in owners if len(owners) > 2 else ():
                    if place != source:
                        mine = Region(source, "data", begin + offset, part)
                        builder.copy(mine, mine._replace(place=place))

    def round_(chunk: int) -> None:
        for (begin, size), _, owners in pieces[chunk]:
            for owner, places in zip(owners, groups, strict=True):
                mine = Region(owner, "data", begin, size)
                for place in places:
                    if place != owner:
                        push = (owner, place) in network.direct
                        (builder.push if push else builder.copy)(mine, mine._replace(place=place))

    for chunk in range(min(AHEAD, chunks)):
        within(chunk)
    for chunk in range(chunks):
        between(chunk)
        if chunk + AHEAD < chunks:
            within(chunk + AHEAD)
        round_(chunk)
    return builder.program


def _owners(groups: Islands) -> list[list[str]]:
    """Returns, for each unit of the data, its owner on each island: the device that adds the unit
    up.
    """
    sizes = [len(group) for group in groups]
    count, strides = math.prod(sizes), [math.prod(sizes[:at]) for at in range(len(sizes))]
    if count > MOST_UNITS:
        count = max(sizes)
        return [[group[at * len(group) // count] for group in groups] for at in range(count)]
    return [
        [group[at // stride % len(group)] for group, stride in zip(groups, strides, strict=True)]
        for at in range(count)
    ]
