"""Computes the most units that one device can do in some seconds, however they are cut into pieces.
The module reads no clock and calls no device.

Let T be the seconds, x the units and n the number of pieces. Two stages run the pieces one after
another. They take p and c seconds per unit, and a and b per piece. A piece enters the second stage
when it has left the first. For each k, pieces 1 to k in the first stage and then pieces k to n in
the second form a chain: they follow one another. A weighted sum of these n chains, in which all
units count alike, gives the bound. (The weights are the dual of the linear program over sizes of
pieces.)

    T >= A(n) + K(n) x,  K(n) = p + (c - p) / (1 - r**n),  r = p / c

with A(n) = (n + 1 - S) a + S b, S = (n - sum r**k) / (1 - r**n). More pieces fill the second stage
sooner (K falls), and cost more (A grows).
"""

from __future__ import annotations

from .site import Pace

NUMBERS = 1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 60, 100
"""Numbers of pieces for which limits are computed. Between two of them, the lesser A and the lesser
K hold."""

AFTER = (*(number - 1 for number in NUMBERS[1:]), 1 << 30)
"""For each of NUMBERS, the most pieces before the next number."""
Chain = tuple[float, float]
"""The line (A, B): a device takes at least A + B x seconds for x units."""


class Limits:
    """The limits of one device. A limit is a Chain: the least seconds that the device needs, as a
    linear function of its units.

    A piece has three stages: copy in, compute, copy out. All limits in `simple` hold for any number
    of pieces. `pairs` has a list for each pair of stages, with a limit for each number of pieces.
    Since the planner may choose that number, only the limit that allows the most units counts.
    """

    def __init__(self, pace: Pace) -> None:
        p, c, o = pace.brings, pace.computes, pace.fetches
        begin = pace.start + pace.bring + p
        launch, back = pace.launch + c, pace.fetch + o
        first = max(pace.ready, begin)
        self.pace, self.pairs = pace, list[list[Chain]]()
        self.simple: list[Chain] = [(first + pace.launch + back, c)]
        if p:
            self.simple.append((begin - p + launch + back, p))
        if o:
            self.simple.append((first + launch + pace.fetch, o))

    def chains(self) -> None:
        """Fills the empty `pairs`: for each pair of stages, a list of limits."""
        pace = self.pace
        p, c, o = pace.brings, pace.computes, pace.fetches
        begin = pace.start + pace.bring + p
        launch, back = pace.launch + c, pace.fetch + o
        first = max(pace.ready, begin)
        if p:
            self.pairs.append(_chains(pace.start + back, pace.bring, p, pace.launch, c))
        if o:
            self.pairs.append(_chains(first, pace.launch, c, pace.fetch, o))
        if p and o:
            self.pairs.append(_chains(pace.start + launch, pace.bring, p, pace.fetch, o))

    def units(self, t: float, most: float) -> float:
        """Returns the most units that the device can do in t seconds by the limits in `simple`. The
        limits in `pairs` are not used.
        """
        units = min(most, self.pace.most)
        for a, b in self.simple:
            if units * b > t - a:
                units = (t - a) / b
        return units if units >= 1 else 0.0

    def narrow(self, low: float, high: float) -> None:
        """Drops a limit from a list of `pairs` if another limit of the list allows as many
        units or more at every t from `low` to `high`.

        The units that a limit allows are linear in t. So a limit that allows fewer than another one
        at both ends also does so between them.
        """
        for at, chains in enumerate(self.pairs):
            ends = [((low - a) / b, (high - a) / b) for a, b in chains]
            tops = max(ends), max(ends, key=lambda end: end[1])
            self.pairs[at] = [
                chain
                for chain, end in zip(chains, ends, strict=True)
                if end in tops or not any(end[0] <= top[0] and end[1] <= top[1] for top in tops)
            ]

    def fewer(self, t: float, units: float) -> float:
        """Returns `units`, or the most units that the limits in `pairs` allow in t seconds, if
        these are fewer.
        """
        for chains in self.pairs:
            for a, b in chains:
                if units * b <= t - a:
                    break
            else:
                units = max([(t - a) / b for a, b in chains])
        return units if units >= 1 else 0.0


def _chains(base: float, a: float, p: float, b: float, c: float) -> list[Chain]:
    """Returns lower bounds of a device's seconds for x units: a Chain (A, B) means A + B x.

    There is one Chain for each entry n of NUMBERS. It holds if the units are cut into at least n
    pieces, and fewer than the next entry. The pieces go through two stages, which take p and c
    seconds per unit, and a and b per piece. `base` is added to each A.
    """
    # The bound is the same for both orders of the two stages. The slower stage becomes the second
    # one, so that r = p / c is at most 1.
    if p > c:
        a, p, b, c = b, c, a, p
    r, slope, chains = p / c, c - p, list[Chain]()
    even = r > 1 - 1e-6
    for number, after in zip(NUMBERS, AFTER, strict=True):
        if even:
            total, each = (number + 1) / 2, p + c / after
        else:
            power = r**number
            total = (number - r * (1 - power) / (1 - r)) / (1 - power)
            each = p + slope / (1 - r**after)
        chains.append((base + (number + 1 - total) * a + total * b, each))
    return chains
