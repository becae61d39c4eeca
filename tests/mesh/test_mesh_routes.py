"""Routes: the least of all simple paths, by a pipeline that is stepped through chunk by chunk.

When this fails, data takes a slower way between devices than there is.
"""

import math
import random
from itertools import pairwise, permutations

import pytest

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network, Port
from sparkle_drv.mesh.links.routes import LEAST_CHUNK_NBYTES, best_route, explain_route

GB = 1e-9
US = 1e-6


def stepped(stages, nbytes, chunks):
    """Seconds until the last chunk has left the last stage: a chunk waits for its stage."""
    each = [a + b * nbytes / chunks for a, b in stages]
    free = [0.0] * len(each)
    for _ in range(chunks):
        at = 0.0
        for i, seconds in enumerate(each):
            at = free[i] = max(at, free[i]) + seconds
    return at


def slope(network, pair):
    out = network.ports.get(pair[0], Port())
    into = network.ports.get(pair[1], Port())
    return max(network.links[pair].b, 1 / out.send, 1 / into.receive)


def brute(network, src, dst, nbytes):
    """{places: seconds} of all simple paths."""
    others = [place for place in network.places if place not in (src, dst)]
    found = {}
    for n in range(len(others) + 1):
        for middle in permutations(others, n):
            pairs = list(pairwise((src, *middle, dst)))
            if not all(pair in network.links for pair in pairs):
                continue
            stages = [(network.links[pair].a, slope(network, pair)) for pair in pairs]
            most = max(1, nbytes // LEAST_CHUNK_NBYTES) if n else 1
            times = [stepped(stages, nbytes, chunks) for chunks in range(1, most + 1)]
            found[(src, *middle, dst)] = min(times)
    return found


def graph(seed):
    rng = random.Random(seed)
    places = tuple(f"p{i}" for i in range(rng.randint(2, 5)))
    links = {
        (x, y): Line(10 ** rng.uniform(-6, -4), 10 ** rng.uniform(-10, -7.5))
        for x, y in permutations(places, 2)
        if rng.random() < 0.75
    }
    ports = {
        place: Port(10 ** rng.uniform(8, 10), 10 ** rng.uniform(8, 10))
        for place in places
        if rng.random() < 0.3
    }
    return Network(places, links, ports), rng.choice([0, 1, 4096, 70_000, 131_072, 200_000])


def test_500_graphs_are_equal_to_brute_force():
    pipelined = 0
    for seed in range(500):
        network, nbytes = graph(seed)
        ways = brute(network, "p0", "p1", nbytes)
        if not ways:
            with pytest.raises(ValueError, match="p1"):
                best_route(network, "p0", "p1", nbytes)
            continue
        least = min(ways.values())
        got = best_route(network, "p0", "p1", nbytes)
        assert got.predicted_s == pytest.approx(ways[got.places], rel=1e-9), seed
        own = ways.get(("p0", "p1"), math.inf)
        if own <= least * 1.05 * (1 - 1e-9):
            assert got.direct, seed
        else:
            assert got.predicted_s == pytest.approx(least, rel=1e-9), seed
        pipelined += not got.direct and got.chunk_nbytes < nbytes
    assert pipelined > 50


def line_of(*links, ports=None):
    made = {(x, y): Line(a, b) for x, y, a, b in links}
    return Network(("a", "b", "c"), made, ports or {})


def test_a_port_that_both_legs_share_halves_their_rate():
    legs = [("a", "b", 10 * US, GB), ("b", "c", 10 * US, GB)]
    free = best_route(line_of(*legs), "a", "c", 64 << 20)
    shared = best_route(line_of(*legs, ports={"b": Port(both=1e9)}), "a", "c", 64 << 20)
    assert free.predicted_s == pytest.approx(0.0671, rel=0.05)
    assert shared.predicted_s == pytest.approx(0.1342, rel=0.01)
    assert free.places == ("a", "b", "c")
    assert 4096 < free.chunk_nbytes < 16 << 20


def test_direct_is_preferred_within_5_percent():
    over = [("a", "b", 0, GB), ("b", "c", 0, GB)]
    n = 1 << 30
    assert best_route(line_of(*over, ("a", "c", 0, 1.04 * GB)), "a", "c", n).direct
    assert not best_route(line_of(*over, ("a", "c", 0, 1.06 * GB)), "a", "c", n).direct


def test_few_bytes_go_by_latency_and_ties_by_bandwidth():
    links = [("a", "b", 1 * US, 9 * GB), ("b", "c", 1 * US, 9 * GB), ("a", "c", 3 * US, GB)]
    assert best_route(line_of(*links), "a", "c", 0).places == ("a", "b", "c")
    made = {("a", "c"): Line(US, GB), ("c", "d"): Line(US, GB)}
    made |= {("a", "b"): Line(US, 2 * GB), ("b", "d"): Line(US, GB)}
    network = Network(("a", "b", "c", "d"), made)
    assert best_route(network, "a", "d", 0).places == ("a", "c", "d")


def test_an_explanation_names_the_ways_and_the_reason():
    over = [("a", "b", 0, GB), ("b", "c", 0, GB)]
    far = explain_route(line_of(*over, ("a", "c", 0, 3 * GB)), "a", "c", 1 << 20)
    first, why, other = far.splitlines()
    assert "a -> b -> c" in first
    assert "times as fast" in why
    assert "instead of a -> c: 3145" in other
    near = explain_route(line_of(*over, ("a", "c", 0, 1.04 * GB)), "a", "c", 1 << 30)
    assert "preferred" in near
    assert "instead of a -> b -> c" in near
    assert "no other way" in explain_route(line_of(over[0]), "a", "b", 1)


@pytest.mark.parametrize(
    ("src", "dst", "nbytes", "words"),
    [
        ("x", "a", 1, "src: .*got x"),
        ("a", "x", 1, "dst: .*got x"),
        ("a", "a", 1, "dst: .*got a"),
        ("b", "a", 1, "dst: .*b reaches, got a"),
        ("a", "b", -1, "nbytes: .*got -1"),
    ],
)
def test_bad_input_is_named(src, dst, nbytes, words):
    with pytest.raises(ValueError, match=words):
        best_route(line_of(("a", "b", 0, GB)), src, dst, nbytes)


@pytest.mark.parametrize("bad", [(math.inf, GB), (US, math.inf), (math.nan, GB), (US, math.nan)])
def test_a_link_without_an_end_is_no_way(bad):
    with pytest.raises(ValueError, match="got c"):
        best_route(line_of(("a", "c", *bad)), "a", "c", 8)
    over = [("a", "b", US, GB), ("b", "c", US, GB)]
    assert best_route(line_of(("a", "c", *bad), *over), "a", "c", 8).places == ("a", "b", "c")


def test_a_port_of_rate_0_is_no_way_and_a_link_of_no_time_is_one():
    links = [("a", "b", 0, 0)]
    assert best_route(line_of(*links), "a", "b", 1 << 20).predicted_s == 1e-12
    with pytest.raises(ValueError, match="got b"):
        best_route(line_of(*links, ports={"b": Port(receive=0)}), "a", "b", 1)
