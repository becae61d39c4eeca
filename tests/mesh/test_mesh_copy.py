"""Mesh.copy on real devices: by way of other devices where that is faster or the only way left.

When this fails, a copy between devices is wrong, or fails when one way is lost.
"""

from __future__ import annotations

from pathlib import Path

import fakecuda
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost, SparkleError
from sparkle_drv.mesh.lanes.route_program import SLOTS, route_program
from sparkle_drv.mesh.lanes.transports import Way
from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import Network
from sparkle_drv.mesh.links.routes import best_route
from sparkle_drv.mesh.mesh import Mesh
from sparkle_drv.mesh.survey_result import SurveyResult
from sparkle_drv.mesh.topology import Topology

URIS = ("cpu", "egl:0", "cuda:0")
SLOW = ("egl:0", "cuda:0")


def measured(slow, uris=URIS):
    """1 GB/s and 10 us everywhere, but 10 MB/s on the ways `slow`."""
    ways = [(a, b) for a in uris for b in uris if a != b]
    rates = {way: 1e7 if way in slow else 1e9 for way in ways}
    sizes = (1 << 12, 1 << 16, 1 << 20, 1 << 24)
    return SurveyResult({way: [(n, 1e-5 + n / rates[way]) for n in sizes] for way in ways})


@pytest.fixture
def mesh(opened):
    with Mesh([opened(uri) for uri in URIS]) as one:
        found = measured({SLOW})
        one._topology = Topology(URIS, found, dict.fromkeys(found.ways, "staged"))
        yield one


def copied(mesh, source, to, count, dtype=np.float32):
    """The route, once the right bytes are there."""
    host = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
    with mesh.devices[source].array(host) as src, mesh.devices[to].array(host * 0) as dst:
        route = mesh.copy(dst, src)
        np.testing.assert_array_equal(dst.numpy(), host)
    return route


@pytest.mark.parametrize("count", [0, 1, 1023, 1_000_003])
def test_a_faster_third_device_carries(mesh, count):
    route = copied(mesh, *SLOW, count)
    # So few bytes are there before a second latency has passed.
    assert route.direct == (count < 1000)
    assert copied(mesh, *SLOW[::-1], count).direct
    if count > 10**6:
        assert route.places == ("egl:0", "cpu", "cuda:0")
        assert set(mesh.moved) == {"back", "into", "staged"}
        assert "egl:0 -> cpu -> cuda:0" in mesh.explain_route(*SLOW, 4 * count)


def test_a_store_in_between_has_a_few_chunks_alone():
    ways = {
        ("a", "b"): Line(1e-6, 1e-9),
        ("b", "c"): Line(1e-6, 1e-9),
        ("a", "c"): Line(1, 1),
    }
    route = best_route(Network(("a", "b", "c"), ways), "a", "c", 10_000_001)
    steps = route_program(route, 10_000_001).steps
    chunk = steps[0].what.src.nbytes
    assert len(steps) == 2 * -(-10_000_001 // chunk)
    assert max(s.what.dst.offset for s in steps if s.what.dst.place == "b") == (SLOTS - 1) * chunk
    assert sum(s.what.src.nbytes for s in steps if s.lane.to == "c") == 10_000_001
    for step in steps:
        if step.lane.to == "b" and step.number >= 2 * SLOTS:  # what was there has gone on
            assert steps[step.after[-1]].what.src.offset == step.what.dst.offset


def test_the_next_route_takes_over(mesh, monkeypatch, caplog):
    """The ways by the cpu fail: the slow direct one is left."""
    move = Way.move

    def broken(way, src, dst):
        if "cpu" in (way.source.uri, way.to.uri):
            raise SparkleError("the cable is out")
        return move(way, src, dst)

    monkeypatch.setattr(Way, "move", broken)
    before = mesh.topology.links["egl:0", "cpu"].reliability
    assert copied(mesh, *SLOW, 1_000_000).direct
    assert "the cable is out; trying the next route" in caplog.text
    assert mesh.topology.links["egl:0", "cpu"].reliability < before


def test_without_a_route_the_error_says_what_dst_holds(mesh, monkeypatch):
    def lost(way, src, dst):
        raise DeviceLost("egl:0: it was unplugged")

    monkeypatch.setattr(Way, "move", lost)
    with pytest.raises(
        DeviceLost, match=r"copy by egl:0 -> .*: step .* unplugged; dst holds a part"
    ):
        copied(mesh, *SLOW, 1_000_000)


def test_wrong_arguments(mesh):
    cpu, egl = mesh.devices["cpu"], mesh.devices["egl:0"]
    a, b = cpu.array(np.ones(4, np.float32)), egl.array(np.ones(4, np.float32))
    short, closed = egl.array(np.ones(3, np.float32)), egl.array(np.ones(4, np.float32))
    closed.close()
    frozen = np.ones(4, np.float32)
    frozen.flags.writeable = False
    fixed = cpu.wrap(frozen).array(np.float32, 4)
    with sp.open("cpu") as other:
        foreign = other.array(np.ones(4, np.float32))
        for dst, src, kind, says in (
            (a, np.ones(4), TypeError, "src: expected an Array, got ndarray"),
            (None, a, TypeError, "dst: expected an Array, got NoneType"),
            (short, a, ValueError, r"dst: expected float32\[4\], got float32\[3\]"),
            (closed, a, ValueError, "dst: expected an open Array, got a closed one"),
            (b, foreign, ValueError, "src: expected an Array of <Mesh of cpu, egl:0, cuda:0>"),
            (fixed, b, ValueError, "dst: expected a writable Array, got a read-only one"),
            (a, a, ValueError, "expected another place than src, got cpu"),
        ):
            with pytest.raises(kind, match=says):
                mesh.copy(dst, src)
    mesh.close()
    with pytest.raises(ValueError, match="expected an open Mesh"):
        mesh.copy(a, b)


RELAYED = """
from test_mesh_copy import measured
from sparkle_drv.mesh.topology import Topology
uris = ("cuda:0", "cuda:1", "cuda:2")
host = np.random.default_rng(1).integers(0, 256, 9_000_001, np.uint8)
with sp.init(list(uris), profile=False) as ctx, ctx.create_mesh() as mesh:
    src, dst = ctx.devices[0].array(host), ctx.devices[1].empty(host.shape, np.uint8)
    found = measured({uris[:2], uris[1::-1]}, uris)  # a survey would depend on the machine's load
    kinds = {pair: mesh._ways.between(*pair).transport() for pair in found.ways}
    mesh._topology = Topology(uris, found, kinds)
    route = mesh.best_route("cuda:0", "cuda:1", host.nbytes)
    assert route.places == ("cuda:0", "cuda:2", "cuda:1"), route
    text = mesh.explain_route("cuda:0", "cuda:1", host.nbytes)
    first, why, *others = text.splitlines()
    assert first.startswith("9000001 bytes by cuda:0 -> cuda:2 -> cuda:1"), text
    assert "times as fast as the next one" in why, text
    assert others[0].startswith("  instead of cuda:0 -> cuda:1"), text
    assert kinds["cuda:0", "cuda:1"] == kinds["cuda:1", "cuda:0"] == "staged"
    assert {kinds[p] for p in kinds if "cuda:2" in p} == {"peer"}
    tells = ("h2d", "d2h", "peer")
    before = [tell(f"bytes {name}") for name in tells]
    assert mesh.copy(dst, src).places == route.places
    assert [tell(f"bytes {name}") - n for name, n in zip(tells, before)] == [
        0, 0, 2 * host.nbytes]
    assert mesh.moved == {"peer": 2 * host.nbytes}
    np.testing.assert_array_equal(dst.numpy(), host)
    print("well")
"""


def test_a_third_gpu_carries_what_two_cannot_exchange():
    """cuda:0 and cuda:1 reach cuda:2 alone, and that is faster than the host."""
    here = f"import sys; sys.path.append({str(Path(__file__).parent)!r})"
    assert fakecuda.run(here + RELAYED, "devices 3", "peer off 0 1") == "well\n"
