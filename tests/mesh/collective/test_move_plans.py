"""Plans of broadcast, scatter, gather, all_gather and reduce_scatter: right in every order that
they allow, and never predicted below their bound.

When this fails, broadcast, scatter or gather delivers the wrong bytes. `make fuzz-mesh` draws more
networks (SPARKLE_FUZZ_MESH=1).
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from _inside.collectives import linked, ordered, star

from sparkle_drv.mesh.collective import choose_moves, moves
from sparkle_drv.mesh.collective.choose import ring_order
from sparkle_drv.mesh.lanes.program import RegionCopy

LONG = bool(os.environ.get("SPARKLE_FUZZ_MESH"))
ITEM = 4
SIZES = (0, 1, 2, 63, 64, 65, 1000)


def parts_of(p, seed):
    """Parts of odd sizes, some of them empty, one behind the other."""
    chance, at, found = random.Random(seed), 0, []
    for _ in range(p):
        size = chance.choice(SIZES) * ITEM
        found.append((at, size))
        at += size
    return found


def even(p):
    return [(at * 1024, 1024) for at in range(p)]


def carried(program, memories, seed):
    """Run on int64 elements by (place, memory); scratch memory is poisoned."""
    temp = {}
    for step in ordered(program, seed):
        ends = []
        for region in (step.what.dst, step.what.src):
            key = region.place, region.memory
            if region.memory == "temp":
                if key not in temp:
                    temp[key] = np.full(100_000, -(10**9), np.int64)
                memories_of = temp[key]
            else:
                memories_of = memories[key]
            begin, end = region.offset // ITEM, (region.offset + region.nbytes) // ITEM
            assert end <= len(memories_of)
            ends.append(memories_of[begin:end])
        if isinstance(step.what, RegionCopy):
            ends[0][:] = ends[1]
        else:
            ends[0][:] += ends[1]


def drawn(p, count):
    return [np.random.default_rng(i).integers(1, 1000, count) for i in range(p)]


@pytest.mark.parametrize("p", range(1, 18))
def test_a_broadcast_is_everywhere(p):
    for seed, count in enumerate((0, 1, 3, 1000, 4099)):
        network = star([1e8 * (1 + i % 3) for i in range(p)])
        root = network.places[seed % p]
        for _, program in choose_moves._broadcasts(network, root, count * ITEM, ITEM):
            host = drawn(p, count)
            memories = {(pl, "data"): x for pl, x in zip(network.places, host, strict=True)}
            want = memories[root, "data"].copy()
            carried(program, memories, seed)
            for place in network.places:
                np.testing.assert_array_equal(memories[place, "data"], want)


@pytest.mark.parametrize("p", range(1, 18))
@pytest.mark.parametrize("draw", [lambda p: parts_of(p, p), even], ids=["odd", "even"])
def test_parts_are_where_they_belong(p, draw):
    places, parts = star([1e9] * p).places, draw(p)
    whole = sum(size for _, size in parts) // ITEM
    cut = [slice(begin // ITEM, (begin + size) // ITEM) for begin, size in parts]
    root = places[-1]

    def empty(count):
        return np.full(count, -7, np.int64)

    src = drawn(1, whole)[0]
    memories = {(root, "data"): src.copy()}
    memories |= {
        (pl, "out"): empty(size // ITEM) for pl, (_, size) in zip(places, parts, strict=True)
    }
    carried(moves.scatter(places, root, parts), memories, p)
    for place, one in zip(places, cut, strict=True):
        np.testing.assert_array_equal(memories[place, "out"], src[one])

    given = {(pl, "data"): src[one].copy() for pl, one in zip(places, cut, strict=True)}
    memories = {**given, (root, "out"): empty(whole)}
    carried(moves.gather(places, root, parts), memories, p)
    np.testing.assert_array_equal(memories[root, "out"], src)

    order = ring_order(star([1e9] * p), places[p // 2])
    for program in (
        moves.all_gather(places, parts),
        moves.all_gather_ring(places, parts, order),
    ):
        memories = {**given, **{(pl, "out"): empty(whole) for pl in places}}
        carried(program, memories, p)
        for place in places:
            np.testing.assert_array_equal(memories[place, "out"], src)

    host = drawn(p, whole)
    total = np.sum(host, axis=0)
    for program in (
        moves.reduce_scatter(places, parts),
        *([moves.reduce_scatter_ring(places, parts, order)] if p > 1 else []),
    ):
        memories = {(pl, "data"): x.copy() for pl, x in zip(places, host, strict=True)}
        memories |= {
            (pl, "out"): empty(size // ITEM) for pl, (_, size) in zip(places, parts, strict=True)
        }
        carried(program, memories, p)
        for place, one, x in zip(places, cut, host, strict=True):
            np.testing.assert_array_equal(memories[place, "out"], total[one])
            np.testing.assert_array_equal(memories[place, "data"], x)  # inputs stay


def plans(network, seed):
    places, parts = network.places, parts_of(len(network.places), seed)
    root = places[seed % len(places)]
    yield choose_moves.plan_broadcast(network, root, 1 << 20, ITEM)
    yield choose_moves.plan_broadcast(network, root, 4, ITEM)
    yield choose_moves.plan_scatter(network, root, parts)
    yield choose_moves.plan_gather(network, root, parts)
    for cut in (parts, even(len(places))):
        yield choose_moves.plan_all_gather(network, cut)
        yield choose_moves.plan_reduce_scatter(network, cut)


@pytest.mark.parametrize("seed", range(100 if LONG else 8))
def test_no_plan_is_below_its_bound(seed):
    for plan in plans(linked(seed), seed):
        assert plan.predicted_s >= plan.bound_s * (1 - 1e-9), plan


def test_much_data_goes_in_chunks_and_little_by_a_tree():
    network = star([1e9] * 8)
    much = choose_moves.plan_broadcast(network, "d0", 64 << 20, ITEM)
    assert much.predicted_s <= 1.15 * much.bound_s
    little = choose_moves.plan_broadcast(network, "d0", 4, ITEM)
    assert little.predicted_s == pytest.approx(3 * 20e-6, rel=0.01) or little.name != "tree"


def test_parts_of_one_size_come_near_the_bound():
    network, size = star([1e9] * 6), 8 << 20
    parts = [(at * size, size) for at in range(6)]
    for plan in (
        choose_moves.plan_all_gather(network, parts),
        choose_moves.plan_reduce_scatter(network, parts),
        choose_moves.plan_scatter(network, "d3", parts),
        choose_moves.plan_gather(network, "d3", parts),
    ):
        assert plan.predicted_s <= 1.05 * plan.bound_s, plan
