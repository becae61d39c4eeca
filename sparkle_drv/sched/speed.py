"""How long one operation takes on one device, by the size of the work: what the probes said, and
what every run since has corrected. State and arithmetic only: no clock, no device.

The model is a line (line.py) times a correction that depends on the size. Real kernels bend: caches
end, threads join. Where measurements of one size lie off the line by more than their own scatter,
a knot of the correction stands there; between knots it is interpolated over log(size). FINDINGS F
is why there is a line underneath: it needs no measurement near a size to say something sensible.

A device that changes speed (heat, another user) shows as a run of errors to one side. The median of
the last few then becomes part of `pace`, a factor for all sizes, and they are forgotten.
"""

from __future__ import annotations

import bisect
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from .line import Line, Point, fit

PER_OCTAVE = 1
"""Knots in a doubling of the size."""
MEMORY = 16
"""Runs that a knot averages over."""
WINDOW = 5
"""Runs whose median error tells of a change of pace."""
LEAST_CHANGE = 0.18
"""A change of pace is one of more than so much, in units of log: 20 %."""
LEAST_NOISE = 0.02


@dataclass
class Knot:
    """The correction near one size: log(measured / line), a clipped mean of `count` runs."""

    mean: float = 0.0
    count: float = 0.0


@dataclass
class Speed:
    """One operation on one device. `at` predicts, `observe` learns."""

    line: Line
    noise: float = 0.05
    """Scatter of log(measured) around its median, as a standard deviation."""
    pace: float = 0.0
    """log of how much slower than when probed."""
    runs: int = 0
    knots: dict[int, Knot] = field(default_factory=dict)
    _order: list[int] = field(default_factory=list)
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    @classmethod
    def of(cls, points: Sequence[Point]) -> Speed:
        """From probes: (size, seconds), several of each size. ValueError without a usable one."""
        line = fit(points)
        offsets: dict[float, list[float]] = {}
        for size, t in points:
            if 0 < t < math.inf:
                offsets.setdefault(size, []).append(math.log(t / line.at(size)))
        middles = {size: median(values) for size, values in offsets.items()}
        # The median of absolute deviations is 0.6745 of a normal distribution's deviation.
        spread = [abs(v - middles[size]) for size, vs in offsets.items() for v in vs if len(vs) > 1]
        noise = max(LEAST_NOISE, median(spread) / 0.6745 if spread else 0.0)
        speed = cls(line, noise)
        counts = {size: len(values) for size, values in offsets.items()}
        biased = [s for s, m in middles.items() if abs(m) > 2 * noise / math.sqrt(counts[s])]
        for size, middle in middles.items() if biased else ():
            # Where the line is right, too: else a neighbour's knot would reach this far.
            # For as much as one run counts: a call has its own operands and its own allocations.
            speed._learn(_bin(size), middle, 1)
        return speed

    def at(self, size: float) -> float:
        """Seconds that work of this size will take."""
        return self.line.at(size) * math.exp(self.pace + self._correction(size))

    def observe(self, size: float, seconds: float) -> None:
        """A run took so long; what is not a positive time is not one."""
        if not 0 < seconds < math.inf:
            return
        error = math.log(seconds / self.at(size))
        self.runs += 1
        self._recent.append(error)
        if len(self._recent) == WINDOW:
            shift = median(self._recent)
            one_side = sum(1 for e in self._recent if e * shift > 0) >= WINDOW - 1
            if one_side and abs(shift) > max(LEAST_CHANGE, 3 * self.noise):
                self.pace += shift
                self._recent.clear()
                return
        limit = 3 * self.noise
        clipped = max(-limit, min(limit, error))
        # What scatter is, is learnt too; slowly, and from what is not far off.
        self.noise = max(LEAST_NOISE, self.noise + 0.02 * (abs(clipped) * 1.2533 - self.noise))
        self._learn(_bin(size), self._correction(size) + clipped, 1)

    def _learn(self, at: int, value: float, count: int) -> None:
        knot = self.knots.get(at)
        if knot is None:
            knot = self.knots[at] = Knot()
            bisect.insort(self._order, at)
        total = min(MEMORY, knot.count + count)
        knot.mean += (value - knot.mean) * min(1.0, count / total)
        knot.count = total

    def _correction(self, size: float) -> float:
        if not self._order:
            return 0.0
        x = PER_OCTAVE * math.log2(size) if size > 0 else 0.0
        right = bisect.bisect_left(self._order, x)
        if right == 0:
            return self.knots[self._order[0]].mean
        if right == len(self._order):
            return self.knots[self._order[-1]].mean
        low, high = self._order[right - 1], self._order[right]
        share = (x - low) / (high - low)
        return self.knots[low].mean * (1 - share) + self.knots[high].mean * share


def _bin(size: float) -> int:
    return round(PER_OCTAVE * math.log2(size)) if size > 0 else 0
