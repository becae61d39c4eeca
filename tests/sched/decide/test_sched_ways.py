"""The ways between devices: what is measured of them, kept, shown and gone. Simulated devices tell
the exact times; fake CUDA and emulated cards have copies of their own from one to another, the cpu
and egl:0 none.

When this fails, plans between devices rest on transfers that nobody measured.
"""

import json
import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost, KernelFault
from sparkle_drv.mesh import survey
from sparkle_drv.mesh.lanes.staged_transfer import CHUNK_NBYTES
from sparkle_drv.mesh.links import probe
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.model import profile
from sparkle_drv.sched.model.costs import Unmeasured
from sparkle_drv.sched.run import ways
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.local import LocalExecutor, default_clock
from sparkle_drv.testing import sim
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
RATES = {"gemm_f32": Rate(1e-6, 1e9)}
NEAR = SimDevice("sim:near", RATES, to_s=(1e-5, 1e9))
FAR = SimDevice("sim:far", {"gemm_f32": Rate(1e-6, 1e10)}, to_s=(3e-5, 5e8))
URIS = ("sim:near", "sim:far")
A, B = np.random.default_rng(3).standard_normal((2, 16, 16)).astype(F32)
FROM_NEAR = 4e-5, 3e-9
"""Seconds, and for each byte, from one to the other: the way to the host, and on."""


def machine(*devices):
    return SimMachine({d.uri: d for d in devices or (NEAR, FAR)}, random.Random(1))


@pytest.fixture
def peers(monkeypatch):
    """What was copied from one device to another, as (from, to, bytes)."""
    copied = []
    real = Queue.copy_peer

    def copy_peer(self, dst, src):
        copied.append((src.device.uri, self.device.uri, src.nbytes))
        return real(self, dst, src)

    monkeypatch.setattr(Queue, "copy_peer", copy_peer)
    return copied


def filled(executor, uri, values=A):
    return ContextArray(executor, uri, executor.devices[uri].array(values))


def test_the_way_from_one_to_another_is_what_was_stated():
    with sim.on(machine()), sp.init(list(URIS), profile=False) as ctx:
        x = ctx.array(A.shape, F32, device="sim:near").fill(A)
        ctx.gemm(x, x, devices=["sim:far"])
        executor = ctx._executor
        points = executor.ways.points[URIS]
        assert [size for size, _ in points] == [size for size in survey.SIZES[:4] for _ in range(3)]
        for size, seconds in points:
            chunk = min(size, CHUNK_NBYTES)  # both legs are in flight: the second one is slower
            second_s = size // chunk * (3e-5 + chunk * 2e-9)
            assert seconds == pytest.approx(1e-5 + chunk * 1e-9 + second_s)
        line = executor.costs.links[URIS]
        assert (line.a, line.b) == pytest.approx(FROM_NEAR, rel=0.05)
        moved_s = line.at(A.nbytes)
        assert ctx.last_plan.candidates[0].cost.in_s == pytest.approx(2 * moved_s)
        measured = 4 * sum(survey.SIZES[:4])
        assert executor.ways.moved() == {"staged": measured + A.nbytes}  # both operands are one
        assert ("sim:far", "sim:near") not in executor.costs.links  # nobody has asked
        told = ctx.explain_devices()
        assert "    from sim:near: 40.9 us and 0.348 GB/s" in told
        assert "    to sim:far: 40.9 us and 0.348 GB/s" in told
        np.testing.assert_allclose(ctx.gemm(x, x, devices=["sim:far"]), A @ A, 1e-4, 1e-5)


def test_a_call_of_numpy_arrays_asks_for_no_such_way():
    with sim.on(machine()), sp.init(list(URIS), profile=False) as ctx:
        ctx.gemm(A, B)
        assert URIS not in ctx._executor.costs.links


@pytest.mark.parametrize("core", [False, True], ids=["ContextArray", "Array"])
def test_a_graph_reads_what_is_on_a_device_that_it_does_not_use(core):
    with sim.on(machine()), sp.init(list(URIS), profile=False) as ctx:
        far = ctx.devices[1]
        x = far.array(A) if core else ctx.array(A.shape, F32, device="sim:far").fill(A)
        with ctx.graph(devices=["sim:near"]) as g:
            g.gemm(x, B)
        np.testing.assert_allclose(g.run().numpy(), A @ B, 1e-4, 1e-5)
        assert ctx._executor.costs.links[URIS[::-1]].at(A.nbytes) > 0
        x.close()


def test_a_move_takes_the_nearest_copy():
    costs_from = {}
    there = machine(NEAR, FAR, SimDevice("sim:third", RATES, to_s=(1e-6, 1e10)))
    with sim.on(there), sp.init([*URIS, "sim:third"], profile=False) as ctx:
        executor = ctx._executor
        x = ctx.array(A.shape, F32, device="sim:far").fill(A)
        x.on("sim:near")
        ways.know(executor, URIS, ["sim:third"])
        for uri in URIS:
            costs_from[uri] = executor.costs.links[uri, "sim:third"].at(A.nbytes)
        assert executor.costs.nearest(A.nbytes, frozenset(URIS), "sim:third") == list(URIS)
        assert costs_from["sim:near"] < costs_from["sim:far"]
        before = there.clock.now_s
        np.testing.assert_array_equal(x.on("sim:third").numpy(), A)
        back_s = 1e-6 + A.nbytes * 1e-10  # of numpy()
        took_s = there.clock.now_s - before - back_s
        assert took_s == pytest.approx(costs_from["sim:near"], rel=0.05)


def test_graphs_are_placed_by_the_ways_that_were_measured(monkeypatch):
    placed = {}
    for each in (1e-12, 1e-3):
        with sim.on(machine()), sp.init(list(URIS), profile=False) as ctx:
            for uri in URIS:
                for name in ("gemm_f32", "map_f32:x0+#"):
                    fast = (uri == "sim:far") == (name == "gemm_f32")
                    points = [(n, n * (1e-9 if fast else 1e-6)) for n in (1e3, 1e6)]
                    ctx._executor.learn(uri, {name: points})
            monkeypatch.setattr(
                survey, "way", lambda *_, each=each, **__: [(n, n * each) for n in (1, 9)]
            )
            graph = TaskGraph(ctx._executor, URIS, fuse=False)
            with graph as g:
                x = g.gemm(A, B)
                y = g.map("x + 1", x=x)
                out = g.gemm(y, B)
            g.run()
            np.testing.assert_allclose(out.numpy(), (A @ B + 1) @ B, 1e-3, 1e-3)
            placed[each] = ctx.last_plan
            known = ctx._executor.costs.links
            assert known[URIS].b == known[URIS[::-1]].b == pytest.approx(each)
    assert set(placed[1e-12].devices) == set(URIS)
    assert len(placed[1e-3].devices) == 1
    assert len(placed[1e-12].moves) == 2
    assert not placed[1e-3].moves


def test_what_was_measured_of_a_pair_is_kept(tmp_path):
    def opened():
        devices = [sp.open(uri) for uri in URIS]
        return LocalExecutor(devices, default_clock(), profile.Profile(str(tmp_path)))

    def close(executor):
        for device in executor.devices.values():
            device.close()

    with sim.on(machine()):
        first = opened()
        ways.know(first, URIS, URIS)
        close(first)
        path = tmp_path / "profile.json"
        entries = json.loads(path.read_text())["devices"].values()
        names = sorted(name for entry in entries for name in entry)
        assert [name.partition("|")[0] for name in names] == [f"link:from {u}" for u in URIS[::-1]]
        again = opened()
        assert again.costs.links == first.costs.links
        close(again)
    # Another device in its place: other rates, another driver.
    with sim.on(machine(SimDevice("sim:near", RATES, to_s=(2e-5, 1e9)), FAR)):
        foreign = opened()
        assert not foreign.costs.links
        assert not foreign.costs.speeds
        close(foreign)
    with sim.on(machine(NEAR)):  # and one that is not there
        alone = [sp.open("sim:near")]
        one = LocalExecutor(alone, default_clock(), profile.Profile(str(tmp_path)))
        assert not one.costs.links
        close(one)
    path.write_text("{")
    with sim.on(machine()):
        damaged = opened()
        assert not damaged.costs.links
        ways.know(damaged, URIS, URIS)
        close(damaged)
    assert path.with_name("profile.json.damaged").read_text() == "{"
    assert len(json.loads(path.read_text())["devices"]) == 2


@pytest.mark.parametrize("pair", [("cuda:0", "cuda:1"), ("emu:gfx1036", "emu:gfx1100")])
def test_cards_of_one_kind_copy_to_one_another(opened, peers, pair):
    executor = LocalExecutor([opened(uri) for uri in pair], default_clock())
    ways.know(executor, pair, pair)
    for source, to in (pair, pair[::-1]):
        assert executor.costs.links[source, to].at(1 << 20) > 0
        del peers[:]
        x = filled(executor, source)
        np.testing.assert_array_equal(x.on(to).numpy(), A)
        assert peers == [(source, to, A.nbytes)]
        x.close()
    assert set(executor.ways.moved()) == {"peer"}


@pytest.mark.parametrize("to", ["egl:0", "emu:gfx1036", "cuda:0"])
def test_others_go_by_way_of_the_host(opened, peers, to):
    executor = LocalExecutor([opened("cpu"), opened(to)], default_clock())
    ways.know(executor, ("cpu", to), ("cpu", to))
    for pair in (("cpu", to), (to, "cpu")):
        assert executor.costs.links[pair].at(1 << 20) > 0  # memory that is one's own is not free
        x = filled(executor, pair[0])
        np.testing.assert_array_equal(x.on(pair[1]).numpy(), A)
        x.close()
    assert not peers


def test_a_copy_that_is_refused_goes_by_way_of_the_host(opened, monkeypatch, caplog):
    asked = []

    def refused(self, dst, src):
        asked.append(src.nbytes)
        raise KernelFault("no way")

    monkeypatch.setattr(Queue, "copy_peer", refused)
    pair = "cuda:0", "cuda:1"
    executor = LocalExecutor([opened(uri) for uri in pair], default_clock())
    x = filled(executor, pair[0])
    np.testing.assert_array_equal(x.on(pair[1]).numpy(), A)
    ways.know(executor, pair, pair)
    assert len(asked) == 2  # one that was refused is not asked again
    assert set(executor.ways.moved()) == {"staged"}
    assert executor.costs.links[pair].at(1 << 20) > 0
    assert "cuda:0 to cuda:1: stopped using peer: no way" in caplog.text


def test_a_way_that_cannot_be_measured_is_guessed_from_those_of_the_host(monkeypatch, caplog):
    def failing(*_, **__):
        raise DeviceLost("it went")

    monkeypatch.setattr(survey, "way", failing)
    with sim.on(machine()), sp.init(list(URIS), profile=False) as ctx:
        x = ctx.array(A.shape, F32, device="sim:near").fill(A)
        ctx.gemm(x, x, devices=["sim:far"])
        guessed = ctx.last_plan.candidates[0].cost.in_s
        assert guessed == pytest.approx(2 * (4e-5 + 1024 * 3e-9))
        x.fill(B)
        ctx.gemm(x, x, devices=["sim:far"])
        assert ctx._executor.costs.unmeasured == {URIS: Unmeasured(1, "it went")}
        assert caplog.text.count("sim:far: the probe of the way from sim:near failed: it went") == 1
        np.testing.assert_array_equal(x.on("sim:far").numpy(), B)


def test_transfers_end_in_time(monkeypatch):
    class Slow:
        """A clock by which each transfer takes as long as its bytes say."""

        now = 0.0

        def perf_counter(self):
            return self.now

    for each, most in ((1e-12, len(probe.TRANSFERS)), (1e-8, 3), (1e-7, 2), (1e-3, 1)):
        ours = Slow()
        monkeypatch.setattr(probe, "time", ours)

        def prepared(nbytes, stack, ours=ours, each=each):
            def once():
                ours.now += nbytes * each

            return once

        points = probe._moves(prepared, ours.perf_counter)
        assert len({n for n, _ in points}) == most
