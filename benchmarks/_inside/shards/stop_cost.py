"""The time of a run in which one device stops or slows down, relative to an ideal run. A seed
draws the devices and the moment of the stop.
"""

from __future__ import annotations

import math
import random

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.site import Site

from .player import Stop, played_s


def near(seed: int, ratio: float) -> tuple[list[Site], int, random.Random]:
    """Returns 2 to 8 devices that need no transfers, the number of units of a call, and the random
    generator for further draws. The rates of the devices differ by a factor of at most `ratio`. The
    call takes 2 ms or more.
    """
    chance = random.Random(seed)

    def log(low: float, high: float) -> float:
        return math.exp(chance.uniform(math.log(low), math.log(high)))

    n, count, whole_s = chance.randint(2, 8), round(log(256, 8192)), log(2e-3, 0.5)
    each = [whole_s * (log(1, ratio) if at else 1) * n / count for at in range(n)]
    sites = [Site(f"d:{at}", Line(log(1e-6, 20e-6), b)) for at, b in enumerate(each)]
    return sites, count, chance


def cost(seed: int, ratio: float, slower: float) -> float:
    """Returns the seconds of a run in which a device becomes `slower` times as slow, divided by
    those of the ideal run. In the ideal run all devices work all the time, at their true rates.
    """
    sites, count, chance = near(seed, ratio)
    plan = plan_shares(sites, count)
    uri = chance.choice(sorted(plan.parts))
    rates = {site.uri: 1 / site.compute.b for site in sites}
    whole, stopped = sum(rates.values()), rates[uri]
    stop_s = chance.uniform(0.1, 0.9) * count / whole
    took = played_s(plan, sites, sites, Stop(uri, stop_s, slower))
    return took / (stop_s + (count - whole * stop_s) / (whole - stopped + stopped / slower))
