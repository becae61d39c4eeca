"""The shift of a row: how much its time changed from one results file to another, and the verdict.

Neighbours on a machine only add time, so the fastest samples show what the kernel itself takes. A
process also has pages, cores and neighbours of its own from its start to its end. They shift even
its fastest samples, and no sample of this process tells by how much. They shift the other quick
samples more. So the distance of those from the fastest is the doubt. A kernel whose quickest tenth
lies within 2 % is compared within 2 %. Beside other work the doubt of a cpu's row is WAKING_NS at
least. There a scheduler decides for a whole process how late the second thread of each launch runs.

A reference is a probe that ran in the rounds of both rows. Its shift is the shift of the machine.
Called by compare.py; versus.py calls `rivals`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import stats

THRESHOLD = 0.05
DRAWS = 500
FASTEST, QUICK, FEWEST = 0.02, 0.1, 2
"""Quantiles of a row's times, FEWEST samples below the first. The doubt is the distance of the two.
"""
BUSY_PERCENT, WAKING_NS = 25.0, 25_000.0
"""From this share of all cores' time in other processes on, launches may start so late. The fastest
times of a product of 256x256 were 155 us in some processes and 180 us in others, beside two busy
loops; on a quiet machine 148 to 155 us (101 and 10 processes, two cores of an AMD EPYC). Without
this doubt 3 of 300 rows that were compared with themselves were SLOW (benchmarks/self_compare.py).
"""
Samples = Sequence[float] | stats.Floats


@dataclass(frozen=True)
class Shift:
    """A relative change, 0.1 for 10 % longer, and its interval."""

    middle: float
    low: float
    high: float

    def within(self, threshold: float) -> bool:
        return -threshold <= self.low and self.high <= threshold

    def beside(self, machine: Shift) -> Shift:
        """The part of it that the shift of the machine does not explain."""
        return Shift(
            (1 + self.middle) / (1 + machine.middle) - 1,
            (1 + self.low) / (1 + machine.high) - 1,
            (1 + self.high) / (1 + machine.low) - 1,
        )


@dataclass(frozen=True)
class Judged:
    """The verdict of a row. `shift` is beside the reference. `machine` is the shift of the
    reference, None if the files have no common one.
    """

    verdict: str
    shift: Shift
    p: float
    machine: float | None


def judge(old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> Judged:
    """Compares a row of two files. SLOW and FAST: the row's fastest times moved beyond the
    threshold, by themselves and beside the reference. SAME: neither they nor the medians did.
    """
    a, b = np.array(old["samples_ns"]), np.array(new["samples_ns"])
    at = _quantiles(min(a.size, b.size))
    own, p = _fastest(a, b, at[0]), stats.mann_whitney(*map(stats.blocks, (a, b)))
    fastest_ns = float(min(np.quantile(s, at[0]) for s in (a, b)))
    own = _widened(own, max(_doubt(at, a, b), *(_late(row, fastest_ns) for row in (old, new))))
    common = [k for k in old.get("probes") or () if k in (new.get("probes") or ())]
    if not common:
        return Judged(_verdict(own, own, _typical(a, b), threshold), own, p, None)

    def times(kernel: str) -> tuple[stats.Floats, stats.Floats]:
        return 1 / np.array(old["probes"][kernel]), 1 / np.array(new["probes"][kernel])

    reference = min(common, key=lambda kernel: _doubt(at, *times(kernel)))
    was, now = times(reference)
    machine = _fastest(was, now, at[0])
    # One thread may run as before while all threads get fewer cores, and the row runs on all.
    variants = [k for k in common if k.split(", ")[0] == reference.split(", ")[0]]
    middles = [own.beside(_fastest(*times(k), at[0])).middle for k in variants]
    beside = own.beside(machine)
    beside = Shift(beside.middle, min(beside.low, *middles), max(beside.high, *middles))
    verdict = _verdict(own, beside, _typical(a / was, b / now), threshold)
    return Judged(verdict, beside, p, machine.middle)


def rivals(first: Samples, second: Samples, threshold: float) -> Judged:
    """Compares two kernels whose samples were taken in turns: the machine met both alike, so the
    medians tell.
    """
    found, p = _typical(first, second), stats.mann_whitney(*map(stats.blocks, (first, second)))
    return Judged(_verdict(found, found, found, threshold), found, p, None)


def _verdict(own: Shift, beside: Shift, typical: Shift, threshold: float) -> str:
    if min(own.low, beside.low) > threshold:
        return "SLOW"
    if max(own.high, beside.high) < -threshold:
        return "FAST"
    return "SAME" if beside.within(threshold) and typical.within(threshold) else "AMBIGUOUS"


def _typical(was: Samples, now: Samples) -> Shift:
    """The shift of the medians."""
    was, now = stats.blocks(was), stats.blocks(now)
    low, high = stats.ratio_interval(was, now)
    return Shift(float(np.median(now) / np.median(was)) - 1, low - 1, high - 1)


def _quantiles(samples: int) -> tuple[float, float]:
    """The quantiles of the fastest and of the quick samples; the median at most."""
    fastest = max(FASTEST, FEWEST / samples)
    return min(fastest, 0.5), min(fastest * QUICK / FASTEST, 0.5)


def _fastest(was: stats.Floats, now: stats.Floats, quantile: float) -> Shift:
    """The shift of the fastest times. The bootstrap draws whole stretches, because disturbances
    last for many samples.
    """
    rng = np.random.default_rng(0)
    again = _drawn(rng, now, quantile) / _drawn(rng, was, quantile)
    low, high = np.quantile(again, (0.025, 0.975))
    middle = float(np.quantile(now, quantile) / np.quantile(was, quantile))
    return Shift(middle - 1, min(float(low), middle) - 1, max(float(high), middle) - 1)


def _drawn(rng: np.random.Generator, samples: stats.Floats, quantile: float) -> stats.Floats:
    """The fastest times of DRAWS resamples."""
    stretches = min(stats.BLOCKS, samples.size)
    length = samples.size // stretches
    cut = samples[: stretches * length].reshape(stretches, length)
    draws = cut[rng.integers(stretches, size=(DRAWS, stretches))]
    return np.quantile(draws.reshape(DRAWS, -1), quantile, axis=1)


def _widened(shift: Shift, doubt: float) -> Shift:
    return Shift(
        shift.middle, (1 + shift.low) / (1 + doubt) - 1, (1 + shift.high) * (1 + doubt) - 1
    )


def _late(row: Mapping[str, Any], fastest_ns: float) -> float:
    """How much longer a launch may take because a thread starts late: twice as long at most, as
    the other thread does its work.
    """
    others = row["noise"]["others_percent"] if row.get("noise") else None
    busy = others is not None and others >= BUSY_PERCENT
    return min(WAKING_NS / fastest_ns, 1.0) if busy and row["device"] == "cpu" else 0.0


def _doubt(at: tuple[float, float], *samples: stats.Floats) -> float:
    """The distance of the quick samples from the fastest, in the file where it is larger."""
    ends = [np.quantile(s, at) for s in samples]
    return max(float(quick / fastest) - 1 for fastest, quick in ends)
