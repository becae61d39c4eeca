"""Plans of all_reduce by their lower bound (sparkle_drv/mesh/collective/bound.py): predictions."""

from __future__ import annotations

import math
import time
from statistics import mean

from sparkle_drv.testing import planned
from sparkle_drv.testing.collectives import star, unequal

from .figures import KIB, MIB, Figures, Options

LATENCY_S = 20e-6
KNOWN = {
    "4 equal ports of 50 MB/s": [50e6] * 4,
    "8 equal ports of 1 GB/s": [1e9] * 8,
    "ports of 50, 50, 50, 12.5 MB/s": [50e6, 50e6, 50e6, 12.5e6],
    "ports of 50, 50, 25, 25 MB/s": [50e6, 50e6, 25e6, 25e6],
}


def plans(options: Options) -> Figures:
    """Shares of the bound at 64 MiB; 4 KiB by messages in turn; sizes by the best algorithm."""
    found: Figures = {}
    for name, rates in KNOWN.items():
        found[f"bound / predicted, 64 MiB, {name}"] = planned.all_reduce_reached(
            star(rates, LATENCY_S), 64 * MIB
        )
    begin = time.perf_counter()
    reached = [planned.all_reduce_reached(unequal(seed), 64 * MIB) for seed in range(options.sets)]
    spent_s = time.perf_counter() - begin
    if reached:
        found[f"bound / predicted, 64 MiB, {options.sets} unequal sets, mean"] = mean(reached)
        found[f"bound / predicted, 64 MiB, {options.sets} unequal sets, worst"] = min(reached)
        found["seconds to plan one of them, mean"] = spent_s / options.sets
    found["predicted / messages that must follow, 4 KiB, 2 to 16 places, worst"] = max(
        planned.all_reduce_s(star([1e9] * p, LATENCY_S), 4 * KIB) / _least_s(p)
        for p in range(2, 17)
    )
    found["predicted / best algorithm alone, 1 KiB to 256 MiB, worst"] = max(
        planned.all_reduce_over_best(unequal(seed, most=5), KIB << shift)
        for seed in range(3)
        for shift in range(0, 19, 3)
    )
    return found


def _least_s(places: int) -> float:
    """log2 p messages of 4 KiB at 1 GB/s in turn; log2 p rounded down, + 2, where p is no power of
    two.
    """
    rounds = int(math.log2(places))
    return (rounds if places == 1 << rounds else rounds + 2) * (LATENCY_S + 4 * KIB / 1e9)
