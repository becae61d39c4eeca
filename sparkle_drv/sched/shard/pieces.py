"""The pieces of one device's part: their stages overlap. Pure.

The first pieces are small, so that the slowest stage begins early. Each next one is as large as it
can be without keeping that stage waiting. The last pieces shrink likewise. Small pieces fill the
stages sooner and cost their latencies; the sizes that end first are taken.
"""

from __future__ import annotations

import math

from .site import Pace

HALVINGS = 12
"""Sizes of the first and the last piece that are tried: the part halved so many times at most."""
MOST = 256
"""Pieces of a part at most."""


def cut(pace: Pace, units: int, largest: float = math.inf) -> list[int]:
    """Units of each piece, in order, none larger than `largest`."""
    if not units or (largest >= units and not (pace.brings or pace.fetches)):
        return [units] if units else []
    front, back = Slope(pace, True), Slope(pace, False)
    best, best_s = 1.0, math.inf
    begin = max(0, math.ceil(math.log2(units / largest))) if largest < units else 0
    for at in range(begin, begin + HALVINGS):
        ends_s = pace.end_s(sizes(units, front, back, 0.5**at, 0.5**at, largest))
        if ends_s >= best_s:
            break
        best, best_s = 0.5**at, ends_s
    found = sizes(units, front, back, best, best, largest)
    for first, last in ((4, 1), (2, 1), (0.5, 1), (0.25, 1), (1, 2), (1, 0.5)):
        tried = sizes(units, front, back, first * best, last * best, largest)
        ends_s = pace.end_s(tried)
        if ends_s < best_s:
            found, best_s = tried, ends_s
    return found


class Slope:
    """How large the next piece may be from one end of a part inwards."""

    __slots__ = ("ways",)

    def __init__(self, pace: Pace, front: bool) -> None:
        p, c, o = pace.brings, pace.computes, pace.fetches
        a, b, e = pace.bring, pace.launch, pace.fetch
        if not front:
            p, o, a, e = o, p, e, a
        # (factor, seconds, rate): the next piece has (factor * units + seconds) / rate units.
        self.ways: list[tuple[float, float, float]] = []
        if p >= c and p >= o:
            return
        if c >= o:
            self.ways.append((c, b - a, p))
        else:
            self.ways += [(o, e - b, c), (c + o, e - a, p + c)]

    def next(self, units: float) -> float:
        """Units of the piece behind (or before) one of `units`, never fewer."""
        most = min(
            ((factor * units + seconds) / rate if rate else math.inf
             for factor, seconds, rate in self.ways), default=math.inf,
        )  # fmt: skip
        return max(units, most)


def sizes(
    units: int, front: Slope, back: Slope, first: float, last: float, largest: float
) -> list[int]:
    """Whole units of each piece, for the first and the last one as parts of all."""
    ahead = max(1.0, first * units) if front.ways else math.inf
    behind = max(1.0, last * units) if back.ways else math.inf
    if not (front.ways or back.ways):
        ahead = max(1.0, first * units)
    ahead, behind = max(ahead, units / MOST), max(behind, units / MOST)
    before: list[float] = []
    after: list[float] = []
    left = float(units)
    while left > 0:
        if ahead <= behind:
            size = min(ahead, left, largest)
            before.append(size)
            ahead = front.next(ahead) if front.ways else ahead
        else:
            size = min(behind, left, largest)
            after.append(size)
            behind = back.next(behind) if back.ways else behind
        left -= size
    return whole(before + after[::-1], units)


def whole(wanted: list[float], units: int) -> list[int]:
    """Whole units near these sizes; pieces of none are left out."""
    passed, ended, found = 0.0, 0, []
    for size in wanted:
        passed += size
        end = min(units, round(passed))
        if end > ended:
            found.append(end - ended)
            ended = end
    return found
