"""Calls that several devices share, on real devices: numpy's results, whoever did what.

When this fails, a call on several devices gives other results than on one.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost
from sparkle_drv.sched.journal import journal_replay
from sparkle_drv.sched.run import shards
from sparkle_drv.sched.run.shared_plan import KeptShards
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.sim_links import SimLink
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

pytestmark = pytest.mark.usefixtures("short_probes")

F32 = np.float32
URIS = ("cpu:c0", "cpu:c1", "egl:0")


@pytest.fixture(scope="module")
def ctx():
    with sp.init(list(URIS), profile=False, topology="mesh") as made:
        yield made


@pytest.fixture
def ledgers(monkeypatch):
    """Those of the calls that follow."""
    kept, honest = [], shards.Ledger

    def made(*given):
        kept.append(honest(*given))
        return kept[-1]

    monkeypatch.setattr(shards, "Ledger", made)
    return kept


def plan(ctx) -> KeptShards:
    assert isinstance(ctx.last_plan, KeptShards)
    return ctx.last_plan


def all_worked(ctx, ledgers):
    """Each piece once, and each device did one at least."""
    (ledger,) = ledgers
    ledgers.clear()
    assert set(ledger.committed.values()) == {device.uri for device in ctx.devices}
    assert ledger.dropped == 0
    assert sum(p.end - p.begin for p in ledger.committed) == plan(ctx).shares.count


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(F32)


@pytest.mark.parametrize("seed", range(8))
def test_gemm_by_every_cut(ctx, ledgers, seed):
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in rng.integers(3, 70, 3))
    a, b = normal(rng, m, k), normal(rng, k, n)
    for reduce in ("none", "sum"):
        got = ctx.gemm(a, b, shards="each", reduce=reduce)
        np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4 * k)
        assert (plan(ctx).cut.name == "terms") == (reduce == "sum")
        all_worked(ctx, ledgers)
    bias, out = normal(rng, n), np.full((m, n), np.nan, F32)
    got = ctx.gemm(a, b, out, bias=bias, activation="relu", shards="each")
    assert got is out
    np.testing.assert_allclose(out, np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-4 * k)
    all_worked(ctx, ledgers)


def test_each_time_all_work_who_are_wanted(ctx, ledgers):
    """Also where one device is known to be enough."""
    a = normal(np.random.default_rng(5), 40, 8)
    for _ in range(8):
        ctx.gemm(a, a.T, shards="each")
        all_worked(ctx, ledgers)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("images", "channels", "cut"), [(3, 2, "images"), (1, 9, "channels")])
def test_conv2d_by_every_cut(ctx, ledgers, layout, images, channels, cut):
    rng = np.random.default_rng(images)
    x, w, bias = normal(rng, images, 4, 9, 8), normal(rng, channels, 4, 3, 3), normal(rng, channels)
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    got = ctx.conv2d(given, w, bias, padding=1, layout=layout, shards="each")
    assert plan(ctx).cut.name == cut
    all_worked(ctx, ledgers)
    alone = ctx.conv2d(given, w, bias, padding=1, layout=layout, topology="single")
    np.testing.assert_allclose(got, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reduce_along_every_axis(ctx, ledgers, op, axis):
    a = normal(np.random.default_rng(3), 37, 41)
    got = ctx.reduce(a, op, axis, shards="each")
    np.testing.assert_allclose(got, getattr(np, op)(a, axis), rtol=1e-4, atol=1e-3)
    all_worked(ctx, ledgers)
    kept = ctx.reduce(a, op, axis, keepdims=True, shards="each")
    assert kept.shape == getattr(np, op)(a, axis, keepdims=True).shape


def test_map_with_broadcast_operands(ctx, ledgers):
    rng = np.random.default_rng(4)
    x, row, column = normal(rng, 30, 20), normal(rng, 20), normal(rng, 30, 1)
    got = ctx.map("x * r + c * 2", x=x, r=row, c=column, shards="each")
    np.testing.assert_allclose(got, x * row + column * 2, rtol=1e-5)
    all_worked(ctx, ledgers)


def test_context_arrays_in_and_out(ctx, ledgers):
    a, b = ctx.array((40, 40), F32).fill_random(1), ctx.array((40, 40), F32).fill_random(2)
    made = ctx.gemm(a, b, shards="each")
    np.testing.assert_allclose(made.numpy(), a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-3)
    out = ctx.array((40, 40), F32)
    assert ctx.gemm(made, b, out, shards="each") is out
    np.testing.assert_allclose(out.numpy(), made.numpy() @ b.numpy(), rtol=1e-4, atol=1e-2)


def test_shares_are_those_that_were_said(ctx):
    a = np.ones((200, 64), F32)
    ctx.gemm(a, a.T.copy(), shards={"cpu:c0": 3, "egl": 1})
    shares = plan(ctx).shares
    assert shares.units("cpu:c0") == 3 * shares.units("egl:0")
    assert "cpu:c1" in shares.left_out
    assert "cpu:c0: " in ctx.explain_last_plan()


def test_one_device_is_enough_for_little_work(ctx):
    a = np.ones((8, 8), F32)
    assert (ctx.gemm(a, a) == 8).all()
    assert not isinstance(ctx.last_plan, KeptShards)
    assert (ctx.gemm(a, a, topology="single") == 8).all()


def test_each_takes_part_at_every_call(ctx, ledgers):
    """Where one device would be enough, too, and the plan is kept."""
    a = np.ones((8, 8), F32)
    for _ in range(5):
        assert (ctx.gemm(a, a, shards="each") == 8).all()
        all_worked(ctx, ledgers)


@pytest.mark.parametrize(
    ("how", "kind", "said"),
    [
        ({"shards": "all"}, ValueError, "shards: expected 'auto' or 'each', got 'all'"),
        ({"shards": 3}, TypeError, "shards: expected 'auto', 'each' or shares by URI, got 3"),
        ({"shards": {"cuda:9": 1}}, ValueError, "shards: expected one of .*, got 'cuda:9'"),
        ({"shards": {"cpu:c0": -1}}, ValueError, "expected"),
        ({"shards": {"cpu:c0": 0.0}}, ValueError, "expected"),
        ({"shards": {"cpu:c0": "a"}}, TypeError, "shards: expected a number for cpu:c0, got 'a'"),
        ({"shards": {"cpu:c0": 10**400}}, ValueError, "shards: expected a share from 0 to 1e.300"),
        ({"topology": "ring"}, ValueError, "topology: expected 'single' or 'mesh', got 'ring'"),
        ({"reduce": "max"}, ValueError, "reduce: expected 'none' or 'sum', got 'max'"),
        ({"reduce": "sum", "activation": "relu"}, ValueError, "reduce: expected 'none' beside"),
        ({"max_vram_gb": 0}, ValueError, "max_vram_gb: expected more than 0, got 0"),
        ({"max_vram_gb": "6"}, TypeError, "max_vram_gb: expected a number of 10"),
        ({"topology": "single", "shards": "each"}, ValueError, "shards: expected topology='mesh'"),
        ({"topology": "single", "reduce": "sum"}, ValueError, "reduce: expected topology='mesh'"),
    ],
)
def test_what_cannot_be_is_refused(ctx, how, kind, said):
    a, out = np.ones((64, 64), F32), np.zeros((64, 64), F32)
    with pytest.raises(kind, match=said):
        ctx.gemm(a, a, out, **how)
    assert not out.any()


@pytest.mark.parametrize(
    ("how", "dtype", "why"),
    [
        ({"cpu:c0": 1, "egl:0": 1}, np.int64, "egl:0: it has no .*float32 and int32, not int64"),
        ({"egl:0": 1, "cpu:c1": 0}, np.float64, "egl:0: it has no .* and int32, not float64"),
    ],
)
def test_a_device_that_was_said_and_cannot_take_part_is_refused_with_the_reason(
    ctx, how, dtype, why
):
    x = np.arange(600, dtype=dtype)
    told = f"expected some of cpu:c0, cpu:c1, got devices that cannot do the call: {why}"
    with pytest.raises(ValueError, match=told):
        ctx.map("x*2", x=x, shards=how)
    np.testing.assert_array_equal(ctx.map("x*2", x=x, shards={"cpu:c0": 1, "cpu:c1": 1}), x * 2)


def test_an_out_may_overlap_an_operand(ctx, ledgers):
    a = normal(np.random.default_rng(6), 65, 64)
    want = a[:64] @ a[1:]
    got = ctx.gemm(a[:64], a[1:], a[:64], shards="each")
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
    assert np.shares_memory(got, a)
    all_worked(ctx, ledgers)


NAMES = ("sim:5/gpu0", "sim:5/cpu")


@pytest.mark.parametrize("what", ["unplug", "reset", "pagefault"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_device_lost_in_the_middle(ledgers, what, at, caplog):
    rng = np.random.default_rng(at)
    a, b = normal(rng, 128, 64), normal(rng, 64, 96)
    with sp.init(list(NAMES), profile=False, topology="mesh") as ctx:
        ctx.gemm(a, b, shards="each")
        ledgers.clear()
        sim.apply(Schedule(0, [Fault("job", at, what)]), ctx.devices[0])
        for _ in range(2):
            got = ctx.gemm(a, b, shards="auto" if caplog.text else "each")
            np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-3)
        assert all(ledger.dropped == 0 for ledger in ledgers)
        assert NAMES[0] in caplog.text


def test_all_devices_lost(ledgers):
    a = np.ones((128, 64), F32)
    with sp.init(list(NAMES), profile=False, topology="mesh") as ctx:
        ctx.gemm(a, a.T.copy(), shards="each")
        for device in ctx.devices:
            sim.apply(Schedule(0, [Fault("job", 1, "unplug")]), device)
        with pytest.raises(DeviceLost, match="sim:5/"):
            ctx.gemm(a, a.T.copy(), shards="each")


def test_a_journal_decides_shares_again(tmp_path):
    a, b = normal(np.random.default_rng(7), 256, 64), normal(np.random.default_rng(8), 64, 256)
    with sp.init(list(NAMES), profile=False) as ctx:
        with ctx.trace("shared"):
            for how in ({"shards": "each"}, {"reduce": "sum", "shards": "each"}, {}):
                ctx.gemm(a, b, **how)
        ctx.save_trace(tmp_path / "t.json")
        predicted_s = plan(ctx).predicted_s if isinstance(ctx.last_plan, KeptShards) else 0.0
    again = journal_replay.replay(tmp_path / "t.json")
    shared = [one for one in again if one.op == "shares"]
    assert len(shared) >= 2
    assert all(one.same for one in again)
    assert shared[0].device == "+".join(sorted(NAMES))
    assert not predicted_s or predicted_s in [one.predicted_s for one in shared]
    without = journal_replay.replay(tmp_path / "t.json", rate={NAMES[0]: 2.0})
    assert any(one.now_predicted_s < one.predicted_s for one in without)


def test_with_deterministic_devices_calls_are_shared_where_they_ask():
    a = normal(np.random.default_rng(9), 256, 256)
    with sp.init(list(NAMES), profile=False, deterministic=True) as ctx:
        ctx.gemm(a, a)
        assert not isinstance(ctx.last_plan, KeptShards)
        ctx.gemm(a, a, shards="each", topology="mesh")
        assert isinstance(ctx.last_plan, KeptShards)


def test_who_computes_on_the_same_cores_waits_in_the_plan(ctx):
    a = normal(np.random.default_rng(10), 64, 64)
    for _ in range(2):
        ctx.gemm(a, a, shards="each")
    by_uri = {site.uri: set(site.shares) for site in plan(ctx).divided.sites}
    assert by_uri["cpu:c0"].isdisjoint(by_uri["cpu:c1"])
    assert by_uri["egl:0"] == by_uri["cpu:c0"] | by_uri["cpu:c1"]
    runs = {uri: ctx._executor.costs.speeds[plan(ctx).work.op, uri].runs for uri in URIS}
    ctx.gemm(a, a, shards="each")
    assert runs == {uri: ctx._executor.costs.speeds[plan(ctx).work.op, uri].runs for uri in URIS}


def test_a_limit_of_memory_holds_where_one_device_does_all():
    a = np.ones((256, 256), F32)
    alone = 3 * a.nbytes
    with sp.init(list(NAMES), profile=False) as ctx:
        ctx.gemm(a, a, topology="single")
        assert ctx.last_plan.device == NAMES[0], "the one with memory of its own is faster"
        for _ in range(4):
            ctx.gemm(a, a, max_vram_gb=(alone - 1) / 1e9)
            if isinstance(ctx.last_plan, KeptShards):
                part = plan(ctx).shares.units(NAMES[0]) / plan(ctx).shares.count
                assert a.nbytes * (1 + 2 * part) < alone
            else:
                assert ctx.last_plan.device == NAMES[1]
        with pytest.raises(ValueError, match=f"expected .*{NAMES[0]}"):
            ctx.gemm(a, a, devices=[NAMES[0]], max_vram_gb=1e-6)


@pytest.mark.parametrize("prefer_p2p", [True, False])
def test_what_a_peer_has_comes_from_there_where_that_is_faster(prefer_p2p):
    uris = ["sim:x", "sim:y"]
    devices = {
        uri: SimDevice(uri, {}, (1e-3, 1e6), other=Rate(1e-5, 1e7)) for uri in uris
    }  # fmt: skip
    links = {(a, b): SimLink(1e-6, 1e12) for a in uris for b in uris if a != b}
    a = normal(np.random.default_rng(11), 64, 64)
    with (
        sim.on(SimMachine(devices, random.Random(1), links=links)),
        sp.init(uris, profile=False) as ctx,
    ):
        b = ctx.array(a.shape, F32, device="sim:x").fill(a)
        moved = []
        for _ in range(2):  # the first call also measures the way
            got = ctx.gemm(a, b, shards="each", prefer_p2p=prefer_p2p)
            np.testing.assert_allclose(got.numpy(), a @ a, rtol=1e-4, atol=1e-3)
            moved.append(sum(ctx._executor.ways.moved().values()))
        assert plan(ctx).cut.name == "rows"
        assert moved[1] - moved[0] == (a.nbytes if prefer_p2p else 0)
