"""Calls of a Context at the edges: what `ops` would refuse is refused before anything is measured,
and what `ops` takes is done.

When this fails, a wrong call of a Context is measured and started before it is refused.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.mesh import survey
from sparkle_drv.mesh.links import probe as link_probe
from sparkle_drv.sched.run import probe

pytestmark = pytest.mark.usefixtures("short_probes")

F32 = np.float32
A = np.random.default_rng(4).random((6, 6), F32)
IMAGE, FILTERS = np.ones((1, 4, 8, 8), F32), np.ones((4, 4, 3, 3), F32)


@pytest.fixture(scope="module")
def ctx():
    with sp.init(["cpu", "egl:0"], profile=False) as made:
        yield made


def nothing_is_measured(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("something was measured")

    monkeypatch.setattr(probe, "speeds", fail)
    monkeypatch.setattr(link_probe, "links", fail)
    monkeypatch.setattr(survey, "way", fail)


def arrays(n):
    return {f"x{i}": np.ones(3, F32) for i in range(n)}


WHOLE = np.arange(3, dtype=np.int32)
REFUSED = {
    "nine arrays": (lambda o: o.map("+".join(arrays(9)), **arrays(9)), "at most 8"),
    "a complex number": (lambda o: o.map("x + a", x=A, a=1j), "a: expected a real number"),
    "no number": (lambda o: o.map("x + a", x=A, a=None), "a: expected a numpy array"),
    "a number too large": (lambda o: o.map("x + a", x=WHOLE, a=1 << 40), "a: 1099511627776 does"),
    "a literal too large": (lambda o: o.map("x + 99999999999", x=WHOLE), "does not fit i32"),
    "powers of i32": (lambda o: o.map("x ** y", x=WHOLE, y=WHOLE), "written as a number"),
    "a negated truth": (lambda o: o.map("-(x < y)", x=A, y=A), "no neg of bool"),
    "a list": (lambda o: o.map("x + a", x=A, a=[1.0]), "a: expected a numpy array"),
    "map out": (lambda o: o.map("x + 1", x=A, out=np.zeros(3, F32)), "out: expected shape"),
    "axis": (lambda o: o.reduce(A, "sum", 7), "axis: expected -2 to 1"),
    "dtypes": (lambda o: o.gemm(A.astype(np.float64), A), "b: expected float64"),
    "masked": (lambda o: o.gemm(np.ma.array(A), A), "a: expected an array without a mask"),
    "bias": (lambda o: o.gemm(A, A, bias=A[0, :3]), "bias: expected shape"),
    "out": (lambda o: o.gemm(A, A, A[:3].copy()), "out: expected shape"),
    "activation": (lambda o: o.gemm(A, A, activation="x"), "activation: expected None"),
    "algo": (lambda o: o.gemm(A, A, algo="x"), "algo: "),
    "option": (lambda o: o.gemm(A, A, colour=1), "colour"),
    "conv2d bias": (lambda o: o.conv2d(IMAGE, FILTERS, A[0]), "bias: expected shape"),
    "conv2d out": (lambda o: o.conv2d(IMAGE, FILTERS, out=IMAGE.copy()), "out: expected shape"),
    "conv2d algo": (lambda o: o.conv2d(IMAGE, FILTERS, algo="fft"), "algo: "),
    "conv2d activation": (
        lambda o: o.conv2d(IMAGE, FILTERS, activation=5),
        "activation: expected None",
    ),
    "layout out": (lambda o: o.layout(IMAGE, "NHWC", out=IMAGE.copy()), "out: expected shape"),
}


class Ops:
    """`ops` on one device, called as a Context is."""

    def __init__(self, device):
        self.device = device

    def __getattr__(self, name):
        return lambda *args, **more: getattr(ops, name)(self.device, *args, **more)


@pytest.mark.parametrize("name", REFUSED)
def test_a_context_refuses_what_ops_refuse_before_it_measures(ctx, monkeypatch, name):
    call, said = REFUSED[name]
    nothing_is_measured(monkeypatch)
    errors = []
    for one in (Ops(ctx.device), ctx):
        with pytest.raises((TypeError, ValueError)) as caught:
            call(one)
        errors.append((type(caught.value), str(caught.value)))
    assert errors[0] == errors[1]
    assert said in errors[1][1]


def test_types_that_no_device_has_are_a_type_error_and_nothing_is_submitted(ctx):
    """The cpu has them, so beside it they are no error."""
    whole, small = WHOLE.astype(np.int64), WHOLE.astype(np.uint8)
    calls = {
        "map_i64": lambda **more: ctx.map("x + x", x=whole, **more),
        "map_bool_u8": lambda **more: ctx.map("x < x", x=small, **more),
        "map_f16_f32": lambda **more: ctx.map("x*x + x", x=small.astype(np.float16), **more),
        "reduce_sum_i64": lambda **more: ctx.reduce(whole, **more),
    }
    for name, call in calls.items():
        call()
        assert ctx.last_plan.device == "cpu"
        before = ctx.devices[1].default_queue.submitted
        told = f"{name}.*: no device can do the work: egl:0: it has no"
        with pytest.raises(TypeError, match=told):
            call(devices=["egl:0"])
        assert ctx.devices[1].default_queue.submitted == before
    with ctx.graph(devices=["egl:0"]) as g:
        g.map("x + x", x=whole)
    with pytest.raises(TypeError, match="no device can do the work"):
        g.run()


@pytest.fixture(scope="module", params=[("cpu",), ("cpu", "emu:gfx1036"), ("egl:0",)], ids="+".join)
def typed(request):
    """A Context, and what its calls are asked for: several devices share them if there are."""
    with sp.init(list(request.param), profile=False) as made:
        yield made, {"shards": "each"} if len(request.param) > 1 else {}


def numbers(dtype, seed):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    values = np.random.default_rng(seed).integers(-9, 10, (40, 6))
    if dtype == "bool":
        return values > 0
    return (np.abs(values) if dtype == "uint8" else values).astype(dtype)


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


TYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "float16", "bfloat16")
MAPS = {
    "x + y": lambda x, y: x + y,
    "x * y + x": lambda x, y: x * y + x,
    "x < y": lambda x, y: x < y,
    "where(x > y, x, y)": lambda x, y: np.where(x > y, x, y),
}


def on_egl(dtype, text):
    """It computes in float32 and int32, truths too, and rounds to 16 bits once."""
    whole = dtype in ("float32", "int32", "bool")
    return whole or (dtype in ("float16", "bfloat16") and "*" not in text)


@pytest.mark.parametrize("dtype", TYPES)
def test_maps_have_numpys_type_and_elements(typed, dtype):
    """Of numpy arrays and of ContextArrays, on one device and on several."""
    ctx, how = typed
    x, y = numbers(dtype, 1), numbers(dtype, 2)
    held = {"x": ctx.array(x.shape, x.dtype).fill(x), "y": ctx.array(y.shape, y.dtype).fill(y)}
    for text, judge in MAPS.items():
        want = np.asarray(judge(x, y))
        out = np.empty_like(want)
        there = ctx.array(want.shape, want.dtype, ctx.devices[-1].uri)
        if ctx.device.uri == "egl:0" and not on_egl(dtype, text):
            with pytest.raises(TypeError, match="no device can do the work"):
                ctx.map(text, x=x, y=y)
            continue
        same(ctx.map(text, x=x, y=y, **how), want)
        same(ctx.map(text, **held, **how), want)
        assert ctx.map(text, x=x, y=y, out=out, **how) is out
        assert ctx.map(text, **held, out=there, **how) is there
        same(out, want)
        same(there, want)


@pytest.mark.parametrize("dtype", TYPES)
def test_reductions_and_graphs_have_numpys_type_and_elements(typed, dtype):
    ctx, how = typed
    x, y = numbers(dtype, 3), numbers(dtype, 4)
    cpu = ctx.device.uri == "cpu"
    held, whole = ctx.array(x.shape, x.dtype).fill(x), x.dtype.kind in "iub"
    for op in ("sum", "max", *(() if whole else ("mean",))):
        if not cpu and (dtype == "int64" or (op, dtype) == ("mean", "float64")):
            with pytest.raises(TypeError, match="no device can do the work"):
                ctx.reduce(x, op)
            same(getattr(held, op)(), getattr(x, op)())  # the host does it
            continue
        for axis in (None, 0, 1):
            want = getattr(np, op)(x, axis)
            same(ctx.reduce(x, op, axis, **how), want)
            same(ctx.reduce(held, op, axis, **how), want)
            same(getattr(held, op)(axis), want)
    for fuse in (True, False) if cpu else ():
        with ctx.graph(fuse=fuse) as g:
            given = g.input(y.shape, y.dtype)
            more = g.map("x < y", x=held, y=given)
            made = g.map("where(more, x, y)", more=more, x=held, y=given)
            g.output(more, made, g.reduce(made, "max", 1), g.reduce("x < y", "sum", x=x, y=given))
        wanted = x < y, np.where(x < y, x, y), np.where(x < y, x, y).max(1), (x < y).sum()
        for got, want in zip(g.run({given: y}), wanted, strict=True):
            same(got, want)


def test_results_say_that_the_host_converted_them(ctx):
    half = ctx.array(WHOLE.shape, np.float16).fill(WHOLE)
    told = "map of float32 on egl:0; the host converted float16"
    assert ctx.map("x + x", x=half, devices=["egl:0"]).explain() == told
    assert ctx.map("x + x", x=half, devices=["cpu"]).explain() == ""


def test_what_a_device_does_in_two_maps_is_not_merged_into_none(ctx):
    real = WHOLE.astype(F32)
    with ctx.graph(devices=["egl:0"]) as g:  # it computes in one type at a time
        g.map("where(b, y, 0)", b=g.map("x > 1", x=WHOLE), y=real)
    np.testing.assert_array_equal(g.run(), np.where(WHOLE > 1, real, 0))
    assert len(ctx.last_plan.tasks) == 2


def test_sums_of_16_bits_are_rounded_once(typed):
    """Each part of a sum that devices share would be rounded: 2049 is no float16."""
    ctx, how = typed
    x = np.array([2048, 1, 1], np.float16)
    same(ctx.reduce(x, **how), np.float16(2050))


def test_arrays_of_a_context_are_refused_alike(ctx, monkeypatch):
    x = ctx.array((6, 6), F32).fill(A)
    nothing_is_measured(monkeypatch)
    with pytest.raises(TypeError, match="out: expected an Array because a is one"):
        ctx.gemm(x, A, np.zeros((6, 6), F32))
    with pytest.raises(ValueError, match=r"out: expected shape \(6, 6\)"):
        ctx.map("x + 1", x=A, out=ctx.array((6, 5), F32))
    with pytest.raises(TypeError, match="out: expected float32"):
        ctx.gemm(x, x, ctx.array((6, 6), np.float64))


def test_what_one_call_was_refused_for_is_not_held_against_others(ctx):
    with pytest.raises(TypeError, match="a real number"):
        ctx.map("x - a", x=A, a=1j)
    np.testing.assert_array_equal(ctx.map("x - a", x=A, a=1 << 70), A - F32(1 << 70))


def test_types_that_egl_cannot_mix_go_to_the_cpu_and_others_still_to_egl(ctx):
    for a, devices in ((0.5, None), (2, ["egl:0"])):
        got = ctx.map("x * a + 1", x=WHOLE, a=a, devices=devices)
        np.testing.assert_array_equal(got, WHOLE * a + 1)
        assert got.dtype == (WHOLE * a + 1).dtype
    wide = A.astype(np.float64)
    np.testing.assert_allclose(ctx.map("x + y", x=A, y=wide), A + wide)


@pytest.mark.parametrize("uri", ["cpu", "egl:0"])
def test_arrays_without_dimensions_are_operands(ctx, uri):
    x = ctx.array((6, 6), F32, device=uri).fill(A)
    total = ctx.reduce(x, devices=[uri])
    assert total.shape == ()
    np.testing.assert_allclose(ctx.map("x / s", x=x, s=total), A / A.sum(), rtol=1e-5)
    np.testing.assert_allclose(ctx.map("s + 1", total).numpy(), A.sum() + 1, rtol=1e-5)
    beside = ctx.map("x * s", x=A, s=total)
    assert isinstance(beside, type(x))
    np.testing.assert_allclose(beside, A * A.sum(), rtol=1e-5)
    np.testing.assert_allclose(ctx.map(lambda v, w: v + w, x, total), A + A.sum(), rtol=1e-5)
    there = ctx.devices[0].array(F32(3))
    assert ctx.map("x + 1", x=there, devices=["egl:0"]).numpy() == 4


def test_what_does_not_fit_is_told_before_anything_is_measured(monkeypatch):
    far = np.broadcast_to(F32(0), (1, 8, 1 << 18, 1 << 18))
    line = far.reshape(-1)
    with sp.init(["cpu", "egl:0"], profile=False) as fresh:
        nothing_is_measured(monkeypatch)
        for call in (
            lambda: fresh.layout(far, "NHWC"),
            lambda: fresh.reduce(line),
            lambda: fresh.map("x + 1", x=line),
            lambda: fresh.gemm(line[: 1 << 20, None], line[None, : 1 << 20]),
        ):
            with pytest.raises(ValueError, match=r"cpu: \d+ bytes are needed, it has \d+; egl:0"):
                call()
