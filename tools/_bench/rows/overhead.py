"""The cost of a launch beyond the device's own time, for each way of submission.

    sync       each launch is submitted and waited for
    batched    many dispatches in one command list, one submission, one wait
    pipelined  a ring of slots kept full

This module only computes: pipeline_mode.py takes the samples; results.py, report/row_table.py and
writers.py show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import stats

SYNC = "sync"
WAYS = (SYNC, "batched", "pipelined")
QUANTITIES = ("overhead", "host", "device")
Ratio = tuple[float, float | None, float | None]  # a ratio and its 95 % interval, if any


@dataclass(frozen=True)
class Way:
    """Samples of launches that were submitted in one of WAYS, in ns per launch. `host` and `device`
    are two clocks; their samples with the same index belong to the same launches.
    """

    host: Sequence[float]
    device: Sequence[float]

    @property
    def overhead(self) -> Sequence[float]:
        return [host - device for host, device in zip(self.host, self.device, strict=True)]

    def samples(self, quantity: str) -> Sequence[float]:
        found: Sequence[float] = getattr(self, quantity)
        return found


@dataclass(frozen=True)
class Overhead:
    """The samples of all ways to submit a launch ("sync", "batched" and "pipelined"), taken in
    turns on the same operands. `batch` is the number of launches per sample.
    """

    ways: Mapping[str, Way]
    batch: int

    def summary(self, way: str, quantity: str) -> stats.Summary:
        """Returns the median of the samples, with its interval, in ns per launch. `way` is "sync",
        "batched" or "pipelined", `quantity` is "overhead", "host" or "device".
        """
        return stats.summarize(self.ways[way].samples(quantity))

    def of_sync(self, way: str, quantity: str) -> Ratio | None:
        """Returns the median of `quantity` for `way`, divided by that for "sync", the way that
        waits for each launch. `way` is "sync", "batched" or "pipelined", `quantity` is "overhead",
        "host" or "device".

        With too few samples the ratio has no interval. Returns None for "sync" itself, and when the
        interval of "sync" reaches zero.
        """
        base, own = self.summary(SYNC, quantity), self.summary(way, quantity)
        if way == SYNC or base.low <= 0:
            return None
        if own.n < stats.FEWEST_FOR_INTERVAL:
            return own.median / base.median, None, None
        sync, other = (self.ways[name].samples(quantity) for name in (SYNC, way))
        low, high = stats.ratio_interval(sync, other)
        return own.median / base.median, low, high

    def as_json(self) -> dict[str, Any]:
        """Returns the value of a row's "overhead" key."""
        return {"batch": self.batch, **{way: self._way(way) for way in WAYS}}

    def _way(self, way: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for quantity in QUANTITIES:
            made[f"{quantity}_ns"] = stats.rounded(self.summary(way, quantity))
            ratio = self.of_sync(way, quantity)
            names = ("ratio", "ci_low", "ci_high")
            made[f"{quantity}_of_sync"] = (
                None if ratio is None else dict(zip(names, ratio, strict=True))
            )
        for clock in ("host", "device"):
            samples = self.ways[way].samples(clock)
            made[f"{clock}_samples_ns"] = [round(sample, 2) for sample in samples]
        return made

    def flat(self) -> dict[str, float | None]:
        """Returns the medians, their intervals and the ratios by the names of their columns in a
        CSV file (CSV_COLUMNS).
        """
        cells: dict[str, float | None] = {}
        for way in WAYS:
            for quantity in QUANTITIES:
                s = self.summary(way, quantity)
                name = f"{way}_{quantity}"
                cells |= {f"{name}_ns": s.median}
                cells |= {f"{name}_ci_low_ns": s.low, f"{name}_ci_high_ns": s.high}
            if way != SYNC:
                ratio = self.of_sync(way, "overhead") or (None, None, None)
                ends = ("of_sync", "of_sync_ci_low", "of_sync_ci_high")
                cells |= {f"{way}_{end}": r for end, r in zip(ends, ratio, strict=True)}
        return cells


CSV_COLUMNS = tuple(Overhead(dict.fromkeys(WAYS, Way([1.0], [0.5])), 1).flat())
