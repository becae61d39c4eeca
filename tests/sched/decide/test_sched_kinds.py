"""Which calls of a Context are placed, and that the others go to a device that is there.

When this fails, calls of a Context run on a device that cannot do them.
"""

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.errors import DeviceLost
from sparkle_drv.sched.operations.table import operation_of
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
CHANCE = np.random.default_rng(6)
X, ROW, COLUMN = (CHANCE.uniform(-1, 1, s).astype(F32) for s in ((60, 50), (50,), (60, 1)))
URIS = ["sim:near", "sim:far"]


@pytest.fixture(params=[0.0, 1.0], ids=["plain", "validated"])
def ctx(request):
    """The far one is much faster at everything."""
    near = SimDevice("sim:near", {}, other=Rate(1e-3, 1e6))
    far = SimDevice("sim:far", {}, to_s=(1e-6, 1e12), other=Rate(1e-6, 1e12))
    machine = SimMachine({d.uri: d for d in (near, far)}, random.Random(1))
    with sim.on(machine), sp.init(URIS, profile=False, validate=request.param) as made:
        yield made


@pytest.mark.parametrize("there", [False, True], ids=["numpy", "ContextArray"])
@pytest.mark.parametrize(
    ("text", "names", "want"),
    [
        ("x0*x1+x1", {"x0": X, "x1": ROW}, X * ROW + ROW),
        ("x0*x1", {"x0": COLUMN, "x1": ROW}, COLUMN * ROW),
        ("x0*x1+x2", {"x0": ROW[:1], "x1": X, "x2": COLUMN}, ROW[:1] * X + COLUMN),
    ],
)
def test_maps_whose_arrays_are_broadcast(ctx, there, text, names, want):
    given = names
    if there:
        given = {n: ctx.array(x.shape, F32).fill(x) for n, x in names.items()}
    out = np.zeros(want.shape, F32) if not there else ctx.array(want.shape, F32)
    np.testing.assert_allclose(ctx.map(text, **given), want, rtol=1e-6, atol=1e-6)
    assert ctx.map(text, out=out, **given) is out
    np.testing.assert_allclose(out, want, rtol=1e-6, atol=1e-6)
    work = ctx.last_plan.work
    assert ctx.last_plan.device == "sim:far"
    assert work.op == f"map_f32:{text}, broadcast"
    assert work.size == sum(x.nbytes for x in names.values()) + want.nbytes
    assert all(node.reliability.failures == 0 for node in ctx._executor.costs.nodes.values())


@pytest.mark.parametrize("there", [False, True], ids=["numpy", "ContextArray"])
@pytest.mark.parametrize("op", ["sum", "max", "mean"])
def test_reductions_that_keep_their_dimensions(ctx, there, op):
    a = ctx.array(X.shape, F32).fill(X) if there else X
    for axis in (None, 0, (0, 1)):
        want = getattr(X, op)(axis=axis, keepdims=True)
        got = ctx.reduce(a, op, axis, keepdims=True)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert ctx.last_plan.device == "sim:far"
        assert ctx.reduce(a, op, axis).shape == getattr(X, op)(axis=axis).shape
    assert all(node.reliability.failures == 0 for node in ctx._executor.costs.nodes.values())


@pytest.mark.parametrize("shapes", [((60, 1), (50,)), ((60, 50), (50,)), ((60, 50), (60, 50))])
def test_what_expressions_are_predicted_from_is_measured_at_several_sizes(ctx, shapes):
    """Where all is broadcast, too: of one size nothing follows for others."""
    x, y = (np.ones(shape, F32) for shape in shapes)
    with ctx.graph() as g:
        g.map("x*y", x=x, y=y)
    kind, _ = operation_of(g._tasks[0]).work_class(g._tasks[0])
    base, *chains = kind.predicted.base, *(term for term, _ in kind.predicted.terms)
    sizes = [base.probe(ctx.device, i)[1] for i in range(3)]
    assert sizes[0] * 3 < sizes[1] < sizes[2] / 3
    for chain in chains:
        assert chain.probe(ctx.device, 0)[1] * 3 < chain.probe(ctx.device, 1)[1]


UNPLACED = {
    "a function": lambda ctx: ctx.map(lambda v: v * 2, X),
    "of nothing": lambda ctx: ctx.map("x * 2", x=X[:0]),
    "an expression": lambda ctx: ctx.reduce("x * 2", x=X),
}


@pytest.mark.parametrize("name", UNPLACED)
def test_what_is_not_placed_leaves_a_device_that_is_lost(ctx, name):
    usual = np.array(UNPLACED[name](ctx))
    ctx._executor.failed("sim:near", DeviceLost("it went"))
    before = [dev.default_queue.submitted for dev in ctx.devices]
    np.testing.assert_array_equal(UNPLACED[name](ctx), usual)
    assert ctx.devices[0].default_queue.submitted == before[0]


@pytest.mark.parametrize("what", ["hang", "unplug"])
def test_what_is_not_placed_is_done_on_the_next_device_when_one_fails(ctx, what, caplog):
    sim.apply(Schedule(0, [Fault("job", 1, what)]), ctx.devices[0])
    np.testing.assert_array_equal(ctx.reduce("v * 2", "max", v=X), X.max() * 2)
    assert "sim:near: the call runs on another device" in caplog.text
    nodes = ctx._executor.costs.nodes
    assert nodes["sim:near"].reliability.failures > 0
    assert bool(nodes["sim:near"].lost) == (what == "unplug")


def test_without_another_device_the_error_is_told(ctx):
    sim.apply(Schedule(0, [Fault("job", 1, "hang")]), ctx.devices[0])
    with pytest.raises(sp.SparkleError, match="hang"):
        ctx.reduce("v * 2", v=X, devices=["sim:near"])


def test_what_is_not_placed_goes_to_a_device_that_has_the_types():
    wide = X.astype(np.float64)
    with sp.init(["egl:0", "cpu"], profile=False) as ctx:
        for empty in (wide[:0], wide):
            got = ctx.map(lambda v: v * 2, empty)
            np.testing.assert_array_equal(got, empty * 2)
            assert got.dtype == np.float64
        mixed = ctx.map(lambda v, w: v * w, X, np.full(50, 3, np.int32))
        np.testing.assert_allclose(mixed, X * 3.0, rtol=1e-6)
        assert np.isnan(ctx.reduce(wide[:0], "mean"))
        with pytest.raises(TypeError, match="egl:0 computes float32 and int32, not float64"):
            ctx.map(lambda v: v * 2, wide, devices=["egl:0"])
        assert all(n.reliability.failures == 0 for n in ctx._executor.costs.nodes.values())


WHOLE = np.arange(3, dtype=np.int32)
DEEP = "x - (" * 40 + "x" + ")" * 40
"""An expression that needs a deeper stack than the maps of egl:0 have."""


@pytest.mark.parametrize(
    ("run", "want"),
    [
        (lambda ctx: ctx.map("floor(x)", x=WHOLE[:0]), WHOLE[:0]),
        (lambda ctx: ctx.map(lambda x: np.floor(x), WHOLE), WHOLE),
        (lambda ctx: ctx.reduce("floor(x)", x=WHOLE), 3),
        (lambda ctx: np.floor(ctx.array((0,), np.int32) == 3), np.zeros(0, bool)),
        (lambda ctx: ctx.map(DEEP, x=WHOLE[:0]), WHOLE[:0]),
        (lambda ctx: ctx.reduce(DEEP, x=WHOLE), 3),
    ],
    ids=["empty", "a function", "a reduction", "an operator", "deep", "a deep reduction"],
)
def test_what_is_not_placed_goes_to_a_device_that_has_the_operation(run, want):
    with sp.init(["egl:0", "cpu"], profile=False) as ctx:
        got = np.asarray(run(ctx))
        np.testing.assert_array_equal(got, want)
        assert all(n.reliability.failures == 0 for n in ctx._executor.costs.nodes.values())
