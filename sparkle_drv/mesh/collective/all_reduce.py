"""Algorithms of all_reduce, as programs. All functions are pure.

Each of the p devices (places) has an operand of `nbytes` in its memory "data". In the end, the
"data" of each has the sum or maximum of all operands. Doubling and the ring are described in R.
Thakur, R. Rabenseifner, W. Gropp, Optimization of Collective Communication Operations in MPICH,
International Journal of High Performance Computing Applications 19(1), 2005.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkle_drv.mesh.lanes.program import Program, Region

from .builder import ProgramBuilder
from .shares import aligned, cuts

AHEAD = 1
"""Chunks of the butterfly that are sent for addition before the first sum is sent back."""
WINDOW = 2
"""Chunks from each other place that a place has scratch memory for."""


def doubling(places: Sequence[str], nbytes: int) -> Program:
    """Builds an all_reduce by recursive doubling. In each of log2 p rounds, pairs of devices send
    each other all of their data and add it up.

    If the number p of devices is no power of two, the devices beyond the largest power do not take
    part in these rounds. Before the rounds they send their data to the first devices; afterwards
    these send them the result.
    """
    builder = ProgramBuilder()
    power = 1 << (len(places).bit_length() - 1)
    for first, last in zip(places, places[power:], strict=False):
        builder.copy(_data(last, 0, nbytes), _temp(first, 0, nbytes))
        builder.reduce(_temp(first, 0, nbytes), _data(first, 0, nbytes))
    distance = 1
    while distance < power:
        # Each round copies into temporary memory of its own. So a fast place need not wait until
        # the others have added up what an earlier round sent them.
        at = distance.bit_length() * aligned(nbytes)
        for i in range(power):
            builder.copy(_data(places[i], 0, nbytes), _temp(places[i ^ distance], at, nbytes))
        for place in places[:power]:
            builder.reduce(_temp(place, at, nbytes), _data(place, 0, nbytes))
        distance *= 2
    for first, last in zip(places, places[power:], strict=False):
        builder.copy(_data(first, 0, nbytes), _data(last, 0, nbytes))
    return builder.program


def exchange(places: Sequence[str], nbytes: int) -> Program:
    """Builds an exchange: one round sends all data of each place to all others.

    Each place then adds up all data itself, in the same order, so that all get the same bits. The
    data of the first half of the places is added up, then that of the second half, then the two
    sums. Each half is added up in the same way. A sum that contains the place's own data is stored
    in place of that data. Any other sum is stored in place of its first operand.
    """
    builder, p = ProgramBuilder(), len(places)

    def slot(i: int, j: int) -> Region:
        """Returns the region of memory of place i that holds the data of place j."""
        mine = _data(places[i], 0, nbytes)
        return mine if i == j else _temp(places[i], j * aligned(nbytes), nbytes)

    def added(i: int, low: int, high: int) -> Region:
        """Adds steps by which place number i adds up the data of places low to high - 1. Returns
        the region of its memory that then holds the sum.
        """
        if high - low == 1:
            return slot(i, low)
        middle = (low + high) // 2
        first, second = added(i, low, middle), added(i, middle, high)
        src, dst = (first, second) if middle <= i < high else (second, first)
        builder.reduce(src, dst)
        return dst

    for j, place in enumerate(places):
        for i, _ in _others(places, j):
            builder.copy(_data(place, 0, nbytes), slot(i, j))
    for i in range(p):
        added(i, 0, p)
    return builder.program


def ring(places: Sequence[str], nbytes: int, itemsize: int) -> Program:
    """Builds an all_reduce on a ring of p devices, each of which sends only to the next one. p - 1
    rounds add the parts up, and p - 1 rounds pass the sums on.
    """
    builder, p = ProgramBuilder(), len(places)
    parts = cuts(nbytes, itemsize, [1 / p] * p)
    for turn in range(p - 1):
        for i, place in enumerate(places):
            begin, size = parts[(i - turn) % p]
            to = places[(i + 1) % p]
            builder.copy(_data(place, begin, size), _temp(to, begin, size))
            builder.reduce(_temp(to, begin, size), _data(to, begin, size))
    for turn in range(p - 1):
        for i, place in enumerate(places):
            begin, size = parts[(i + 1 - turn) % p]
            builder.copy(_data(place, begin, size), _data(places[(i + 1) % p], begin, size))
    return builder.program


def butterfly(
    places: Sequence[str], nbytes: int, itemsize: int, shares: Sequence[float], chunks: int
) -> Program:
    """Builds an all_reduce as a butterfly: each device receives its share of all others' data, adds
    it up, and sends the sums back. Several chunks are in flight.
    """
    builder, parts = ProgramBuilder(), cuts(nbytes, itemsize, shares)
    cut = [cuts(size, itemsize, [1 / chunks] * chunks) for _, size in parts]
    most = [aligned(max(size for _, size in pieces)) for pieces in cut]

    def pieces(chunk: int) -> list[tuple[int, int, int]]:
        """Returns (index of the place that adds it up, offset, bytes) of each part of a chunk."""
        found = ((j, parts[j][0] + cut[j][chunk][0], cut[j][chunk][1]) for j in range(len(places)))
        return [piece for piece in found if piece[2]]

    def gather(chunk: int) -> None:
        for j, begin, size in pieces(chunk):
            for i, place in _others(places, j):
                at = ((chunk % WINDOW) * len(places) + i) * most[j]
                builder.copy(_data(place, begin, size), _temp(places[j], at, size))
            for i, _ in _others(places, j):
                at = ((chunk % WINDOW) * len(places) + i) * most[j]
                builder.reduce(_temp(places[j], at, size), _data(places[j], begin, size))

    for chunk in range(min(AHEAD, chunks)):
        gather(chunk)
    for chunk in range(chunks):
        for j, begin, size in pieces(chunk):
            for _, place in _others(places, j):
                builder.copy(_data(places[j], begin, size), _data(place, begin, size))
        if chunk + AHEAD < chunks:
            gather(chunk + AHEAD)
    return builder.program


def shared(places: Sequence[str], nbytes: int, itemsize: int) -> Program:
    """Builds an all_reduce for memory that all places read and write.

    Each place adds up its part in its own array. Its queue then copies the sum to all other places.
    If the receivers copied, their busy cores would delay the copies.
    """
    builder, p = ProgramBuilder(), len(places)
    parts = cuts(nbytes, itemsize, [1 / p] * p)
    for j, (begin, size) in enumerate(parts):
        mine = _data(places[j], begin, size)
        for _, place in _others(places, j):
            builder.reduce(mine._replace(place=place), mine)
        for _, place in _others(places, j):
            builder.push(mine, mine._replace(place=place))
    return builder.program


def _others(places: Sequence[str], j: int) -> list[tuple[int, str]]:
    """Returns (index, place) of all places except number j, beginning after j. So not all places
    send to the same place at once.
    """
    p = len(places)
    return [((j + d) % p, places[(j + d) % p]) for d in range(1, p)]


def _data(place: str, offset: int, nbytes: int) -> Region:
    return Region(place, "data", offset, nbytes)


def _temp(place: str, offset: int, nbytes: int) -> Region:
    return Region(place, "temp", offset, nbytes)
