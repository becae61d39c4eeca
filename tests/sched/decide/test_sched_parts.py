"""What a measured call took, by its parts, on simulated devices whose times are known.

When this fails, the explained parts of a call's time are wrong.
"""

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.model import explain
from sparkle_drv.sched.model.work import Cost, Measured
from sparkle_drv.testing import sim
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
LATENCY, BYTES = 1e-5, 1e9
LAUNCH, RATE = 1e-6, 1e9
SIDE = 16
FAR = "sim:far"
WORK_S = LAUNCH + 2 * SIDE**3 / RATE
MOVE_S = LATENCY + 4 * SIDE * SIDE / BYTES
"""Of one matrix."""


@pytest.fixture
def machine():
    near = SimDevice("sim:near", {"gemm_f32": Rate(1e-7, 1e8)})
    far = SimDevice(FAR, {"gemm_f32": Rate(LAUNCH, RATE)}, to_s=(LATENCY, BYTES))
    there = SimMachine({d.uri: d for d in (near, far)}, random.Random(1))
    with sim.on(there):
        yield there


@pytest.fixture
def ctx(machine):
    with sp.init(["sim:near", FAR], profile=False) as made:
        yield made


def matrices(n=SIDE, seed=3):
    return np.random.default_rng(seed).standard_normal((2, n, n)).astype(F32)


def parts(took):
    """(compute, in, out, convert), and they are all of it."""
    found = took.compute_s, took.in_s, took.out_s, took.convert_s
    assert took.total_s == pytest.approx(sum(found), abs=1e-12)
    return found


def near(*seconds):
    return pytest.approx(seconds, rel=1e-6, abs=1e-12)


def test_of_numpy_arrays_where_memory_is_the_devices_own(ctx, machine):
    a, b = matrices()
    first = ctx.gemm(a, b, devices=[FAR])
    assert ctx.last_plan.measured is None  # the first may allocate and compile
    assert "measured" not in ctx.explain_last_plan()
    before = machine.clock.now_s
    out = np.empty_like(a)
    assert ctx.gemm(a, b, out=out, devices=[FAR]) is out
    np.testing.assert_array_equal(out, first)
    took = ctx.last_plan.measured
    assert parts(took) == near(WORK_S, 2 * MOVE_S, MOVE_S, 0)
    assert took.total_s == pytest.approx(machine.clock.now_s - before)
    said = ctx.last_plan.candidates[0].cost
    assert (said.compute_s, said.in_s, said.out_s) == pytest.approx(parts(took)[:3], rel=0.01)
    words = ctx.explain_last_plan().splitlines()[-1]
    s = explain.seconds
    for name, part, predicted in (
        ("compute", took.compute_s, said.compute_s), ("in", took.in_s, said.in_s),
        ("out", took.out_s, said.out_s),
    ):  # fmt: skip
        assert f"{name} {s(part)} / {s(predicted)}, " in words
    assert words.startswith(f"measured {s(took.total_s)}, 1.00 times what was predicted; ")
    assert words.endswith("convert 0 s / 0 s; sync is part of compute")


def test_where_memory_is_the_hosts_nothing_comes_or_goes(ctx, machine):
    a, b = matrices()
    for _ in range(2):
        before = machine.clock.now_s
        ctx.gemm(a, b, devices=["sim:near"])
    took = ctx.last_plan.measured
    assert parts(took) == near(machine.clock.now_s - before, 0, 0, 0)
    assert took.compute_s > 0


def test_arrays_that_move_are_not_part_of_the_operation(ctx, machine):
    a, b = matrices()
    x = ctx.array(a.shape, F32, device="sim:near")
    for _ in range(2):
        x.fill(a)  # the copy that the last call made is gone
        made = ctx.gemm(x, b, devices=[FAR])
    # From near, whose memory is the host's, and of b; the result stays.
    assert parts(ctx.last_plan.measured) == near(WORK_S, 2 * MOVE_S, 0, 0)
    for _ in range(2):
        ctx.gemm(x, made, devices=[FAR])
    assert parts(ctx.last_plan.measured) == near(WORK_S, 0, 0, 0)
    out = ctx.array(a.shape, F32, device=FAR)
    for _ in range(2):
        assert ctx.gemm(x, made, out=out, devices=[FAR]) is out
    assert parts(ctx.last_plan.measured) == near(WORK_S, 0, 0, 0)
    np.testing.assert_allclose(out, a @ (a @ b), rtol=1e-3, atol=1e-4)


def test_what_was_queued_before_is_not_part_of_a_call(ctx):
    a, b = matrices()
    far = ctx.devices[1]
    x, y = (ctx.array(a.shape, F32, device=FAR).fill(m) for m in (a, b))
    for operands in ((a, b), (x, y)):
        ctx.gemm(*operands, devices=[FAR])
        with far.buffer(4) as told:
            far.default_queue.launch(far.kernel("busy_u32"), told, 10**6, groups=1)
            ctx.gemm(*operands, devices=[FAR])
        assert ctx.last_plan.measured.compute_s == pytest.approx(WORK_S)


def test_the_operation_is_learnt_from_its_own_time(ctx, machine):
    """A way that has become slow says nothing of the work at its end."""
    a, b = matrices()
    ctx.gemm(a, b, devices=[FAR])
    machine.devices[FAR].to_s = (20 * LATENCY, BYTES)
    speed = ctx._executor.costs.speeds["gemm_f32", FAR]
    for _ in range(3):
        ctx.gemm(a, b, devices=[FAR])
    assert speed.runs == 3
    assert speed.at(2 * SIDE**3) == pytest.approx(WORK_S, rel=0.01)
    assert ctx.last_plan.measured.in_s == pytest.approx(2 * (MOVE_S + 19 * LATENCY))
    assert "times what was predicted" in ctx.explain_last_plan()


def test_a_change_of_layout_has_its_own_time(ctx):
    image, weights = np.ones((1, 5, 5, 4), F32), np.ones((4, 4, 3, 3), F32)
    x = ctx.array(image.shape, F32, device=FAR, layout="NHWC").fill(image)
    w = ctx.array(weights.shape, F32, device=FAR).fill(weights)
    for _ in range(2):
        ctx.conv2d(x, w, layout="NCHW", devices=[FAR])
    took, said = ctx.last_plan.measured, ctx.last_plan.candidates[0].cost
    assert parts(took) == near(took.compute_s, 0, 0, took.convert_s)
    assert took.convert_s == pytest.approx(2e-6 + 2 * image.nbytes / 1e10)
    assert took.convert_s == pytest.approx(said.convert_s, rel=0.05)
    assert took.compute_s > 2e-6


def test_a_sum_in_the_order_of_memory_is_measured_as_a_whole(ctx, machine):
    chance = np.random.default_rng(5)
    a = chance.standard_normal((70, 50)).astype(F32).T
    want = ops.reduce(ctx.devices[1], a)
    for _ in range(6):
        before = machine.clock.now_s
        got = ctx.reduce(a, devices=[FAR])
        np.testing.assert_array_equal(got, want)  # measured or not
        took = ctx.last_plan.measured
    assert took == Measured(pytest.approx(machine.clock.now_s - before))
    assert "compute not measured / " in ctx.explain_last_plan()
    assert ctx._executor.costs.speeds["reduce_sum_f32", FAR].runs == 0
    ctx._executor.forget()
    for _ in range(2):
        ctx.reduce(np.ascontiguousarray(a), devices=[FAR])
    assert None not in parts(ctx.last_plan.measured)


@pytest.mark.parametrize("uri", [FAR, "egl:0"])
@pytest.mark.parametrize(
    "call",
    [
        lambda ctx, a, b, **at: ctx.gemm(a.T, b[::-1], bias=b[0], activation="relu", **at),
        lambda ctx, a, b, **at: ctx.map(
            "x*y + s - t", a.T, b.T, F32(0.3), np.array(2.0, F32), **at
        ),
        lambda ctx, a, b, **at: ctx.reduce(a, "mean", 0, **at),
        lambda ctx, a, b, **at: ctx.reduce(a.T, "sum", 1, **at),
        lambda ctx, a, b, **at: ctx.reduce(a[:, ::2], **at),
        lambda ctx, a, b, **at: ctx.conv2d(
            a.reshape(1, 5, 9, 9).transpose(0, 1, 3, 2), b.reshape(9, 5, 3, 3), bias=b[3], **at
        ),
        lambda ctx, a, b, **at: ctx.layout(
            a.reshape(1, 5, 9, 9).transpose(0, 1, 3, 2), "NHWC", source="NCHW", **at
        ),
    ],
    ids=["gemm", "map", "mean", "sum", "strides", "conv2d", "layout"],
)
def test_bits_are_the_same_measured_or_not(machine, uri, call):
    a, b = np.random.default_rng(3).standard_normal((2, 45, 9)).astype(F32)
    with sp.init([uri], profile=False) as ctx:
        first = call(ctx, a, b, devices=[uri])
        assert ctx.last_plan.measured is None
        for _ in range(3):
            got = call(ctx, a, b, devices=[uri])
            np.testing.assert_array_equal(got, first)
            assert (got.dtype, got.flags.writeable) == (first.dtype, first.flags.writeable)
            assert got.strides == first.strides
        assert ctx.last_plan.measured is not None
        with ctx.trace("t"):
            np.testing.assert_array_equal(call(ctx, a, b, devices=[uri]), first)


@pytest.mark.parametrize("traced", [False, True])
def test_what_ops_refuses_is_refused_in_its_words_when_it_is_measured(ctx, traced):
    a, b = matrices()
    wrong = (
        (a, b.astype(np.float64), None, TypeError, "b: "),
        (
            a,
            np.ma.masked_array(b),
            None,
            TypeError,
            "b: expected an array without a mask",
        ),
        (a, b, np.empty((3, 3), F32), ValueError, "out: "),
    )
    for x, y, out, kind, words in wrong:
        ctx._executor.forget()
        ctx.gemm(a, b, devices=[FAR])
        if traced:
            with ctx.trace("t"):
                ctx.gemm(a, b, devices=[FAR])
                with pytest.raises(kind, match=words):
                    ctx.gemm(x, y, out=out, devices=[FAR])
        else:
            with pytest.raises(kind, match=words):
                ctx.gemm(x, y, out=out, devices=[FAR])


def test_a_trace_shows_the_same_parts_and_no_journal_has_them(ctx, tmp_path):
    a, b = matrices()
    with ctx.trace("t") as trace:
        for _ in range(3):
            ctx.gemm(a, b, devices=[FAR])
        assert parts(ctx.last_plan.measured) == near(WORK_S, 2 * MOVE_S, MOVE_S, 0)
    assert not any('"measured"' in line for line in trace.journal)
    again_decided = list(journal.replay(trace.journal))
    assert len(again_decided) == 1
    assert again_decided[0][0] == again_decided[0][1]
    ctx.save_trace(tmp_path / "t.json")
    assert all(one.same for one in sp.replay(tmp_path / "t.json"))


def test_what_was_measured_is_no_part_of_what_was_decided(ctx):
    a, b = matrices()
    plans = []
    for _ in range(2):
        ctx.gemm(a, b, devices=[FAR])
        plans.append(ctx.last_plan)
    assert plans[0].measured != plans[1].measured
    assert plans[0] == plans[1]


def test_the_short_way_leaves_steps_to_the_long_one(ctx, monkeypatch):
    executor, (a, b) = ctx._executor, matrices()
    for uri, left in ((FAR, True), ("sim:near", False)):
        while executor.last is None or not executor.last.spare:
            ctx.gemm(a, b, devices=[uri])
        kept = executor.last
        with monkeypatch.context() as patch:
            patch.setattr(executor, "run", lambda *_, **__: None)
            assert ctx.gemm(a, b, devices=[uri]) is not None
            kept.spare, kept.measured = 0, None
            assert (ctx.gemm(a, b, devices=[uri]) is None) == left
        assert (kept.measured is None) == left
        executor.last = None


def test_tasks_of_a_graph(ctx):
    a, b = matrices()
    with ctx.graph(devices=[FAR]) as g:
        g.gemm(g.gemm(a, b), b)
    for _ in range(2):
        g.run()
    first, second = (task.measured for task in ctx.last_plan.tasks)
    fetched = ctx.last_plan.tasks[1].work.out_place  # by whoever wants it, later
    assert first.compute_s == second.compute_s == pytest.approx(WORK_S)
    assert first.in_s == pytest.approx(2 * MOVE_S)  # b is there then
    assert (second.in_s, first.out_s, second.out_s) == (0, 0, None if fetched else 0)
    assert first.total_s == pytest.approx(WORK_S + 2 * MOVE_S)
    told = [line for line in ctx.explain_last_plan().splitlines() if "    measured " in line]
    assert len(told) == 2
    assert ("out not measured / " in told[1]) == bool(fetched)


def test_a_part_that_was_not_measured_is_not_compared():
    cost = Cost(compute_s=1.0, in_s=1.0, out_s=2.0)
    told = explain.measured(Measured(3.0, 2.0, 1.0, None, 0.0), cost)
    assert told.startswith("measured 3 s, 1.50 times")
    told = explain.measured(Measured(6.0), cost)
    assert told.startswith("measured 6 s, 1.50 times")
    assert told.count("not measured") == 4
