"""The shift of a row: how much its time changed from one results file to another, and the verdict.

Other programs on a machine only add time, so the fastest samples (the quantile FASTEST) show what
the kernel itself takes. Yet each process has its own pages, cores and disturbances from its start
to its end. These shift even the fastest samples, and no sample of the process tells by how much.
They shift the quick samples (the quantile QUICK) more. The relative distance of the two quantiles
therefore serves as the uncertainty: where it is 2 %, changes below 2 % do not count.

While other programs use the cores, the uncertainty of a cpu's row is at least WAKING_NS. The
operating system's scheduler then decides how late the second thread of each launch runs, and this
delay is the same for a whole process.

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
"""Quantiles of the fastest and of the quick times of a row; at least FEWEST samples are below
the first. The distance of the two quantiles is the uncertainty."""
BUSY_PERCENT, WAKING_NS = 25.0, 25_000.0
"""If other processes take this share of all cores' time or more, launches may start so late. The
fastest times of a product of 256x256 were 155 us in some processes and 180 us in others, beside two
busy loops; on a quiet machine they were 148 to 155 us (101 and 10 processes, two cores of an AMD
EPYC). In two series benchmarks/self_compare.py compared 600 rows with themselves and 40 with 15 %
more work. With this uncertainty and all variants of the reference, none of the 600 and 37 of the 40
were SLOW; without them 8 of the 600 and 38 of the 40.
"""
Samples = Sequence[float] | stats.Floats


@dataclass(frozen=True)
class Shift:
    """A relative change with its interval: 0.1 means 10 % longer."""

    middle: float
    low: float
    high: float

    def within(self, threshold: float) -> bool:
        return -threshold <= self.low and self.high <= threshold

    def beside(self, machine: Shift) -> Shift:
        """Returns the change of the row relative to `machine`, the change of a reference that
        ran beside it: what is left is the change of the kernel.
        """
        return Shift(
            (1 + self.middle) / (1 + machine.middle) - 1,
            (1 + self.low) / (1 + machine.high) - 1,
            (1 + self.high) / (1 + machine.low) - 1,
        )


@dataclass(frozen=True)
class Judged:
    """The verdict of a row. `shift` is the relative change of the row's time; the change of the
    reference, if any, is divided out. `machine` is the relative change of the reference's time, or
    None if the files have no common reference.
    """

    verdict: str
    shift: Shift
    p: float
    machine: float | None


def judge(old: Mapping[str, Any], new: Mapping[str, Any], threshold: float) -> Judged:
    """Compares a row of two files. SLOW or FAST: the row's fastest times changed by more than the
    threshold, both alone and relative to the reference. SAME: relative to the reference, fastest
    times and medians changed by at most the threshold. AMBIGUOUS: all else.
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
    # The reference may run on one thread and the row on all threads. If the machine gives fewer
    # cores, only the row slows down. The interval therefore also covers the shifts relative to the
    # reference's kernel on every other number of threads.
    variants = [k for k in common if k.split(", ")[0] == reference.split(", ")[0]]
    middles = [own.beside(_fastest(*times(k), at[0])).middle for k in variants]
    beside = own.beside(machine)
    beside = Shift(beside.middle, min(beside.low, *middles), max(beside.high, *middles))
    verdict = _verdict(own, beside, _typical(a / was, b / now), threshold)
    return Judged(verdict, beside, p, machine.middle)


def rivals(first: Samples, second: Samples, threshold: float) -> Judged:
    """Compares the median times of two kernels whose samples were taken in turns. A change of the
    machine's speed affects both alike, so no reference is needed.
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
    """Returns the relative change of the median time from `was` to `now`, with its interval."""
    was, now = stats.blocks(was), stats.blocks(now)
    low, high = stats.ratio_interval(was, now)
    return Shift(float(np.median(now) / np.median(was)) - 1, low - 1, high - 1)


def _quantiles(samples: int) -> tuple[float, float]:
    """Returns the quantiles FASTEST and QUICK for a row with this number of samples. Few samples
    raise both, so that FEWEST samples lie below the first; neither exceeds 0.5, the median.
    """
    fastest = max(FASTEST, FEWEST / samples)
    return min(fastest, 0.5), min(fastest * QUICK / FASTEST, 0.5)


def _fastest(was: stats.Floats, now: stats.Floats, quantile: float) -> Shift:
    """Returns the shift of the fastest times: by how much the quantile `quantile` changed. The
    bootstrap draws whole blocks of consecutive samples, because a disturbance lasts for many.
    """
    rng = np.random.default_rng(0)
    again = _drawn(rng, now, quantile) / _drawn(rng, was, quantile)
    low, high = np.quantile(again, (0.025, 0.975))
    middle = float(np.quantile(now, quantile) / np.quantile(was, quantile))
    return Shift(middle - 1, min(float(low), middle) - 1, max(float(high), middle) - 1)


def _drawn(rng: np.random.Generator, samples: stats.Floats, quantile: float) -> stats.Floats:
    """Returns the quantile `quantile` of each of DRAWS resamples (bootstrap by blocks)."""
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
    """Returns the share of its time by which a launch on a busy CPU may take longer because its
    second thread starts late. The share is at most 1: even if that thread never starts, the first
    one does all the work. On an idle CPU or another device the share is 0.
    """
    others = (row.get("noise") or {}).get("others_percent")
    busy = others is not None and others >= BUSY_PERCENT
    return min(WAKING_NS / fastest_ns, 1.0) if busy and row["device"] == "cpu" else 0.0


def _doubt(at: tuple[float, float], *samples: stats.Floats) -> float:
    """Returns the uncertainty of a row: the relative distance between two quantiles of its samples.
    `at` has the two quantiles (fastest, quick). Of the distances in the two files, the larger
    counts.
    """
    ends = [np.quantile(s, at) for s in samples]
    return max(float(quick / fastest) - 1 for fastest, quick in ends)
