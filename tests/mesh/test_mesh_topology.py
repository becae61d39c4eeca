"""Topology as data: what transfers change of it, when plans are made anew, and what is kept.

When this fails, plans between devices rest on rates that have changed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from sparkle_drv.mesh.survey_result import SurveyResult
from sparkle_drv.mesh.topology import DRIFT, Topology

PLACES = ("a", "b", "c")
LARGE = 1 << 30
"""Bytes of a transfer that takes far longer than the latency of its way."""
PAIRS = [(x, y) for x in PLACES for y in PLACES if x != y]


def points(latency_s: float, rate: float):
    return [(n, latency_s + n / rate) for n in (1 << 12, 1 << 16, 1 << 20, 1 << 24)]


def made(both: float = 1.5e9, pairs=PAIRS) -> Topology:
    """Ways of 1 GB/s and 20 us, ports of `both` bytes a second."""
    ways = {pair: points(20e-6, 1e9) for pair in pairs}
    ports = {place: points(0.0, both) for place in PLACES}
    measured = SurveyResult(ways, {p: points(0.0, 4e9) for p in PLACES}, boths=ports)
    return Topology(PLACES, measured, dict.fromkeys(pairs, "staged"), frozenset({("a", "b")}))


def test_links_are_what_was_measured():
    topology = made()
    link = topology.links["a", "b"]
    assert (link.source, link.to, link.kind, link.reliability) == ("a", "b", "staged", 1.0)
    assert link.bw_gbs == pytest.approx(1.0, rel=1e-3)
    assert link.latency_us == pytest.approx(20, rel=1e-3)
    assert topology.ports["a"].both == pytest.approx(1.5e9, rel=1e-3)
    assert topology.ports["a"].send == math.inf
    assert topology.network.direct == {("a", "b")}
    assert topology.network.adds["c"].b == pytest.approx(1 / 4e9)
    np.testing.assert_allclose(topology.adjacency(), 1 - np.eye(3), rtol=1e-3)


def test_a_port_is_no_slower_than_its_fastest_way():
    assert made(both=1e6).ports["a"].both == pytest.approx(1e9, rel=1e-3)


def test_a_pair_without_a_way_is_a_zero():
    topology = made(pairs=[("a", "b"), ("b", "a"), ("b", "c")])
    assert topology.adjacency()[0].tolist()[::2] == [0, 0]
    assert ("c", "b") not in topology.links
    assert "-" in str(topology)


def test_slow_transfers_make_the_way_slow():
    topology = made()
    before = topology.network
    for _ in range(60):
        slower = topology.network.links["a", "b"].b / before.links["a", "b"].b
        topology.took(("a", "b"), 3.0 / slower, LARGE)
    assert topology.links["a", "b"].bw_gbs == pytest.approx(1 / 3, rel=0.05)
    assert topology.network.links["a", "b"].b == pytest.approx(3e-9, rel=DRIFT - 1)
    assert topology.network.links["b", "a"] == before.links["b", "a"]


def test_small_transfers_tell_of_the_latency_and_not_of_the_rate():
    topology = made()
    before = topology.network
    for _ in range(60):
        now = topology.network.links["a", "b"].at(64)
        topology.took(("a", "b"), 3.0 * before.links["a", "b"].at(64) / now, 64)
    assert topology.links["a", "b"].bw_gbs == pytest.approx(1, rel=0.01)
    assert topology.links["a", "b"].latency_us == pytest.approx(60, rel=0.05)
    again = Topology(PLACES, topology.kept(), topology.kinds).links["a", "b"]
    assert again.latency_us == pytest.approx(60, rel=0.1)
    assert again.bw_gbs == pytest.approx(1, rel=0.05)


def test_one_disturbed_transfer_changes_little_and_no_plan():
    topology = made()
    before = topology.network
    topology.took(("a", "b"), 1000.0, LARGE)
    assert topology.links["a", "b"].bw_gbs > 0.92
    assert topology.network is before


@pytest.mark.parametrize("ratio", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_ratio_says_nothing(ratio):
    topology = made()
    topology.took(("a", "b"), ratio, LARGE)
    topology.took(("a", "nowhere"), 2.0, LARGE)
    topology.failed(("a", "nowhere"))
    assert topology.links == made().links


def test_failures_make_a_way_unreliable_and_routes_avoid_it():
    topology = made()
    before = topology.network
    for _ in range(10):
        topology.failed(("a", "b"))
    assert topology.links["a", "b"].reliability == pytest.approx(0.9**10)
    assert topology.network is not before
    assert topology.network.links["a", "b"].at(1 << 20) > 2 * before.links["a", "b"].at(1 << 20)
    for _ in range(200):
        topology.failed(("a", "b"))
    assert topology.network.links["a", "b"].at(1) < math.inf
    for _ in range(200):
        topology.took(("a", "b"), 1.0, LARGE)
    assert topology.links["a", "b"].reliability > 0.99


def test_what_is_kept_has_the_pace_of_now():
    topology = made()
    for _ in range(20):
        topology.took(("a", "b"), 2.0, LARGE)
    kept = topology.kept()
    again = Topology(PLACES, kept, topology.kinds)
    now, then = topology.links["a", "b"], again.links["a", "b"]
    assert now.bw_gbs == pytest.approx(2 ** -(1 - 0.9**20), rel=1e-3)
    assert then.bw_gbs == pytest.approx(now.bw_gbs)
    assert then.latency_us == pytest.approx(now.latency_us, rel=1e-3)
    assert now.latency_us == pytest.approx(20, rel=1e-2)
    assert kept.ways["b", "a"] == topology.measured.ways["b", "a"]
    assert kept.boths == topology.measured.boths


def test_a_person_reads_it():
    said = str(made()).splitlines()
    assert said[0].split() == ["GB/s", "from", "a", "b", "c"]
    assert said[1].split() == ["a", "-", "1", "1"]
    assert "a to b: staged, 1 GB/s, 20 us, reliability 1.00" in said
    assert "c, all ways at once: both 1.5 GB/s" in said
