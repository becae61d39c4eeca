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
    "masked": (lambda o: o.gemm(np.ma.array(A), A), "a: a masked array"),
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


def test_a_context_has_three_types(ctx, monkeypatch):
    """Its devices need not take what one of them stores."""
    nothing_is_measured(monkeypatch)
    with pytest.raises(TypeError, match="the result would be bool, and a Context has"):
        ctx.map("x < y", x=A, y=A)
    for given in (A.astype(np.float16), A > 0):
        for call in (ctx.reduce, lambda x: ctx.map("x", x=x)):
            with pytest.raises(TypeError, match=f"takes float32 or .*, got {given.dtype}"):
                call(given)


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
