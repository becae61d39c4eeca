"""T = a + b * size: the time of work by its size, fitted to a few noisy measurements. Pure.

Sizes and times go over several powers of ten, so errors count relative to the time measured; beyond
`FAR` they count less (Huber's weights), so that a measurement that something else disturbed does
not carry the others with it. P. J. Huber, Robust Estimation of a Location Parameter, Annals of
Mathematical Statistics 35(1), 1964.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

FAR = 0.05
"""Relative errors from here on count by their size rather than by its square."""
ROUNDS = 20
"""Of weighting anew; the weights of so few points settle within ten."""

Point = tuple[float, float]
LEAST_SIZES = 2
"""From measurements of one size nothing follows for others."""
LEAST_S, MOST_S, MOST_SIZE = 1e-18, 1e6, 1e24
"""What a measurement can be: the squares of what is beyond leave the range of numbers, and nobody
has waited for it."""


@dataclass(frozen=True)
class Line:
    """`at(size)` seconds: `a` whatever the size and `b` for each unit of it, neither negative."""

    a: float
    b: float

    def at(self, size: float) -> float:
        """Seconds for work of this size; never 0."""
        return max(self.a + self.b * size, 1e-12)


def usable(point: Point) -> bool:
    """Can it have been measured?"""
    size, seconds = point
    return 0 <= size <= MOST_SIZE and LEAST_S <= seconds <= MOST_S


def sizes(points: Iterable[Point]) -> int:
    """How many sizes were measured: of one alone nobody knows what others take."""
    return len({size for size, _ in points})


def fit(points: Sequence[Point]) -> Line:
    """The line through (size, seconds) points; ValueError without one that is `usable`.

    Times grow by FAR at least over the sizes measured. A smaller slope is noise, and so would be
    the rate that it stands for. Points of one size are one point at first, their median: the first
    guess must not be a mean of what is right and what is disturbed.
    """
    good = [point for point in points if usable(point)]
    if not good:
        raise ValueError(f"points: positive times are wanted, got {list(points)!r}")
    ordered = sorted({size for size, _ in good})
    middles = [(size, median(t for at, t in good if at == size)) for size in ordered]
    line = _weighted((size, t, 1.0) for size, t in middles)
    for _ in range(ROUNDS):
        errors = [abs(line.at(size) / t - 1) for size, t in good]
        line = _weighted(
            (size, t, 1.0 if error <= FAR else FAR / error)
            for (size, t), error in zip(good, errors, strict=True)
        )
    least = FAR * line.a / ordered[-1] if ordered[-1] else 0.0
    return Line(line.a, max(line.b, least))


def _weighted(points: Iterable[tuple[float, float, float]]) -> Line:
    """Least sum of weight * ((a + b*size) / t - 1)**2 with a, b >= 0."""
    saa = sab = sbb = sa = sb = 0.0
    for size, t, weight in points:
        one, slope = 1 / t, size / t
        saa += weight * one * one
        sab += weight * one * slope
        sbb += weight * slope * slope
        sa += weight * one
        sb += weight * slope
    determinant = saa * sbb - sab * sab
    if determinant > 1e-12 * saa * sbb:
        a = (sa * sbb - sb * sab) / determinant
        b = (sb * saa - sa * sab) / determinant
        if a >= 0 and b >= 0:
            return Line(a, b)
        if a >= 0:
            return Line(sa / saa, 0.0)
        return Line(0.0, sb / sbb)
    # One size only: half of a prediction's error must go somewhere, and work costs by its size.
    return Line(0.0, sb / sbb) if sbb else Line(sa / saa, 0.0)
