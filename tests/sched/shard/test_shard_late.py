"""Devices that stop in mid-run and pieces that stall: what is lost against who knew in advance."""

from __future__ import annotations

import math
import random
from statistics import mean

import pytest

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Port
from sparkle_drv.sched.shard.late import LATE, again, late_at_s
from sparkle_drv.sched.shard.pieces import LONGEST
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.site import Pace, Site
from sparkle_drv.testing.shards.player import Stalls, Stop, played_s

WAY = Line(0.25, 0.5)
FAR = Pace(Site("far", Line(0.5, 1.0), WAY, WAY, in_nbytes=1.0, out_nbytes=1.0))


def drawn(seed, ratio):
    """2 to 8 devices within `ratio`, all in the host's memory, and work of 2 ms or more."""
    chance = random.Random(seed)

    def log(low, high):
        return math.exp(chance.uniform(math.log(low), math.log(high)))

    n, count, whole_s = chance.randint(2, 8), round(log(256, 8192)), log(2e-3, 0.5)
    each = [whole_s * (log(1, ratio) if at else 1) * n / count for at in range(n)]
    sites = [Site(f"d:{at}", Line(log(1e-6, 20e-6), b)) for at, b in enumerate(each)]
    return sites, count, chance


def lost(seed, ratio, slower):
    """Seconds by those of who knew: all work till the stop, then the others do the rest, and
    it what it can.
    """
    sites, count, chance = drawn(seed, ratio)
    plan = plan_shares(sites, count)
    uri = chance.choice(sorted(plan.parts))
    rates = {site.uri: 1 / site.compute.b for site in sites}
    whole, stopped = sum(rates.values()), rates[uri]
    stop_s = chance.uniform(0.1, 0.9) * count / whole
    took = played_s(plan, sites, sites, Port(), Stop(uri, stop_s, slower))
    return took / (stop_s + (count - whole * stop_s) / (whole - stopped + stopped / slower))


@pytest.mark.parametrize("slower", [math.inf, 100.0])
@pytest.mark.parametrize("ratio", [2, 50])
def test_a_device_that_stops_costs_little(ratio, slower):
    costs = [lost(seed, ratio, slower) for seed in range(100)]
    assert min(costs) >= 0.999
    assert mean(costs) <= 1.15, f"{mean(costs):.3f}"


def test_the_work_of_a_stalled_piece_is_done_elsewhere():
    """Both devices alone would end with the stalled piece; here somebody else has done it."""
    sites = [Site(uri, Line(0.0, 1e-5)) for uri in "abcd"]
    plan = plan_shares(sites, 4096)
    longest_s = LONGEST * plan.predicted_s
    for seed in range(20):
        took = played_s(plan, sites, sites, Port(), stalls=Stalls(seed, 0.005, 1000.0))
        assert took < 4 * plan.predicted_s + LATE * longest_s


def test_pieces_are_late_at_twice_their_time():
    assert late_at_s(10.0, FAR, 4) == 10.0 + LATE * (1.0 + 2.0 * 4)


@pytest.mark.parametrize(("others_s", "does"), [((), True), ((6.9,), False), ((7.1, 9.0), True)])
def test_a_late_piece_is_done_again_by_who_ends_first(others_s, does):
    assert again(2.0, FAR, 2, others_s) is does
