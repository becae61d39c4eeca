"""The bound is below the best of all ways to cut small work into pieces.

When this fails, the printed lower bound is above what is possible.
"""

from __future__ import annotations

import itertools
import random

import pytest

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.shard.bound import least_s
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.simulation import ends
from sparkle_drv.sched.shard.site import NO_TIME, Pace, Site

CASES = 100


def small(seed):
    """2 or 3 devices, 4 to 6 units, with or without ways, a resource and little memory."""
    chance = random.Random(seed)
    sites = []
    for number in range(chance.choice((2, 2, 3))):
        far = chance.random() < 0.6
        way = Line(chance.uniform(0, 0.5), chance.uniform(0.05, 1.0))
        back = Line(chance.uniform(0, 0.5), chance.uniform(0.05, 1.0))
        sites.append(
            Site(
                f"d:{number}",
                Line(chance.uniform(0, 0.5), chance.uniform(0.2, 3.0)),
                way if far else NO_TIME,
                back if far else NO_TIME,
                fixed_nbytes=chance.choice((0, 2)),
                in_nbytes=chance.choice((0.0, 1.0)),
                out_nbytes=chance.choice((0.0, 1.0)),
                memory_nbytes=chance.choice((0, 0, 6, 8)) if number else 0,
                shares=("cores",) if chance.random() < 0.3 else (),
                ready_s=chance.choice((0.0, 0.0, 1.0)),
            )
        )
    count = chance.randint(4, 6 if len(sites) == 2 else 4)
    return sites, count


def compositions(units):
    """All ordered rows of pieces with this sum."""
    if not units:
        yield ()
    for first in range(1, units + 1):
        for rest in compositions(units - first):
            yield (first, *rest)


def optimum_s(sites, count):
    """The least of all shares and all pieces."""
    paces, least = [Pace(site) for site in sites], float("inf")
    for units in itertools.product(range(count + 1), repeat=len(sites)):
        fits = all(u <= p.most for u, p in zip(units, paces, strict=True))
        if sum(units) != count or not fits:
            continue
        for parts in itertools.product(*(list(compositions(u)) for u in units)):
            least = min(least, max(ends(paces, parts)))
    return least


@pytest.mark.unmeasured
@pytest.mark.parametrize("block", range(4))
def test_the_bound_is_at_most_the_optimum(block):
    for seed in range(block * CASES // 4, (block + 1) * CASES // 4):
        sites, count = small(seed)
        best, bound = optimum_s(sites, count), least_s([Pace(site) for site in sites], count)
        assert 0 < bound <= best * (1 + 1e-9), f"seed {seed}: {bound} > {best}"
        plan = plan_shares(sites, count)
        assert plan.predicted_s >= best * (1 - 1e-9), f"seed {seed}"


def test_the_bound_of_one_device_is_its_time():
    assert least_s([Pace(Site("a", Line(2.0, 1.0)))], 10) == pytest.approx(12.0, rel=1e-3)


def test_the_bound_counts_memory():
    small_one = Pace(Site("a", Line(0.0, 1.0), in_nbytes=1.0, memory_nbytes=3))
    assert least_s([small_one], 4) == float("inf")
    other = Pace(Site("b", Line(0.0, 10.0)))
    assert least_s([small_one, other], 4) == pytest.approx(10.0, rel=1e-3)


def test_all_devices_bring_their_operands_at_once():
    way = Line(0.0, 0.1)
    sites = [Site(uri, Line(0.0, 1e-3), way, way, in_nbytes=1.0) for uri in "abcd"]
    assert least_s([Pace(site) for site in sites], 40) == pytest.approx(1.0, rel=0.01)
