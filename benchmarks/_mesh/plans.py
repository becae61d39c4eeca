"""Compares the predicted time of all_reduce's plans with their lower bound
(sparkle_drv/mesh/collective/bound.py).
"""

from __future__ import annotations

import math
import random
import time
from statistics import mean

from _inside import mesh_plan_quality
from _inside.collectives import linked, star, unequal

from .figures import KIB, MIB, Figures, Options

LATENCY_S = 20e-6
KNOWN = {
    "4 equal ports of 50 MB/s": [50e6] * 4,
    "8 equal ports of 1 GB/s": [1e9] * 8,
    "ports of 50, 50, 50, 12.5 MB/s": [50e6, 50e6, 50e6, 12.5e6],
    "ports of 50, 50, 25, 25 MB/s": [50e6, 50e6, 25e6, 25e6],
}


def plans(options: Options) -> Figures:
    """Returns figures of the plans of all_reduce by name, such as a bound divided by the predicted
    time, or the seconds of planning.
    """
    found: Figures = {}
    sets, simulate = options.sets, options.simulate
    for name, rates in KNOWN.items():
        for what, value in _reached(rates, simulate).items():
            found[f"{what}, 64 MiB, {name}"] = value
    drawn = [unequal(seed) for seed in range(sets)]
    reached = [_reached([one.ports[p].send for p in one.places], simulate) for one in drawn]
    for what in reached[0] if reached else ():
        values = [one[what] for one in reached]
        worst = max if what == "seconds to plan" else min
        found[f"{what}, 64 MiB, {sets} unequal sets, mean"] = mean(values)
        found[f"{what}, 64 MiB, {sets} unequal sets, worst"] = worst(values)
    if simulate and sets:
        ratios = [_simulated(seed) for seed in range(sets)]
        found[f"simulated / predicted, {sets} machines of pair links and ports, least"] = min(
            ratios
        )
        found[f"simulated / predicted, {sets} machines of pair links and ports, most"] = max(ratios)
    found["predicted / messages that must follow, 4 KiB, 2 to 16 places, worst"] = max(
        mesh_plan_quality.all_reduce_s(star([1e9] * p, LATENCY_S), 4 * KIB) / _least_s(p)
        for p in range(2, 17)
    )
    found["predicted / best algorithm alone, 1 KiB to 256 MiB, 3 sets, worst"] = max(
        mesh_plan_quality.all_reduce_over_best(unequal(seed, most=5), KIB << shift)
        for seed in range(3)
        for shift in range(0, 19, 3)
    )
    return found


def _reached(rates: list[float], simulate: bool) -> dict[str, float]:
    """Returns ratios of an all_reduce of 64 MiB, and the seconds of planning it.

    Two ratios divide a lower bound by the predicted time. The first bound is the plan's own; the
    second is the known bound, which follows from the ports' rates alone. With `simulate` a third
    ratio divides the known bound by the time of a simulated run.
    """
    network = star(rates, LATENCY_S)
    begin = time.perf_counter()
    plan = mesh_plan_quality.all_reduce(network, 64 * MIB)
    spent_s = time.perf_counter() - begin
    known_s = mesh_plan_quality.known_bound_s(rates, 64 * MIB)
    found = {
        "bound / predicted": plan.bound_s / plan.predicted_s,
        "known bound / predicted": known_s / plan.predicted_s,
        "seconds to plan": spent_s,
    }
    if simulate:
        slow = star([rate / 16 for rate in rates], LATENCY_S)
        found["known bound / simulated"] = (
            known_s / mesh_plan_quality.all_reduce_simulated_s(slow, 4 * MIB)[0]
        )
    return found


def _simulated(seed: int) -> float:
    """Returns a ratio: the simulated time of an all_reduce divided by the predicted time."""
    nbytes = 4 * random.Random(seed).choice([1, 250, 4096, 50_000, 262_144])
    took_s, predicted_s = mesh_plan_quality.all_reduce_simulated_s(linked(seed), nbytes)
    return took_s / predicted_s


def _least_s(places: int) -> float:
    """Returns the least seconds of an all_reduce of 4 KiB among p = `places` devices at 1 GB/s. The
    all_reduce needs log2 p messages, one after the other. If p is not a power of two, it
    needs floor(log2 p) + 2 messages.
    """
    rounds = int(math.log2(places))
    return (rounds if places == 1 << rounds else rounds + 2) * (LATENCY_S + 4 * KIB / 1e9)
