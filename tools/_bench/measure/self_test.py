"""Is this machine quiet enough for measurements now? To find out, a roof's kernel is compared with
itself. The true ratio is 100 % on any machine, so the width of the interval shows the error.

Called by runner.py at the start and the end of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from _bench.rows import stats

from . import timing
from .interleaved_roofs import TimedKernel, rounds
from .probes import Gauges
from .stop_rule import StopRule

# The self-test divides a kernel's rate by its own rate. If the interval of this ratio is not within
# 97 % to 103 %, the machine is busy.
AGREES = 0.03
# limits of the self-test's time: in seconds, and as a share of a row's time
MOST_S, SHARE_OF_ROW = 0.5, 0.1
LAUNCH_NS = 1_500_000.0


@dataclass(frozen=True)
class SelfTest:
    """The result of a self-test: the speed of a roof's kernel relative to the same kernel. The true
    ratio is 100 % on any machine.
    """

    kernel: str
    ratio: stats.Summary
    rate: float

    @property
    def agrees(self) -> bool:
        """True if the whole interval of `ratio` lies between 97 % and 103 %."""
        return self.ratio.low >= 1 - AGREES and self.ratio.high <= 1 + AGREES

    def as_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "percent": 100 * self.ratio.median,
            "ci_low_percent": 100 * self.ratio.low,
            "ci_high_percent": 100 * self.ratio.high,
            "agrees": self.agrees,
            "gflops": self.rate,
        }


def run(gauges: Gauges, clock: Callable[[], float] = time.monotonic) -> SelfTest | None:
    """Makes a self-test with a loop of FMAs, in f32 or else in f64. Returns None if the device has
    neither loop, or if the time allows too few rounds for an interval.
    """
    with ExitStack() as stack:
        make = partial(gauges.fma, LAUNCH_NS, 1, stack)
        for kind in ("f32", "f64"):
            if len(twins := [p for _ in range(2) for p in gauges.probes(kind, make)]) == 2:
                break
        else:
            return None
        row, other = (TimedKernel(probe.sampler) for probe in twins)
        rule = StopRule(AGREES / 2, min(MOST_S, SHARE_OF_ROW * gauges.settings.timeout_s))
        timing.warm_up(row.sampler, rule, clock)
        rng = np.random.default_rng(gauges.settings.seed)
        rounds(row, {"": other}, rule, rng, clock)
        for probe in twins:
            probe.close()
        if len(row.times) < stats.FEWEST_FOR_INTERVAL:
            return None
        rates = [[p.work / ns for ns in r.times] for p, r in zip(twins, (row, other), strict=True)]
        return SelfTest(twins[0].kernel, stats.paired(*rates), float(np.median(rates[1])))


def words(tests: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the text of a heading about the self-tests at the start and at the end of a run.
    `tests` has each of them in the form of `SelfTest.as_json`.
    """
    percents = [f"{t['ci_low_percent']:.0f}..{t['ci_high_percent']:.0f}" for t in tests.values()]
    busy = not all(test["agrees"] for test in tests.values())
    return f"{'machine busy: ' if busy else ''}self-test {' and '.join(percents)} %"
