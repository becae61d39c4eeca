"""The last part of the work, in shrinking chunks that any free device takes. All functions are
pure.

Rates are never quite as predicted. Each chunk is a part of what is left, as in guided
self-scheduling (C. Polychronopoulos, D. Kuck, IEEE Transactions on Computers C-36(12), 1987). Of a
chunk, a device takes at most its longest piece (pieces.py). The fastest device takes every chunk
that it can. Another device compares two times: its own for the chunk, and that of all devices
together for the whole tail that is left. If its own is longer, it leaves the chunk to the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from .site import Pace

CHUNK = 3
"""A chunk is the rest divided by CHUNK times the number of devices.

With rates of 100, 40, 20 and 5, half of this keeps the device of rate 20 from most chunks: 0.94 of
the ideal instead of 0.99. With 4 there are a quarter more chunks and no gain."""


def takes(piece_s: float, left_s: float, fastest: bool) -> bool:
    """Returns whether a free device takes the next chunk. The device that is the `fastest` always
    does.

    `piece_s` is the predicted seconds until the device would end the chunk. `left_s` is the seconds
    that all devices together need for everything that is left.
    """
    return fastest or piece_s <= left_s


def dealt(
    paces: Sequence[Pace],
    parts: Sequence[Sequence[int]],
    units: int,
    least: int,
    most: Sequence[int],
) -> tuple[list[int], list[int], float]:
    """Deals the tail to devices that do not wait for one another. Returns the units of each chunk,
    the device predicted to take it, and the seconds until all devices have ended.

    A chunk has `least` units or more; the last one may have fewer. No chunk has more units than
    `most` gives for its device. The lists are empty if the devices' memory cannot hold the tail.
    """
    members = [at for at, part in enumerate(parts) if part]
    rate, count = sum([1 / paces[at].each for at in members]), CHUNK * len(members)
    fastest = min(members, key=lambda at: paces[at].each)
    lanes = {at: _lanes(paces[at], parts[at]) for at in members}
    room = {at: paces[at].most - sum(parts[at]) for at in members}
    free = [(lanes[at][3], at) for at in members]
    heapify(free)
    sizes, chunks, left, now = list[int](), list[int](), units, 0.0
    idle: list[int] = []  # free devices that did not get the latest chunks

    while left:
        next_ = min(left, max(least, left // count))
        left_s, tried = left / rate, 0
        while True:
            if tried < len(idle):
                at = idle[tried]
            elif free:
                now, at = heappop(free)
                idle.append(at)
            else:
                return [], [], math.inf
            size = next_ if next_ < most[at] else most[at]
            done_s = paces[at].piece_s(size) + max(0.0, lanes[at][1] - now)
            if takes(done_s, left_s, at == fastest) and size <= room[at]:
                del idle[tried]
                break
            tried += 1
        sizes.append(size)
        chunks.append(at)
        left -= size
        room[at] -= size
        lanes[at] = _after(paces[at], lanes[at], size, now)
        heappush(free, (lanes[at][3], at))
    return sizes, chunks, max([lanes[at][2] for at in members])


Lanes = tuple[float, float, float, float]
"""The ends of a device's last bring, launch and fetch, and the time when it takes its next
chunk."""


def _lanes(pace: Pace, part: Sequence[int]) -> Lanes:
    if not pace.far:
        end_s = pace.end_s(part)
        return 0.0, end_s, end_s, end_s
    lanes: Lanes = (pace.start, pace.ready, 0.0, 0.0)
    for units in part:
        lanes = _after(pace, lanes, units)
    return lanes


def _after(pace: Pace, lanes: Lanes, units: int, taken_s: float = 0.0) -> Lanes:
    """Adds a piece of `units` units, which the device took at `taken_s`. Returns when the device
    then ends its last bring, launch and fetch, and when it takes its next chunk.

    A device that copies operands in takes its next chunk when it launches the previous one, so that
    copies and launches overlap.
    """
    brought, computed, fetched, _ = lanes
    if not pace.far:
        computed = max(computed, taken_s) + pace.launch + pace.computes * units
        return brought, computed, computed, computed
    brought = max(brought, taken_s) + pace.bring + pace.brings * units
    begun = max(computed, brought)
    computed = begun + pace.launch + pace.computes * units
    fetched = max(fetched, computed) + pace.fetch + pace.fetches * units
    return brought, computed, fetched, begun if pace.brings else computed
