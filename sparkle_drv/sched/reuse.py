"""Which intermediate results share memory: linear scan over the order of execution. Pure.

An item is wanted from the step that writes it to the last that reads it. Steps of one device run in
the order of this list, on one queue, so that memory whose last reader was submitted can be written
by what is submitted next, without a wait; what leaves a device is read before the next step is
submitted (run_graph.py). M. Poletto, V. Sarkar: Linear Scan Register Allocation, ACM TOPLAS 21(5),
1999; here with sizes: the free piece that fits best is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGN = 256
"""Bytes that pieces begin at multiples of: what GL wants at most of a storage buffer's offset."""


@dataclass(frozen=True)
class Item:
    """One result on one device."""

    nbytes: int
    begin: int
    """The step that writes it."""
    end: int
    """The last step that reads it, `begin` at least."""
    over: int | None = None
    """An item that ends with the step that writes this one and may be written over, of its size."""


@dataclass(frozen=True)
class Memory:
    """Where each item lies, and how much there must be."""

    offsets: tuple[int, ...]
    peak_nbytes: int
    naive_nbytes: int
    """Without reuse: room for all at once."""


def pack(items: Sequence[Item]) -> Memory:
    """A place for every item, such that no two that are wanted at once overlap."""
    sizes = [_aligned(item.nbytes) for item in items]
    offsets = [0] * len(items)
    free: list[tuple[int, int]] = []  # (offset, nbytes), by offset, none touching the next
    peak = 0
    live: list[int] = []
    order = sorted(range(len(items)), key=lambda i: (items[i].begin, i))
    for i in order:
        item = items[i]
        for other in [o for o in live if items[o].end < item.begin]:
            live.remove(other)
            free = _given_back(free, offsets[other], sizes[other])
        over = item.over
        if over is not None and over in live and items[over].end == item.begin:
            if sizes[over] != sizes[i]:
                raise ValueError(
                    f"item {i}: it is not of the size of item {over}, which it is over"
                )
            live.remove(over)
            offsets[i] = offsets[over]
        else:
            offsets[i], free, peak = _taken(free, sizes[i], peak)
        live.append(i)
    return Memory(tuple(offsets), peak, sum(sizes))


def _aligned(nbytes: int) -> int:
    return max(ALIGN, -(-nbytes // ALIGN) * ALIGN)


def _taken(
    free: list[tuple[int, int]], nbytes: int, peak: int
) -> tuple[int, list[tuple[int, int]], int]:
    """(offset, what is free now, the peak now): the smallest piece that is large enough, else the
    last one made longer, where it is at the end.
    """
    fits = [piece for piece in free if piece[1] >= nbytes]
    if fits:
        piece = min(fits, key=lambda p: (p[1], p[0]))
        rest = [(piece[0] + nbytes, piece[1] - nbytes)] if piece[1] > nbytes else []
        return piece[0], sorted([*(p for p in free if p != piece), *rest]), peak
    if free and sum(free[-1]) == peak:
        offset = free[-1][0]
        return offset, free[:-1], offset + nbytes
    return peak, free, peak + nbytes


def _given_back(free: list[tuple[int, int]], offset: int, nbytes: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for at, size in sorted([*free, (offset, nbytes)]):
        if found and sum(found[-1]) == at:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((at, size))
    return found


def needed(items: Sequence[Item]) -> int:
    """Bytes that any packing takes at least: those of the items that are wanted at once."""
    steps = {item.begin for item in items}
    return max(
        (
            sum(_aligned(x.nbytes) for i, x in enumerate(items) if _wanted(items, i, step))
            for step in steps
        ),
        default=0,
    )


def _wanted(items: Sequence[Item], i: int, step: int) -> bool:
    """Is it wanted in this step, and not what another is written over in it?"""
    if not items[i].begin <= step <= items[i].end:
        return False
    return not any(x.over == i and x.begin == step == items[i].end for x in items)
