"""Plans of all_reduce: right in every order that they allow, and as near to the bound as wanted.

When this fails, all_reduce gives wrong sums, or takes longer than it should. `make fuzz-mesh` draws
more networks and orders (SPARKLE_FUZZ_MESH=1).
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import replace
from itertools import pairwise, permutations
from statistics import mean

import numpy as np
import pytest
from _inside.collectives import counted, linked, ordered, star, unequal

from sparkle_drv.mesh.collective import all_reduce
from sparkle_drv.mesh.collective.bound import all_reduce_s
from sparkle_drv.mesh.collective.choose import all_reduces, plan_all_reduce
from sparkle_drv.mesh.collective.fluid import predicted_s
from sparkle_drv.mesh.collective.islands import by_islands
from sparkle_drv.mesh.collective.islands import islands as found_islands
from sparkle_drv.mesh.collective.shares import cuts, weights
from sparkle_drv.mesh.lanes.program import Lane, Program, Region, RegionCopy, Step
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port

LONG = bool(os.environ.get("SPARKLE_FUZZ_MESH"))
MIB = 1 << 20
COUNTS = (1, 2, 3, 17, 64, 1023, 25_003)


def programs(p: int, count: int, itemsize: int):
    network = star([1e8 * (1 + i % 3) for i in range(p)])
    pairs = frozenset(permutations(network.places, 2))
    return network, list(all_reduces(replace(network, direct=pairs), count * itemsize, itemsize))


@pytest.mark.parametrize("p", range(2, 18))
def test_each_contribution_is_counted_once(p):
    for count, itemsize in zip(COUNTS, (4, 8, 2, 4, 1, 8, 4), strict=True):
        if p > 9 and count > 5000:
            continue
        network, made = programs(p, count, itemsize)
        assert {"doubling", "shared memory"} <= {name for name, _ in made}
        for name, program in made:
            for seed in range(3 if LONG and len(program.steps) < 500 else 1):
                data = counted(program, network.places, count * itemsize, itemsize, seed + count)
                for place, found in data.items():
                    assert (found == 1).all(), (name, place, p, count)


def test_a_step_that_does_not_wait_is_found():
    """The judge itself: without what steps wait for some order gives a wrong sum."""
    network, made = programs(4, 64, 4)
    for name, program in made:
        hasty = Program(tuple(replace(step, after=()) for step in program.steps))
        right = [
            all(
                (found == 1).all()
                for found in counted(hasty, network.places, 256, 4, seed).values()
            )
            for seed in range(20)
        ]
        # On shared memory each place alone reads and writes its part, in one lane.
        assert all(right) == (name == "shared memory"), name


@pytest.mark.parametrize(
    "rates",
    [[50e6] * 4, [1e9] * 8, [1e7] * 3, [50e6, 50e6, 50e6, 12.5e6], [50e6, 50e6, 25e6, 25e6]],
    ids=str,
)
def test_64_mib_take_at_most_a_twentieth_more_than_the_bound(rates):
    plan = plan_all_reduce(star(rates), 64 * MIB, 4)
    assert plan.bound_s <= plan.predicted_s <= plan.bound_s / 0.95
    p = len(rates)
    known = max(1 / min(rates), 2 * (p - 1) / sum(rates)) * 64 * MIB
    assert plan.bound_s == pytest.approx(known, rel=1e-3)


def test_unequal_places_come_near_the_bound():
    reached = []
    for seed in range(8):
        plan = plan_all_reduce(unequal(seed, most=7), 64 * MIB, 4)
        assert plan.predicted_s >= plan.bound_s
        reached.append(plan.bound_s / plan.predicted_s)
    assert mean(reached) >= 0.95
    assert min(reached) >= 0.90


@pytest.mark.parametrize("p", range(2, 17))
def test_little_data_takes_few_messages(p):
    network = star([1e9] * p)
    message_s = 20e-6 + 4096 / 1e9
    whole = math.log2(p) == int(math.log2(p))
    rounds = math.log2(p) if whole else int(math.log2(p)) + 2
    plan = plan_all_reduce(network, 4096, 4)
    assert plan.predicted_s <= 1.1 * rounds * message_s
    if p > 2:  # two places cannot do with less than a whole message
        assert plan.predicted_s <= 1.1 * rounds * 20e-6
    assert plan_all_reduce(network, 4, 4).predicted_s <= 21e-6


@pytest.mark.parametrize("p", range(3, 10))
def test_an_exchange_gives_all_places_the_same_bits(p):
    """Floats whose sum depends on the order in which they are added."""
    places, chance = star([1e9] * p).places, np.random.default_rng(p)
    host = (10.0 ** chance.uniform(-8, 8, (p, 64))).astype(np.float32)
    memory = {(place, "data"): row.copy() for place, row in zip(places, host, strict=True)}
    for place in places:
        memory[place, "temp"] = np.full(p * 64, np.nan, np.float32)
    for step in ordered(all_reduce.exchange(places, 256), seed=p):
        src, dst = (
            memory[r.place, r.memory][r.offset // 4 : (r.offset + r.nbytes) // 4]
            for r in (step.what.src, step.what.dst)
        )
        dst[:] = src if isinstance(step.what, RegionCopy) else dst + src
    assert len({memory[place, "data"].tobytes() for place in places}) == 1
    np.testing.assert_allclose(memory[places[0], "data"], host.sum(axis=0), rtol=1e-5)


def islanded(sizes, fast=1e10, slow=1e8, shared=False) -> Network:
    """Islands of so many places, with fast links within and slow ones between them."""
    names = [f"{'abcde'[at]}{i}" for at, size in enumerate(sizes) for i in range(size)]
    links = {
        (a, b): Line(2e-6, 1 / fast) if a[0] == b[0] else Line(20e-6, 1 / slow)
        for a, b in permutations(names, 2)
    }
    direct = frozenset(pair for pair in links if shared and pair[0][0] == pair[1][0])
    adds = dict.fromkeys(names, Line(1e-6, 1 / fast)) if shared else {}
    return Network(tuple(names), links, adds=adds, direct=direct)


@pytest.mark.parametrize("p", range(2, 18))
@pytest.mark.parametrize("shared", [False, True])
def test_islands_count_each_contribution_once(p, shared):
    chance = random.Random(p)
    for ends in ([p // 2, p], sorted({*chance.sample(range(1, p + 1), min(p, 3)), p})):
        sizes = [b - a for a, b in pairwise([0, *ends])]
        if 0 in sizes:
            continue
        network = islanded(sizes, shared=shared)
        assert not 1 < len(sizes) < p or len(found_islands(network)) == len(sizes)
        for count, chunks in ((1, 1), (1023, 1), (5000, 4)):
            if p < 10 or chunks == 1:
                names = [[n for n in network.places if n[0] == c] for c in "abcde"[: len(sizes)]]
                program = by_islands(network, names, count * 4, 4, chunks)
                data = counted(program, network.places, count * 4, 4, p)
                assert all((found == 1).all() for found in data.values()), (sizes, count, chunks)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sizes", [[4, 4], [2, 3]], ids=str)
def test_islands_are_added_up_first_where_links_within_them_are_faster(sizes, shared):
    network = islanded(sizes, shared=shared)
    plan = plan_all_reduce(network, 64 * MIB, 4)
    others = (
        predicted_s(program, network)
        for name, program in all_reduces(network, 64 * MIB, 4)
        if not name.startswith("islands") and "48" not in name  # which is as fast as one of 8
    )
    assert plan.name.startswith("islands")
    assert plan.predicted_s < 0.8 * min(others)
    assert plan.predicted_s >= plan.bound_s
    if sizes == [4, 4]:  # 16 links between them carry what one place has
        assert plan.predicted_s <= 1.05 * 64 * MIB / (16 * 1e8)


def test_alike_links_make_no_islands():
    assert found_islands(star([1e9] * 5)) == []
    assert found_islands(star([1e9, 1.5e9, 1.9e9, 1e9])) == []
    assert found_islands(islanded([1, 1, 1], slow=1e9)) == []
    assert found_islands(islanded([2, 1])) == [["a0", "a1"], ["b0"]]
    assert found_islands(islanded([2, 2], 1e8, 1e8, shared=True)) == [["a0", "a1"], ["b0", "b1"]]


@pytest.mark.parametrize("seed", range(100 if LONG else 8))
def test_no_plan_is_below_the_bound(seed):
    network = linked(seed, most=6)
    for nbytes in (4, 4096, 1 * MIB):
        least_s = all_reduce_s(network, network.places, nbytes)
        for name, program in all_reduces(network, nbytes, 4):
            assert predicted_s(program, network) >= least_s * (1 - 1e-9), (name, nbytes)


def test_a_plan_explains_itself():
    plan = plan_all_reduce(star([1e9] * 3), 4096, 4)
    lines = plan.explain().splitlines()
    assert lines[0] == str(plan)
    assert lines[0].endswith("above)")
    first = plan.program.steps[0]
    assert any(line.startswith(f"  0: {first}") for line in lines)
    lanes = {step.lane for step in plan.program.steps}
    assert len(lines) == 1 + len(lanes) + len(plan.program.steps)
    short = plan.explain(most=5).splitlines()
    assert len(short) == 1 + len(lanes) + 6
    assert f"  ... {len(plan.program.steps) - 5} more" in short
    assert short[-1] == lines[-1]


@pytest.mark.parametrize(
    "line",
    [
        Line(0.0, math.inf),
        Line(math.inf, 1e-9),
        Line(0.0, math.nan),
        Line(-1.0, 1e-9),
    ],
)
def test_a_link_that_carries_nothing_is_named(line):
    network = star([1e9] * 3)
    broken = replace(network, links={**network.links, ("d1", "d2"): line})
    with pytest.raises(ValueError, match="expected a link from d1 to d2, got Line"):
        plan_all_reduce(broken, 64, 4)
    none = replace(network, ports={**network.ports, "d2": Port(1e9, 0.0)})
    with pytest.raises(ValueError, match="expected a link from d0 to d2, got Line"):
        plan_all_reduce(none, 64, 4)


def test_what_cannot_be_planned():
    with pytest.raises(ValueError, match="expected a link from b to a, got none"):
        plan_all_reduce(Network(("a", "b"), {("a", "b"): Line(0.0, 1e-9)}), 64, 4)
    assert plan_all_reduce(star([1e9]), 64, 4).program == Program(())
    assert plan_all_reduce(star([1e9] * 3), 0, 4).program == Program(())
    assert "doubling" in str(plan_all_reduce(star([1e9] * 2), 64, 4))


def flows(*ends: tuple[str, str], nbytes: int = 1000) -> Program:
    """A copy for each of these, all at once."""
    return Program(
        tuple(
            Step(
                n,
                Lane(a, b),
                RegionCopy(Region(a, "data", 0, nbytes), Region(b, "temp", n, nbytes)),
            )
            for n, (a, b) in enumerate(ends)
        )
    )


def test_transfers_share_ports():
    network = star([1000.0, 1000.0, 500.0], latency_s=0.0)
    assert predicted_s(flows(("d0", "d1")), network) == pytest.approx(1)
    assert predicted_s(flows(("d0", "d2")), network) == pytest.approx(2)
    assert predicted_s(flows(("d0", "d1"), ("d1", "d0")), network) == pytest.approx(1)
    # Half of d0's port each, until both end.
    assert predicted_s(flows(("d0", "d1"), ("d0", "d2")), network) == pytest.approx(2)
    late = star([1000.0] * 3, latency_s=0.5)
    assert predicted_s(flows(("d0", "d1"), ("d2", "d1")), late) == pytest.approx(2.5)


@pytest.mark.parametrize("rates", [[1.0], [1, 1], [1, 2, 3], [100, 1, 1, 1], [5, 5, 5, 0.1]])
def test_shares_are_shares(rates):
    found = weights(rates)
    assert sum(found) == pytest.approx(1)
    assert min(found) >= 0
    for nbytes in (0, 4, 12, 4096, 1_000_004):
        parts = cuts(nbytes, 4, found)
        assert sum(size for _, size in parts) == nbytes
        assert all(begin % 4 == 0 and size % 4 == 0 for begin, size in parts)
        ends = np.cumsum([size for _, size in parts])
        assert [begin for begin, _ in parts[1:]] == list(ends[:-1])


def test_parts_begin_where_devices_bind_memory():
    assert all(begin % 256 == 0 for begin, _ in cuts(1 << 20, 4, weights([3, 2, 2])))


def test_doubling_takes_as_many_rounds_as_it_says():
    for p, rounds in ((2, 1), (4, 2), (8, 3), (3, 3), (6, 4), (17, 6)):
        places = star([1e12] * p).places
        took = predicted_s(all_reduce.doubling(places, 4), star([1e12] * p, latency_s=1.0))
        assert took == pytest.approx(rounds, rel=1e-6)
