"""From samples to medians, ratios with intervals, the best peer, geometric means. Pure."""

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
    """A ratio of medians, theirs over ours: above 1 we are faster. `low` and `high` hold it with 95
    %. `of` is the peer's way."""

    value: float
    low: float
    high: float
    of: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"ratio": self.value, "low": self.low, "high": self.high, "of": self.of}


def timed(row: Row) -> dict[str, list[float]]:
    """The samples, in ns, of each correct way."""
    return {
        way: entry["samples_ns"]
        for way, entry in row["ways"].items()
        if entry["verdict"] == "right" and entry["samples_ns"]
    }


def median(row: Row, way: str) -> float | None:
    """ns. None: a way without samples."""
    samples = timed(row).get(way)
    return float(np.median(samples)) if samples else None


def fastest(row: Row, among: Callable[[str], bool]) -> str | None:
    """The way with the smallest median among those whose key `among` accepts."""
    found = {way: np.median(samples) for way, samples in timed(row).items() if among(way)}
    return min(found, key=lambda way: float(found[way])) if found else None


def is_peer(way: str) -> bool:
    """Is it a peer's way?"""
    return not way.startswith(f"{OURS} ")


def ratio(row: Row, theirs: str | None, ours: str = f"{OURS} checked") -> Ratio | None:
    """Median of `theirs` over that of `ours`. None: one of them was not timed."""
    samples = timed(row)
    if theirs is None or theirs not in samples or ours not in samples:
        return None
    low, high = stats.ratio_interval(samples[ours], samples[theirs])
    value = float(np.median(samples[theirs]) / np.median(samples[ours]))
    return Ratio(value, low, high, theirs)


def against_best(row: Row) -> Ratio | None:
    """Ours against the fastest peer of this row."""
    return ratio(row, fastest(row, is_peer))


def against(row: Row, peer: str) -> Ratio | None:
    """Ours against the fastest way that begins with `peer`: "torch" or "torch NCHW"."""
    whole = (peer, f"{peer} ")
    return ratio(row, fastest(row, lambda way: way == whole[0] or way.startswith(whole[1])))


def geometric(rows: Sequence[Row], peer: str) -> Ratio | None:
    """The geometric mean of the ratios against `peer` ("": the best of each row). Its interval
    comes from resampling every row's samples. None: no row has both."""
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
    """The case with the lowest ratio."""
    there = [(name, one) for name, one in ratios if one is not None]
    return min(there, key=lambda pair: pair[1].value) if there else None
