"""Machines to split work for, drawn from a seed, and the same machines with other rates. This
module does not know the planner.

`drawn` draws 2 to 8 unequal devices, and work that takes at least 2 ms on the fastest. player.py
simulates plans for these machines.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.shard.site import NO_TIME, Site

MOST_RATIO = 50.0
"""Largest ratio of the fastest device to the slowest."""
LEAST_S, MOST_S = 2e-3, 0.5
"""Seconds of the whole work on the fastest device, without transfers."""


@dataclass(frozen=True)
class ShardMachine:
    """Devices, and the units of work to split."""

    sites: tuple[Site, ...]
    count: int


def drawn(seed: int, least: int = 2, most: int = 8) -> ShardMachine:
    """Returns a machine of `least` to `most` devices. The same seed gives the same machine."""
    chance = random.Random(seed)

    def log(low: float, high: float) -> float:
        return math.exp(chance.uniform(math.log(low), math.log(high)))

    count, n = round(log(256, 8192)), chance.randint(least, most)
    whole_s = log(LEAST_S, MOST_S)
    # The first device, the fastest, needs `whole_s` for all units. Copying the operands and results
    # of all units at 5 GB/s would take 0.01 to 1 times as long.
    unit_nbytes = round(log(0.01, 1.0) * whole_s * 5e9 / count)
    in_part = chance.uniform(0.1, 0.9)
    fixed_nbytes = round(log(0.01, 0.3) * whole_s * 5e9) if chance.random() < 0.7 else 0
    sites = []
    for number in range(n):
        slower = 1.0 if not number else log(1.0, MOST_RATIO)
        compute = Line(log(1e-6, 20e-6), whole_s * slower / count)
        far = chance.random() < 0.6
        bring, fetch = NO_TIME, NO_TIME
        if far:
            bring = Line(log(10e-6, 100e-6), 1 / log(0.1e9, 20e9))
            fetch = Line(log(10e-6, 100e-6), bring.b * log(0.8, 1.25))
        shares = (chance.choice(("cores", "card")),) if chance.random() < 0.25 else ()
        in_nbytes, out_nbytes = unit_nbytes * in_part, unit_nbytes * (1 - in_part)
        memory = 0
        if number and chance.random() < 0.2:
            memory = round(fixed_nbytes + unit_nbytes * count * chance.uniform(0.02, 0.5))
        site = Site(
            f"device:{number}", compute, bring, fetch, fixed_nbytes, in_nbytes, out_nbytes, memory,
            shares, log(1e-5, 0.2 * whole_s) if chance.random() < 0.1 else 0.0,
        )  # fmt: skip
        sites.append(site)
    chance.shuffle(sites)
    return ShardMachine(tuple(sites), count)


def wrong(sites: Sequence[Site], seed: int, error: float = 0.2) -> tuple[Site, ...]:
    """Returns `sites` with other rates: each device is faster or slower by at most `error`."""
    chance = random.Random(seed)
    others = []
    for site in sites:
        factor = 1 / chance.uniform(1 - error, 1 + error)
        compute = Line(site.compute.a * factor, site.compute.b * factor)
        others.append(replace(site, compute=compute))
    return tuple(others)
