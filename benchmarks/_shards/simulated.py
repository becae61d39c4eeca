"""Plans on drawn machines (sparkle_drv/testing/shards): by their bound, and by who plays them."""

from __future__ import annotations

from statistics import mean

from _mesh.figures import Figures

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Port
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.site import Site
from sparkle_drv.testing.shards.machines import drawn, wrong
from sparkle_drv.testing.shards.player import played_s

from .options import Options

RATES = (100, 40, 20, 5)
UNITS, UNIT_S = 4096, 1e-4
"""Of the work for RATES: the seconds are those of a unit at a rate of 1."""


def simulated(options: Options) -> Figures:
    """Figures of plans; nothing is timed."""
    gaps, ratios = [], []
    for seed in range(options.seeds):
        m = drawn(seed)
        plan = plan_shares(m.sites, m.count, m.host)
        gaps.append(plan.gap)
        ratios.append(played_s(plan, m.sites, m.sites, m.host) / plan.predicted_s)
    sites = [Site(f"rate:{rate}", Line(0.0, UNIT_S / rate)) for rate in RATES]
    plan, named = plan_shares(sites, UNITS), "rates of 100, 40, 20 and 5, ideal / played"
    parts = []
    for seed in range(options.seeds):
        true = wrong(sites, seed)
        parts.append(_ideal_s(true) / played_s(plan, sites, true, Port()))
    machines = f"{options.seeds} drawn machines"
    return {
        f"gap to the bound, %, {machines}, mean": 100 * mean(gaps),
        f"gap to the bound, %, {machines}, worst": 100 * max(gaps),
        f"played / predicted, {machines}, least": min(ratios),
        f"played / predicted, {machines}, most": max(ratios),
        f"{named}, as planned": _ideal_s(sites) / played_s(plan, sites, sites, Port()),
        f"{named}, up to 20 % wrong, mean of {options.seeds}": mean(parts),
        f"{named}, up to 20 % wrong, worst of {options.seeds}": min(parts),
    }


def _ideal_s(sites: list[Site] | tuple[Site, ...]) -> float:
    """Seconds if all devices work all the time."""
    return UNITS / sum(1 / site.compute.b for site in sites)
