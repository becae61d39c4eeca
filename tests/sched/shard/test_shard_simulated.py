"""Plans on drawn machines: how near to the bound, how near to what the player takes.

When this fails, shared calls are slower than the devices allow.

`make fuzz-shards` runs the seeded parts at full size (SPARKLE_FUZZ_SHARDS=1).
"""

from __future__ import annotations

import os
from statistics import mean

import pytest
from _inside.shards.machines import drawn, wrong
from _inside.shards.player import played_s

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.shard.pieces import LONGEST, LOSS
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.site import Pace, Site

MACHINES, WRONG = (200, 100) if os.environ.get("SPARKLE_FUZZ_SHARDS") else (80, 30)
RATES = (100, 40, 20, 5)
UNITS = 4096
UNIT_S = 1e-4  # of a device of rate 1


@pytest.fixture(scope="module")
def planned():
    machines = [drawn(seed) for seed in range(MACHINES)]
    return [(m, plan_shares(m.sites, m.count)) for m in machines]


@pytest.fixture(scope="module")
def four():
    """Devices of RATES without transfers, and their plan."""
    sites = [Site(f"rate:{rate}", Line(0.0, UNIT_S / rate)) for rate in RATES]
    return sites, plan_shares(sites, UNITS)


def ideal_s(sites):
    """Seconds if all devices work all the time."""
    return UNITS / sum(1 / site.compute.b for site in sites)


def test_plans_are_near_their_bound(planned):
    gaps = [plan.gap for _, plan in planned]
    assert min(gaps) >= 0
    assert mean(gaps) <= 0.05, f"{mean(gaps):.2%}"
    assert max(gaps) <= 0.15, f"seed {gaps.index(max(gaps))}: {max(gaps):.2%}"


@pytest.mark.unmeasured
def test_the_player_takes_what_is_predicted(planned):
    for seed, (m, plan) in enumerate(planned):
        took = played_s(plan, m.sites, m.sites)
        assert took == pytest.approx(plan.predicted_s, rel=0.03), f"seed {seed}"


def long_pieces(m, plan):
    """Pieces of more than a unit that take longer than they may: a little shorter ones would cost
    no more than LOSS in launches and latencies.
    """
    paces = {site.uri: Pace(site) for site in m.sites}
    done = [(uri, piece.units) for uri, pieces in plan.parts.items() for piece in pieces]
    done += [(uri, piece.units) for uri, piece in zip(plan.takers, plan.tail, strict=True)]
    for uri, units in done:
        stages, less = paces[uri].stages(), units - 1
        slowest_s = max(a + b * less for a, b in stages)
        cheap = slowest_s <= (1 + LOSS) * paces[uri].each * less
        if less and cheap and slowest_s > LONGEST * plan.predicted_s:
            yield uri, units


@pytest.mark.unmeasured
def test_no_piece_is_long(planned):
    """Of the plan and of the tail; nor where shares are given, nor where each device has one."""
    lengths = []
    for seed, (m, plan) in enumerate(planned):
        plans = [plan]
        if not seed % 10:
            plans.append(plan_shares(m.sites, m.count, each=True))
            if all(not site.memory_nbytes for site in m.sites):
                given = {site.uri: 1.0 for site in m.sites}
                plans.append(plan_shares(m.sites, m.count, given=given))
        for its in plans:
            assert not list(long_pieces(m, its)), f"seed {seed}"
        lengths.append(sum(map(len, plan.parts.values())))
    assert mean(lengths) > 32  # it is not that all are excused


def test_machines_are_as_unequal_as_they_should_be(planned):
    fastest = [min(m.sites, key=lambda site: site.compute.b) for m, _ in planned]
    slowest = [max(m.sites, key=lambda site: site.compute.b) for m, _ in planned]
    assert min(f.compute.b * m.count for f, (m, _) in zip(fastest, planned, strict=True)) >= 1.99e-3
    ratios = [s.compute.b / f.compute.b for s, f in zip(slowest, fastest, strict=True)]
    assert 30 < max(ratios) <= 50
    assert {len(m.sites) for m, _ in planned} == set(range(2, 9))


def test_right_rates_lose_little_by_the_tail(four):
    sites, plan = four
    assert plan.tail
    assert ideal_s(sites) / played_s(plan, sites, sites) >= 0.98


@pytest.mark.unmeasured
def test_wrong_rates_are_made_up_for(four):
    sites, plan = four
    shares = []
    for seed in range(WRONG):
        true = wrong(sites, seed)
        shares.append(ideal_s(true) / played_s(plan, sites, true))
    assert mean(shares) >= 0.94, f"{mean(shares):.3f}"


def test_without_a_tail_wrong_rates_cost_more(four):
    sites, plan = four
    whole = plan_shares(sites, UNITS, tail=0)
    assert not whole.tail
    for seed in range(10):
        true = wrong(sites, seed)
        assert played_s(plan, sites, true) < played_s(whole, sites, true)


def test_plans_do_not_depend_on_chance():
    m = drawn(7)
    assert plan_shares(m.sites, m.count) == plan_shares(m.sites, m.count)


def test_a_play_does_not_depend_on_chance(planned):
    for m, plan in planned[:12]:
        once, again = (played_s(plan, m.sites, m.sites) for _ in range(2))
        assert once == again
