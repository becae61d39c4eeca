"""When are there enough samples? A pure rule over the samples so far, without clock or device.
timing.py calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from _bench.rows import stats


@dataclass
class StopRule:
    """Stops when the half-width of the median's 95 % interval is at most `precision` (relative), at
    the latest at `timeout_s`.

    `ask` may be called after every sample. It computes the interval only if the number of samples
    has grown by a tenth since the last time, so that the cost of sorting does not grow with the
    square of their number. Testing after every sample would also stop at an interval that is narrow
    by chance.
    """

    precision: float = 0.01
    timeout_s: float = 5.0
    least: int = 20
    most: int = 20_000
    _next_look: int = field(default=0, repr=False)

    def ask(self, samples: Sequence[float], elapsed_s: float) -> str | None:
        """Returns "precision", "timeout" or "max_samples" as the reason to stop, or None to go on.
        At least one sample is taken.
        """
        n = len(samples)
        if n >= self.least and n >= self._next_look:
            self._next_look = n + max(1, n // 10)
            if stats.summarize(samples).half_width <= self.precision:
                return "precision"
        if n >= self.most:
            return "max_samples"
        return "timeout" if n and elapsed_s >= self.timeout_s else None
