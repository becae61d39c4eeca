"""Turns samples into medians, ratios with intervals, the best peer and geometric means. Pure
functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from _bench.rows import stats

from . import OURS

Row = Mapping[str, Any]
ROUNDS = 1000


@dataclass(frozen=True)
class Ratio:
    """The peer's median time divided by this package's: above 1 this package is faster.

    `low` and `high` bound the ratio's 95 % interval. A peer may compute a case in several ways.
    `of` names the way that was compared, such as "torch packed".
    """

    value: float
    low: float
    high: float
    of: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"ratio": self.value, "low": self.low, "high": self.high, "of": self.of}


def timed(row: Row) -> dict[str, list[float]]:
    """Returns the samples, in ns, of each way of computing the row that gave a right result."""
    return {
        way: entry["samples_ns"]
        for way, entry in row["ways"].items()
        if entry["verdict"] == "right" and entry["samples_ns"]
    }


def median(row: Row, way: str) -> float | None:
    """Returns the median ns of the way of computing named `way`, or None if it has no samples."""
    samples = timed(row).get(way)
    return float(np.median(samples)) if samples else None


def fastest(row: Row, among: Callable[[str], bool]) -> str | None:
    """Returns the name of the way (`Way` of base.py) with the smallest median time. Only ways whose
    name `among` accepts take part. Returns None if there is none.
    """
    found = {way: np.median(samples) for way, samples in timed(row).items() if among(way)}
    return min(found, key=lambda way: float(found[way])) if found else None


def is_peer(way: str) -> bool:
    """True if `way`, the name of a way of computing, belongs to a peer, not to this package."""
    return not way.startswith(f"{OURS} ")


def ratio(row: Row, theirs: str | None, ours: str = f"{OURS} checked") -> Ratio | None:
    """Returns a ratio of median times: `theirs` divided by `ours`, which name ways to compute the
    row. Returns None if one of them was not timed.
    """
    samples = timed(row)
    if theirs is None or theirs not in samples or ours not in samples:
        return None
    low, high = stats.ratio_interval(samples[ours], samples[theirs])
    value = float(np.median(samples[theirs]) / np.median(samples[ours]))
    return Ratio(value, low, high, theirs)


def against_best(row: Row) -> Ratio | None:
    """Returns the median time of this row's fastest peer divided by this package's."""
    return ratio(row, fastest(row, is_peer))


def against(row: Row, peer: str) -> Ratio | None:
    """Returns a peer's median time divided by this package's. The peer's time is that of its
    fastest way whose name begins with `peer`, such as "torch" or "torch NCHW".
    """
    whole = (peer, f"{peer} ")
    return ratio(row, fastest(row, lambda way: way == whole[0] or way.startswith(whole[1])))


def geometric(rows: Sequence[Row], peer: str) -> Ratio | None:
    """Returns the geometric mean of the ratios against `peer`, or against each row's best peer if
    `peer` is "". The interval comes from resampling the samples of every row. Returns None if no
    row has times of both the peer and this package.
    """
    logs, value, count = np.zeros(ROUNDS), 0.0, 0
    for row in rows:
        one = against(row, peer) if peer else against_best(row)
        if one is None:
            continue
        samples = timed(row)
        rng = np.random.default_rng(count)
        logs += np.log(
            stats.resampled_medians(rng, np.asarray(samples[one.of], np.float64), ROUNDS)
            / stats.resampled_medians(rng, np.asarray(samples[f"{OURS} checked"]), ROUNDS)
        )
        value, count = value + math.log(one.value), count + 1
    if not count:
        return None
    low, high = np.exp(np.quantile(logs / count, [0.025, 0.975]))
    return Ratio(math.exp(value / count), float(low), float(high), peer or "the best peer")


def least(ratios: Iterable[tuple[str, Ratio | None]]) -> tuple[str, Ratio] | None:
    """Returns the (name, ratio) with the lowest ratio, or None if all ratios are missing."""
    there = [(name, one) for name, one in ratios if one is not None]
    return min(there, key=lambda pair: pair[1].value) if there else None
