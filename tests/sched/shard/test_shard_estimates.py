"""`Context.plan`: plans of calls without the calls.

When this fails, `Context.plan` promises another time than the call takes.
"""

from __future__ import annotations

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost
from sparkle_drv.sched.run.shared_plan import KeptShards

F32 = np.float32
URIS = ("cpu:c0", "cpu:c1", "egl:0")


@pytest.fixture(scope="module")
def ctx():
    with sp.init(list(URIS), profile=False, topology="mesh") as made:
        yield made


def like(*shape):
    return np.broadcast_to(F32(0), shape)


CALLS = [
    ("gemm", (like(256, 64), like(64, 128)), {"activation": "relu", "bias": like(128)}),
    ("gemm", (like(256, 64), like(64, 128)), {"reduce": "sum"}),
    ("conv2d", (like(8, 4, 16, 16), like(8, 4, 3, 3)), {"padding": 1}),
    ("map", ("x * y + 2",), {"x": like(256, 64), "y": like(64)}),
    ("reduce", (like(256, 64), "max", 1), {}),
]


@pytest.mark.parametrize(("op", "given", "options"), CALLS)
def test_it_is_the_plan_that_the_call_follows(ctx, op, given, options):
    getattr(ctx, op)(*given, **options, shards="each")  # so that all is measured
    last = ctx.last_plan
    queues = {d.uri: d.default_queue.submitted for d in ctx.devices}
    shared = ctx.plan(op, *given, **options, shards="each")
    options = {name: option for name, option in options.items() if name != "reduce"}
    alone = ctx.plan(op, *given, topology="single", **options)
    assert ctx.last_plan is last
    assert {d.uri: d.default_queue.submitted for d in ctx.devices} == queues
    assert isinstance(shared, KeptShards)
    assert set(shared.shares.parts) == set(URIS)
    assert (shared.work, shared.cut) == (last.work, last.cut)
    assert shared.work.op in shared.explain()
    assert alone.device in URIS
    assert {c.device for c in alone.candidates} == set(URIS)
    assert f"-> {alone.device}: " in alone.explain()
    assert min(shared.predicted_s, alone.predicted_s) > 0
    assert alone.predicted_s == min(c.cost.total_s for c in alone.candidates) or alone.explores


def test_context_arrays_count_where_they_are(ctx):
    x = ctx.array((64, 64), F32, device="egl:0")
    plan = ctx.plan("map", "x + 1", x=x, topology="single")
    assert plan.work.operands[0].places == frozenset({"egl:0"})
    assert x.places == ("egl:0",)


def test_a_map_of_context_arrays_is_shared(ctx):
    x = ctx.array((64, 3), F32).fill_random(1)
    y = ctx.map("x * 2", x=x, shards="each")
    assert isinstance(ctx.last_plan, KeptShards)
    np.testing.assert_array_equal(ctx.map("y * 2", y=y).numpy(), x.numpy() * 4)


@pytest.mark.parametrize(
    ("op", "given", "options", "error", "said"),
    [
        ("layout", (), {}, ValueError, "op: expected 'gemm' or 'conv2d' or 'map' or 'reduce', got"),
        ("gemm", (like(3, 4), like(5, 6)), {}, ValueError, r"got float32\[3, 4\], float32\[5, 6\]"),
        ("gemm", (like(0, 4), like(4, 6)), {}, ValueError, "expected operands of the operation"),
        ("gemm", (like(4, 4), like(4, 4)), {"bias": like(3)}, ValueError, "bias: expected shape"),
        ("gemm", (like(4, 4), [[1.0]]), {}, ValueError, r"got float32\[4, 4\], list"),
        ("gemm", (like(4, 4), like(4, 4)), {"shards": "all"}, ValueError, "shards: expected"),
        ("gemm", (like(4, 4), like(4, 4)), {"devices": ["cuda:9"]}, ValueError, "devices: "),
        ("reduce", (like(4, 4), "max", 2), {}, ValueError, "axis"),
        ("map", ("x + ",), {"x": like(4)}, ValueError, "x +"),
        ("map", ("x + y",), {"x": like(4)}, TypeError, "y: it stands"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned(ctx, op, given, options, error, said):
    with pytest.raises(error, match=said):
        ctx.plan(op, *given, **options)


def test_a_closed_context_plans_nothing():
    with sp.init(["cpu"], profile=False) as ctx:
        pass
    with pytest.raises(DeviceLost, match="the Context is closed"):
        ctx.plan("gemm", like(4, 4), like(4, 4))


@pytest.mark.parametrize("op", ["gemm", "conv2d", "map", "reduce"])
def test_prefer_p2p_is_a_bool(ctx, op):
    a = np.ones((4, 4, 4, 4), F32)
    given = {"gemm": (a[0, 0], a[0, 0]), "conv2d": (a, a), "map": ("x", a), "reduce": (a,)}[op]
    for topology in ("single", "mesh"):
        with pytest.raises(TypeError, match="prefer_p2p: expected True or False, got 1"):
            getattr(ctx, op)(*given, topology=topology, prefer_p2p=1)
    want = getattr(ctx, op)(*given)
    np.testing.assert_array_equal(getattr(ctx, op)(*given, prefer_p2p=False), want)
    assert ctx._placement(None, "mesh", "auto", None, False)[1].prefer_p2p is False
