"""Fits T = a + b * size, the time of work as a function of size, to a few noisy points. All
functions are pure.

Sizes and times span several powers of ten, so errors are relative to the measured time. Errors
beyond FAR count less (Huber's weights), so that a disturbed measurement does not bend the line.
Source: P. J. Huber, Robust Estimation of a Location Parameter, Annals of Mathematical Statistics
35(1), 1964.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

FAR = 0.05
"""Relative error from which errors count linearly instead of quadratically."""
ROUNDS = 20
"""Rounds of reweighting. For so few points the weights converge within ten."""

Point = tuple[float, float]
LEAST_SIZES = 2
"""Different sizes that a fit needs: one size says nothing about others."""
LEAST_S, MOST_S, MOST_SIZE = 1e-18, 1e6, 1e24
"""Limits of a plausible measurement. Beyond them squares overflow or underflow."""

LEAST_AT_S = 1e-12
"""The least time that a line gives."""


@dataclass(frozen=True)
class Line:
    """A cost line: work takes `a` seconds and `b` more per unit of size; neither is negative."""

    a: float
    b: float

    def at(self, size: float) -> float:
        """Returns the seconds for work of this size; never 0."""
        return max(self.a + self.b * size, LEAST_AT_S)


def usable(point: Point) -> bool:
    """Returns whether the point is plausible as a measurement."""
    size, seconds = point
    return 0 <= size <= MOST_SIZE and LEAST_S <= seconds <= MOST_S


def sizes(points: Iterable[Point]) -> int:
    """Returns how many different sizes the points have. Points of a single size do not show how the
    time grows with the size.
    """
    return len({size for size, _ in points})


def fit(points: Sequence[Point]) -> Line:
    """Returns the cost line that fits (size, seconds) points best.

    Raises ValueError if none of the points is `usable`.

    From size 0 to the largest measured size, the line grows by at least FAR times its seconds at
    size 0. A smaller slope would be noise. The first guess of the line uses the median time of each
    size, because a mean of right and disturbed points would be far off.
    """
    good = tuple((size, t) for size, t in points if usable((size, t)))
    if not good:
        raise ValueError(f"points: expected positive times, got {list(points)!r}")
    return _fitted(good)


@lru_cache(maxsize=1024)
def _fitted(good: tuple[Point, ...]) -> Line:
    """Returns the cost line that fits the points `good` best.

    The results are cached, because each Context of a process fits the same points of the profile.
    """
    ordered = sorted({size for size, _ in good})
    middles = [(size, median(t for at, t in good if at == size)) for size in ordered]
    line = _weighted(middles, [1.0] * len(middles))
    for _ in range(ROUNDS):
        before, a, b = line, line.a, line.b
        errors = [abs(max(a + b * size, LEAST_AT_S) / t - 1) for size, t in good]
        line = _weighted(good, [1.0 if error <= FAR else FAR / error for error in errors])
        if line == before:  # further rounds would not change `line`
            break
    least = FAR * line.a / ordered[-1] if ordered[-1] else 0.0
    return Line(line.a, max(line.b, least))


def _weighted(points: Sequence[Point], weights: Sequence[float]) -> Line:
    """Returns the line a + b*size, a, b >= 0, with the least sum of weight * ((a + b*size) / t -
    1)**2 over the points (size, t).
    """
    saa = sab = sbb = sa = sb = 0.0
    for (size, t), weight in zip(points, weights, strict=True):
        one, slope = 1 / t, size / t
        weighs, rises = weight * one, weight * slope
        saa += weighs * one
        sab += weighs * slope
        sbb += rises * slope
        sa += weighs
        sb += rises
    determinant = saa * sbb - sab * sab
    if determinant > 1e-12 * saa * sbb:
        a = (sa * sbb - sb * sab) / determinant
        b = (sb * saa - sa * sab) / determinant
        if a >= 0 and b >= 0:
            return Line(a, b)
        if a >= 0:
            return Line(sa / saa, 0.0)
        return Line(0.0, sb / sbb)
    # All points have one size, so they do not determine both a and b. Then a is 0 and b is the time
    # per unit of size, since the time of work grows with its size.
    return Line(0.0, sb / sbb) if sbb else Line(sa / saa, 0.0)
