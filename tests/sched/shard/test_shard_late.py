"""Devices that stop in mid-run and pieces that stall, against a plan that knew in advance.

When this fails, a device that stops in mid-run delays a shared call more than it must.

`make fuzz-shards` runs the seeded part at full size (SPARKLE_FUZZ_SHARDS=1).
"""

from __future__ import annotations

import math
import os
from statistics import mean

import pytest
from _inside.shards.player import Stalls, played_s
from _inside.shards.stop_cost import cost

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.shard.late_pieces import LATE, again
from sparkle_drv.sched.shard.ledger import Ledger
from sparkle_drv.sched.shard.pieces import LONGEST
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.shares import Piece
from sparkle_drv.sched.shard.site import Pace, Site

SEEDS = 100 if os.environ.get("SPARKLE_FUZZ_SHARDS") else 40
WAY = Line(0.25, 0.5)
FAR = Pace(Site("far", Line(0.5, 1.0), WAY, WAY, in_nbytes=1.0, out_nbytes=1.0))


@pytest.mark.unmeasured
@pytest.mark.parametrize("slower", [math.inf, 100.0])
@pytest.mark.parametrize("ratio", [2, 50])
def test_a_device_that_stops_costs_little(ratio, slower):
    costs = [cost(seed, ratio, slower) for seed in range(SEEDS)]
    assert min(costs) >= 0.999
    assert mean(costs) <= 1.15, f"{mean(costs):.3f}"


def test_a_run_with_a_stop_is_one_of_its_seed():
    for slower in (math.inf, 100.0):
        assert cost(3, 2, slower) == cost(3, 2, slower)


def test_the_work_of_a_stalled_piece_is_done_elsewhere():
    """Both devices alone would end with the stalled piece; here somebody else has done it."""
    sites = [Site(uri, Line(0.0, 1e-5)) for uri in "abcd"]
    plan = plan_shares(sites, 4096)
    longest_s = LONGEST * plan.predicted_s
    for seed in range(20):
        took = played_s(plan, sites, sites, stalls=Stalls(seed, 0.005, 1000.0))
        assert took < 4 * plan.predicted_s + LATE * longest_s


def test_pieces_are_late_at_twice_their_time():
    ledger = Ledger({"far": [Piece(0, 4)]}, [], {"far": FAR})
    assert ledger.claim("far", 10.0).late_s == 10.0 + LATE * (1.0 + 2.0 * 4)


def test_nobody_waits_for_a_late_device_whose_piece_was_done_by_another():
    """It is the fastest one, to which the tail would be left if it were well."""
    rates = (("fast", 1.0), ("middle", 2.0), ("slow", 4.0))
    paces = {uri: Pace(Site(uri, Line(0.0, b))) for uri, b in rates}
    late, first, second = Piece(0, 1), Piece(1, 2), Piece(2, 3)
    ledger = Ledger({"fast": [late], "middle": [], "slow": []}, [first, second], paces)
    ledger.claim("fast", 0.0)
    assert ledger.claim("slow", LATE).piece == late  # the tail is the middle one's
    assert ledger.commit("slow", late, int)
    assert [claim.piece for claim in ledger.open("fast")] == [late]  # it is still at it
    assert ledger.claim("middle", 6.0).piece == first
    assert ledger.claim("fast", 6.0) == math.inf
    assert not ledger.commit("fast", late, int)
    assert ledger.claim("fast", 6.0).piece == second
    assert ledger.dropped == 1


@pytest.mark.parametrize(("others_s", "does"), [((), True), ((6.9,), False), ((7.1, 9.0), True)])
def test_a_late_piece_is_done_again_by_who_ends_first(others_s, does):
    assert again(2.0, FAR, 2, others_s) is does


def test_the_result_of_a_device_that_was_given_up_is_dropped():
    paces = {uri: Pace(Site(uri, Line(0.0, 1e-3))) for uri in ("first", "second")}
    whole, other = Piece(0, 8), Piece(8, 16)
    ledger = Ledger({"first": [whole], "second": [other]}, [], paces, call_s=16e-3)
    written = []

    def commit(uri, piece):
        return ledger.commit(uri, piece, lambda: written.append(piece))

    ledger.claim("first", 0.0)
    begun = ledger.claim("second", 0.0).piece
    ledger.gone("first")
    assert commit("second", begun)
    part = ledger.claim("second", 9e-3).piece
    assert part.begin == 0
    assert part.units < 8
    assert not commit("first", whole), "a part of it is done again"
    while not ledger.complete:
        assert commit("second", part)
        claim = ledger.claim("second", 9e-3)
        part = getattr(claim, "piece", None)
    assert sorted(at for piece in written for at in range(*piece)) == list(range(16))
    assert ledger.dropped == 1
