"""Calls that real devices and an emulated one share, cut in every way on random shapes. In each a
device dies, the caller is interrupted, threads run beside one another, or a child forks.

When this fails, a device that dies during a shared call costs its result.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import numpy as np
import pytest
import shardrig

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost
from sparkle_drv.sched.run import shards
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

pytestmark = pytest.mark.usefixtures("short_probes")

LONG = bool(os.environ.get("SPARKLE_FUZZ_SHARDS"))
URIS = ("cpu", "egl:0", "emu:gfx1100")
CPUS = ["cpu:c0", "cpu:c1"]
BOUND_S = 30.0
"""Real seconds of a call on an emulated card that fails."""


@pytest.fixture(scope="module")
def ctx():
    with sp.init(list(URIS), profile=False) as made:
        yield made


@pytest.fixture
def cpus():
    with sp.init(CPUS, profile=False) as made:
        yield made


@pytest.mark.timeout(600 if LONG else 120)
def test_every_cut_on_random_shapes(ctx, monkeypatch):
    ledgers = shardrig.counted(monkeypatch)
    for seed in range(50 if LONG else 3):
        for name, (call, want) in shardrig.calls(np.random.default_rng(seed), most=90).items():
            shardrig.right(call(ctx, shards="each"), want)
            plan = ctx.last_plan
            if name in ("terms", "images", "channels"):
                assert plan.cut.name == name
            assert plan.done.units.keys() == set(URIS), (seed, name, ctx.explain_last_plan())
            shardrig.written_once(ledgers, plan)


@pytest.mark.parametrize("uri", URIS)
def test_one_is_killed_in_each(uri, monkeypatch, caplog):
    """It fails at a piece of every call, until nobody gives it one any more."""
    honest = shards.Pieces._computed

    def computed(self, device, *given):
        if device.uri == uri:
            raise DeviceLost(f"{uri}: planted")
        return honest(self, device, *given)

    ledgers = shardrig.counted(monkeypatch)
    wanted = shardrig.calls(np.random.default_rng(5), most=60)
    for name in ("rows", "terms", "images", "channels"):
        caplog.clear()
        call, want = wanted[name]
        with sp.init(list(URIS), profile=False) as ctx, monkeypatch.context() as killed:
            killed.setattr(shards.Pieces, "_computed", computed)
            shardrig.right(call(ctx, shards="each"), want)
            assert ctx.last_plan.done.lost == {uri: f"{uri}: planted"}
            assert f"{uri}: planted" in caplog.text
            assert f"{uri} was lost" in ctx.explain_last_plan()
            shardrig.written_once(ledgers, ctx.last_plan)
            shardrig.right(call(ctx, shards="each"), want)
            assert uri not in ctx.last_plan.done.units


@pytest.mark.parametrize("seed", range(100 if LONG else 3))
def test_an_emulated_card_fails_in_mid_run(seed, monkeypatch, caplog):
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    what = ("unplug", "reset", "pagefault", "hang")[seed % 4]
    ledgers = shardrig.counted(monkeypatch)
    wanted = shardrig.calls(rng, most=60)
    call, want = wanted[("rows", "terms", "images", "channels")[seed // 4 % 4]]
    uris = ["cpu", "emu:gfx1036"]
    with Machine(["gfx1036"]) as machine, emu.on(machine), sp.init(uris, profile=False) as ctx:
        shardrig.right(call(ctx, shards="each"), want)
        apply(Schedule(0, [Fault("job", chance.randint(1, 4), what)]), machine)
        for _ in range(4):
            begin = time.monotonic()
            shardrig.right(call(ctx, shards="each"), want)
            assert time.monotonic() - begin < BOUND_S
            shardrig.written_once(ledgers, ctx.last_plan)
        assert happened(machine)[what] == 1
        if what != "reset":  # the driver goes on behind that one
            assert "emu:gfx1036" in caplog.text


def test_ctrl_c_leaves_nothing_broken(cpus, monkeypatch):
    """Results of pieces that end after it go nowhere."""
    a, out = np.ones((256, 64), np.float32), np.full((256, 256), np.nan, np.float32)
    cpus.gemm(a, a.T, shards="each")
    honest, on, before = shards.Pieces._computed, threading.Event(), set(threading.enumerate())
    sent = []

    def computed(self, *given):
        if not sent:
            sent.append(None)
            os.kill(os.getpid(), signal.SIGINT)
        on.wait(30)
        return honest(self, *given)

    monkeypatch.setattr(shards.Pieces, "_computed", computed)
    with pytest.raises(KeyboardInterrupt):
        cpus.gemm(a, a.T, out, shards="each")
    monkeypatch.setattr(shards.Pieces, "_computed", honest)
    on.set()
    assert not shardrig.ended(before)
    assert np.isnan(out).all()
    assert (cpus.gemm(a, a.T, out, shards="each") == 64).all()
    assert cpus.last_plan.done.units.keys() == set(CPUS)


def test_threads_call_beside_one_another(cpus):
    """Each gets its own result, also within a thread that a call of ours has started."""
    rng, wrong = np.random.default_rng(1), []

    def calls(seed):
        a = rng.standard_normal((64 + seed, 48)).astype(np.float32)
        for _ in range(10):
            if not np.allclose(cpus.gemm(a, a.T, shards="each"), a @ a.T, atol=1e-3):
                wrong.append(seed)

    threads = [threading.Thread(target=calls, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_a_call_within_a_thread_of_a_call(cpus, monkeypatch):
    a, made = np.ones((64, 48), np.float32), []
    cpus.gemm(a, a.T, shards="each")
    honest = shards.Pieces._computed

    def computed(self, *given):
        if not made:
            made.append(None)
            made.append(cpus.gemm(a, a.T, shards="each"))
        return honest(self, *given)

    monkeypatch.setattr(shards.Pieces, "_computed", computed)
    assert (cpus.gemm(a, a.T, shards="each") == 48).all()
    assert (made[1] == 48).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork beside threads
def test_a_forked_child_is_refused(cpus):
    a = np.ones((64, 48), np.float32)
    cpus.gemm(a, a.T, shards="each")
    child = os.fork()
    if not child:
        try:
            cpus.gemm(a, a.T, shards="each")
        except DeviceLost:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (cpus.gemm(a, a.T, shards="each") == 48).all()
