"""Plans of shares: each unit once, the options, who is left out and why, bad input.

When this fails, a part of a shared call is done twice or never.
"""

from __future__ import annotations

import itertools
import random

import pytest
from _inside.shards.machines import drawn

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.decide.choose import Impossible
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.site import Site

FAST, SLOW = Site("fast", Line(0.0, 1e-5)), Site("slow", Line(0.0, 1e-4))


def once(plan):
    """Is each unit in exactly one piece, and does each chunk have a taker?"""
    pieces = sorted(itertools.chain(plan.tail, *plan.parts.values()))
    ends = [0, *(piece.end for piece in pieces)]
    assert all(piece.units > 0 for piece in pieces)
    assert len(plan.takers) == len(plan.tail)
    assert set(plan.takers) <= set(plan.parts)
    assert sum(plan.units(uri) for uri in plan.parts) == plan.count
    return [piece.begin for piece in pieces] == ends[:-1] and ends[-1] == plan.count


@pytest.mark.parametrize("seed", range(30))
def test_each_unit_is_in_one_piece(seed):
    m, chance = drawn(seed), random.Random(seed)
    proportions = {site.uri: chance.uniform(0.1, 1.0) for site in m.sites}
    roomy = all(not site.memory_nbytes for site in m.sites)
    plans = [plan_shares(m.sites, m.count, tail=tail) for tail in (0, 0.1, 0.5)]
    plans.append(plan_shares(m.sites, m.count, each=True))
    assert set(plans[-1].parts) == {site.uri for site in m.sites}
    plans += [plan_shares(m.sites, m.count, given=proportions)] if roomy else []
    for plan in plans:
        assert once(plan), plan.explain()
        assert plan.gap >= -1e-9
        assert set(plan.parts) | set(plan.left_out) == {site.uri for site in m.sites}
        for site in m.sites:
            assert plan.units(site.uri) <= site.most


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_few_units_are_cut_too(count):
    for each in (False, count >= 2):
        assert once(plan_shares([FAST, SLOW], count, each=each))


def test_units_are_as_the_rates():
    plan = plan_shares([FAST, SLOW], 1100, tail=0)
    assert {uri: plan.units(uri) for uri in plan.parts} == {"fast": 1000, "slow": 100}


def test_given_shares_are_kept():
    plan = plan_shares([FAST, SLOW], 100, given={"slow": 3, "fast": 1})
    assert {uri: plan.units(uri) for uri in plan.parts} == {"fast": 25, "slow": 75}
    assert not plan.tail
    assert plan.predicted_s == pytest.approx(75 * 1e-4)
    assert plan_shares([FAST, SLOW], 9, given={"fast": 1}).left_out == {"slow": "its share is 0"}


def test_a_slow_device_gets_less():
    same = Site("same", FAST.compute, weight=0.25)
    plan = plan_shares([FAST, same], 1000, tail=0)
    assert plan.units("same") == 200


def test_a_busy_device_gets_less():
    busy = Site("busy", FAST.compute, ready_s=4e-3)
    plan = plan_shares([FAST, busy], 1000, tail=0)
    assert plan.units("busy") == 300


def test_pieces_overlap_their_transfers():
    way = Line(1e-6, 1e-6)
    far = Site("far", Line(1e-6, 1e-5), way, way, in_nbytes=8.0, out_nbytes=4.0)
    plan = plan_shares([far], 1000, tail=0)
    serial_s = far.bring.at(8000) + far.compute.at(1000) + far.fetch.at(4000)
    assert len(plan.parts["far"]) > 2
    assert plan.predicted_s < 0.5 * serial_s
    assert plan.gap < 0.02


def test_a_device_that_ends_later_is_left_out():
    way = Line(1e-3, 0.0)
    far = Site("far", FAST.compute, way, way, in_nbytes=1.0, out_nbytes=1.0)
    plan = plan_shares([FAST, far], 100)
    assert set(plan.parts) == {"fast"}
    assert plan.left_out == {"far": "it would end 1010 us later"}
    assert "far is left out: it would end 1010 us later" in plan.explain()


def test_one_of_two_that_share_is_enough():
    sites = [Site(uri, Line(0.0, b), shares=("cores",)) for uri, b in (("a", 1e-5), ("b", 2e-5))]
    plan = plan_shares(sites, 1000)
    assert set(plan.parts) == {"a"}
    assert plan.left_out == {"b": "it shares cores with a: one of them is enough"}
    assert plan.gap < 0.001


def test_two_that_share_both_work_where_their_ways_are_slow():
    way = Line(0.0, 1e-5)
    sites = [
        Site(uri, Line(0.0, 1e-6), way, in_nbytes=1.0, shares=("cores",)) for uri in ("a", "b")
    ]
    plan = plan_shares(sites, 1000)
    assert set(plan.parts) == {"a", "b"}
    assert plan.gap < 0.05


def test_small_memory_is_not_overfilled():
    small = Site("small", Line(0.0, 1e-6), in_nbytes=10.0, fixed_nbytes=50, memory_nbytes=100)
    plan = plan_shares([small, SLOW], 100)
    assert plan.units("small") == 5
    none = Site("none", Line(0.0, 1e-6), in_nbytes=10.0, fixed_nbytes=95, memory_nbytes=100)
    why = plan_shares([none, SLOW], 100).left_out["none"]
    assert why.startswith("too little memory: 100 bytes, room for 0 units")
    assert "105 bytes" in why


def test_a_plan_says_what_it_does():
    plan = plan_shares([FAST, SLOW], 1100)
    assert str(plan).startswith("1100 units on 2 devices, predicted 0.01 s, at least 0.01 s")
    assert f"in {len(plan.parts['fast'])} pieces: 0-" in plan.explain()
    assert "for whoever is free" in plan.explain()


@pytest.mark.parametrize(
    ("sites", "count", "options", "told"),
    [
        ([], 1, {}, "devices: expected a device or more, got none"),
        ([FAST, FAST], 1, {}, "devices: expected each device once, got fast, fast"),
        ([FAST], 0, {}, "expected work of 1 unit or more, got 0"),
        ([FAST], 1, {"tail": 1}, "tail: expected a fraction of the work, from 0 to below 1, got 1"),
        ([Site("x", Line(0.0, 0.0))], 1, {}, "x: expected a compute time that is finite"),
        ([Site("x", FAST.compute, weight=0)], 1, {}, "x: expected a weight above 0, got 0"),
        (
            [FAST, SLOW],
            1,
            {"each": True},
            "expected 1 unit of work or more for each of 2 devices, got 1 in all",
        ),
        ([FAST], 9, {"each": True, "given": {"fast": 1}}, 'expected "each" or a share'),
        ([FAST], 9, {"given": {"cpu": 1}}, "shards: expected some of fast, got cpu"),
        ([FAST], 9, {"given": {"fast": -1}}, "a share from 0 to 1e+300 for fast, got -1"),
        ([FAST], 9, {"given": {"fast": 0}}, "expected shares with a sum above 0"),
        ([FAST], 9, {"given": {}}, "expected shares with a sum above 0, got {}"),
        ([FAST], 9, {"given": {"fast": float("nan")}}, "a share from 0 to 1e+300 for fast"),
    ],
)
def test_bad_input_is_refused(sites, count, options, told):
    with pytest.raises(ValueError, match="expected") as refused:
        plan_shares(sites, count, **options)
    assert told in str(refused.value)


def test_work_that_fits_nowhere_is_impossible():
    small = Site("small", FAST.compute, in_nbytes=10.0, memory_nbytes=55)
    with pytest.raises(Impossible, match="expected memory for 6 units, got small: 55 bytes"):
        plan_shares([small], 6)
    assert plan_shares([small], 5).units("small") == 5
    with pytest.raises(Impossible, match="that fits the device's memory, got 8 units for small"):
        plan_shares([small, FAST], 10, given={"small": 4, "fast": 1})
    none = Site("none", FAST.compute, fixed_nbytes=60, memory_nbytes=55)
    with pytest.raises(
        Impossible, match="expected memory for a unit on every device, got none: 55 bytes"
    ):
        plan_shares([none, FAST], 10, each=True)
