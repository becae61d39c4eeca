"""Predicts how long one operation takes on one device, by its size. Probes give a first prediction,
and each run corrects it. The module holds state and does arithmetic: no clock, no device.

The model is a line (mesh/links/line.py) times a correction that depends on the size. A line alone
is not enough. The times of real kernels bend where caches end and threads join, and calls find
other cache contents than probes. Runs are averaged in knots, one per doubling of the size. The
correction at a size is the weighted mean of the knots near it.

A knot's weight is the inverse of its variance. The variance is that of single runs over their
number, plus a part that grows with the distance from the size (BEND). So if runs scatter little,
almost only the measurements of the size itself count. If they scatter much, those of its neighbours
count, too. The line predicts sizes without any measurement near them.

A device that changes speed (heat, another user) shows as a run of errors to one side. The median of
the last few errors then goes into `pace`, a factor for all sizes, and these errors are forgotten.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from sparkle_drv.mesh.links.line import Line, Point, fit, usable

MEMORY = 16
"""Most runs that a knot averages over."""
BEND = 0.2
"""Expected change of the correction over a doubling of the size: a standard deviation of
its log."""
REACH = 4
"""Octaves beyond which a knot is ignored, if there are nearer ones."""
CLIP = 2.0
"""Larger errors are clipped to this many times the scatter. Disturbed times lie to one side; the
clipped mean is then close to the median."""
WINDOW = 5
"""Runs whose median error shows a change of pace."""
LEAST_CHANGE = 0.18
"""Smallest change of pace that counts, in units of log: 20 %."""
CHANGE = 4.0
"""Smallest change of pace that counts, as a multiple of the scatter."""
LEAST_NOISE = 0.02
UNSURE = 0.5
"""Scatter of a speed that is predicted from others, before its first runs. It is so large that the
first run counts in full, even one that took e times as long as predicted."""
NOISE_MEMORY, PROBES_WEIGH = 32, 4
"""Runs that the scatter is averaged over, and how many of them the probes count for. Probes follow
one another directly and scatter less than calls."""


@dataclass(frozen=True)
class Knot:
    """The correction of predicted times near one size. `mean` is a clipped mean over `count` runs
    of log(measured seconds / seconds by the Speed's cost line).
    """

    mean: float = 0.0
    count: int = 0


@dataclass
class Speed:
    """The speed of one operation on one device. `at` predicts, `observe` learns.

    Threads may call both at once, because a Knot (a correction) is replaced as a whole.
    """

    line: Line
    noise: float = 0.05
    """Scatter of log(measured) of one size, as a standard deviation."""
    pace: float = 0.0
    """log of the factor by which the device is slower than when it was probed."""
    runs: int = 0
    knots: dict[int, Knot] = field(default_factory=dict)
    """The knots, by log2 of the size, rounded."""
    predicted: bool = False
    """Whether the speed was computed from other speeds, without a probe of its own."""
    _before: float | None = None  # the prediction's error in the last run
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    @classmethod
    def of(cls, points: Sequence[Point]) -> Speed:
        """Builds a Speed from probes: (size, seconds), several per size. Raises ValueError if none
        is usable.
        """
        line = fit(points)
        offsets: dict[float, list[float]] = {}
        for size, t in points:
            if usable((size, t)):
                offsets.setdefault(size, []).append(math.log(t / line.at(size)))
        middles = {size: median(values) for size, values in offsets.items()}
        # For a normal distribution, the median of the absolute deviations is 0.6745 standard
        # deviations.
        spread = [abs(v - middles[size]) for size, vs in offsets.items() for v in vs if len(vs) > 1]
        noise = max(LEAST_NOISE, median(spread) / 0.6745 if spread else 0.0)
        speed = cls(line, noise)
        counts = {size: len(values) for size, values in offsets.items()}
        biased = [s for s, m in middles.items() if abs(m) > 2 * noise / math.sqrt(counts[s])]
        for size, middle in middles.items() if biased else ():
            # A Knot corrects the cost line at one size and near it. If one size needs a Knot, all
            # measured sizes get one, so that it does not change right predictions at the others.
            # All probes of a size count as one run, because calls have other operands and
            # allocations than probes.
            speed._learn(size, middle)
        return speed

    def and_more(self, extra: float) -> Speed:
        """Returns the speed of work that takes `extra` seconds more for each unit of size.

        The corrections of this Speed apply only to this Speed's part of the time, not to `extra`.
        """
        line = Line(self.line.a, self.line.b + extra)
        knots = {}
        for at, knot in self.knots.items():
            part = self.line.at(2.0**at) / line.at(2.0**at)
            knots[at] = Knot(math.log1p(part * math.expm1(knot.mean)), 1)
        return Speed(line, max(self.noise, UNSURE), self.pace, knots=knots, predicted=True)

    def at(self, size: float) -> float:
        """Returns the predicted seconds of work of this size."""
        return self.line.at(size) * math.exp(self.pace + self._correction(size))

    def observe(self, size: float, seconds: float) -> None:
        """Learns from one run of `seconds`; ignores impossible values."""
        if not usable((size, seconds)):
            return
        correction = self._correction(size)
        error = math.log(seconds / self.line.at(size)) - self.pace - correction
        self.runs += 1
        self._scatter(error)
        self._recent.append(error)
        recent = list(self._recent)  # a copy, because other threads may change it
        if len(recent) == WINDOW:
            shift = median(recent)
            one_side = sum(1 for e in recent if e * shift > 0) >= WINDOW - 1
            if one_side and abs(shift) > max(LEAST_CHANGE, CHANGE * self.noise):
                self.pace += shift
                self._recent.clear()
                return
        limit = CLIP * self.noise
        self._learn(size, correction + max(-limit, min(limit, error)))

    def _scatter(self, error: float) -> None:
        """Updates the scatter from the difference of successive errors. A constant error cancels
        out in that difference.
        """
        if self._before is not None:
            # sqrt(pi) / 2 converts the mean difference of two normal values to their standard
            # deviation.
            differ = 0.886 * min(abs(error - self._before), 6 * self.noise)
            weight = 1 / min(NOISE_MEMORY, PROBES_WEIGH + self.runs)
            self.noise = max(LEAST_NOISE, self.noise + weight * (differ - self.noise))
        self._before = error

    def _learn(self, size: float, value: float) -> None:
        at = round(_octave(size))
        before = self.knots.get(at, Knot())
        count = min(MEMORY, before.count + 1)
        self.knots[at] = Knot(before.mean + (value - before.mean) / count, count)

    def _correction(self, size: float) -> float:
        if not self.knots:
            return 0.0
        x, scatter, bend = _octave(size), self.noise * self.noise, BEND * BEND
        total = weights = 0.0
        middle = round(x)
        near = [at for at in range(middle - REACH, middle + REACH + 1) if at in self.knots]
        # Sorted, because a journal does not keep the order in which the corrections were learnt.
        for at in near or sorted(self.knots):
            knot = self.knots[at]
            weight = 1 / (scatter / knot.count + bend * (x - at) ** 2)
            total += weight * knot.mean
            weights += weight
        return total / weights


def _octave(size: float) -> float:
    return math.log2(size) if size > 0 else 0.0
