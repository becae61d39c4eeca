"""Compares plans for randomly drawn machines (benchmarks/_inside/shards) with two times: the lower
bound of each plan, and a simulated run of the plan.
"""

from __future__ import annotations

from statistics import mean

from _inside.shards.plan_quality import judged, reached
from _mesh.figures import Figures

from .options import Options

RATES = (100, 40, 20, 5)


def simulated(options: Options) -> Figures:
    """Returns the plans' gaps to their bound. Also returns ratios: the time of a simulated run of a
    plan divided by the predicted time. Nothing is timed.
    """
    gaps, ratios = zip(*map(judged, range(options.seeds)), strict=True)
    parts = [reached(RATES, seed) for seed in range(options.seeds)]
    machines, named = (
        f"{options.seeds} drawn machines",
        "rates of 100, 40, 20 and 5, ideal / played",
    )
    return {
        f"gap to the bound, %, {machines}, mean": 100 * mean(gaps),
        f"gap to the bound, %, {machines}, worst": 100 * max(gaps),
        f"played / predicted, {machines}, least": min(ratios),
        f"played / predicted, {machines}, most": max(ratios),
        f"{named}, as planned": reached(RATES),
        f"{named}, up to 20 % wrong, mean of {options.seeds}": mean(parts),
        f"{named}, up to 20 % wrong, worst of {options.seeds}": min(parts),
    }
