"""The pieces of one device's part: their stages overlap. Pure.

The first pieces are small, so that the slowest stage begins early. Each next one is as large as it
can be without keeping that stage waiting. The last pieces shrink likewise. Small pieces fill the
stages sooner and cost their latencies; the sizes that end first are taken.
"""

from __future__ import annotations

import math

from .site import Pace

HALVINGS = 12
"""Sizes of the first and the last piece that are tried: the part halved so many times at most,
twice at a time."""
NEAR = (2.0, 2.0), (0.5, 0.5), (2.0, 1.0), (0.5, 1.0), (1.0, 2.0), (1.0, 0.5)
"""Factors for both that are tried around the best."""
MOST = 64
"""Pieces of a part at most."""


class Cutter:
    """Cuts parts of one device. What is best for the first part is kept for later ones."""

    __slots__ = ("back", "front", "pace", "sought")

    def __init__(self, pace: Pace) -> None:
        self.pace, self.front, self.back = pace, _ways(pace, True), _ways(pace, False)
        self.sought: tuple[float, float] | None = None

    def cut(self, units: int, largest: float = math.inf) -> list[int]:
        """Units of each piece, in order, none larger than `largest`."""
        if not units or (largest >= units and not (self.pace.brings or self.pace.fetches)):
            return [units] if units else []
        if self.sought is None:
            self.sought = self._seek(units, largest)
        return self._pieces(units, *self.sought, largest)

    def _seek(self, units: int, largest: float) -> tuple[float, float]:
        """The first and the last piece, as parts of all, with which the device ends first."""
        begin = max(0, math.ceil(math.log2(units / largest))) if largest < units else 0
        best, best_s = (1.0, 1.0), math.inf
        for at in range(begin, begin + HALVINGS, 2):
            ends_s = self.pace.end_s(self._pieces(units, 0.5**at, 0.5**at, largest))
            if ends_s >= best_s:
                break
            best, best_s = (0.5**at, 0.5**at), ends_s
        middle = best[0]
        for first, last in NEAR:
            tried = first * middle, last * middle
            ends_s = self.pace.end_s(self._pieces(units, *tried, largest))
            if ends_s < best_s:
                best, best_s = tried, ends_s
        return best

    def _pieces(self, units: int, first: float, last: float, largest: float) -> list[int]:
        """From both ends inwards, the smaller one of the next two pieces first."""
        front, back, least = self.front, self.back, max(1.0, units / MOST)
        ahead = max(least, first * units) if front or not back else math.inf
        behind = max(least, last * units) if back else math.inf
        before, after, left = list[float](), list[float](), float(units)
        while left > 0:
            if ahead <= behind:
                size = ahead
                if front:
                    ahead = max(size, min([factor * size + more for factor, more in front]))
                before.append(min(size, left, largest))
                left -= before[-1]
            else:
                size = behind
                behind = max(size, min([factor * size + more for factor, more in back]))
                after.append(min(size, left, largest))
                left -= after[-1]
        return _whole(before + after[::-1], units)


def _ways(pace: Pace, front: bool) -> list[tuple[float, float]]:
    """(factor, more): next to a piece of n units one has factor * n + more units at most. Empty:
    no stage is to be filled, or to be drained, at that end.
    """
    p, c, o = pace.brings, pace.computes, pace.fetches
    a, b, e = pace.bring, pace.launch, pace.fetch
    if not front:
        p, o, a, e = o, p, e, a
    if p >= c and p >= o:
        return []
    if c >= o:
        return [(c / p, (b - a) / p)] if p else [(math.inf, 0.0)]
    return [(o / c, (e - b) / c), ((c + o) / (p + c), (e - a) / (p + c))]


def _whole(wanted: list[float], units: int) -> list[int]:
    """Whole units near these sizes; pieces of none are left out."""
    passed, ended, found = 0.5, 0, list[int]()
    for size in wanted:
        passed += size
        end = int(passed)
        if end > ended:
            found.append(end - ended)
            ended = end
    if ended != units:
        found[-1] += units - ended
    return found
