"""Reductions of expressions in one pass: ops.reduce of text, functions and strided arrays.

When this fails, a reduction of an expression is wrong.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparkle_drv as sp
from sparkle_drv.ops import functions, lazy, map, reduce, traced

OPS = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


def numbers(dtype, shape, seed=3):
    rng = np.random.default_rng(seed)
    if dtype == np.int32:
        return rng.integers(-99, 99, shape, dtype=np.int32)
    return rng.standard_normal(shape).astype(dtype)


def check(got, x, y, op, axis, keepdims=False):
    """`op` of relu(x)*y, in float64 or int64."""
    wide = np.longdouble if x.dtype.kind == "f" else np.int64  # numpy adds rows one by one
    terms = np.maximum(x.astype(wide), 0) * y.astype(wide)
    want = OPS[op](terms, axis=axis, keepdims=keepdims)
    result = x.dtype if x.dtype != np.int32 or op != "sum" else np.dtype(np.int64)
    assert got.dtype == result
    assert got.shape == want.shape
    if x.dtype == np.int32:
        np.testing.assert_array_equal(got, want)
    else:
        scale = np.sqrt(terms.size) if op == "sum" else 1
        eps = np.finfo(x.dtype).eps
        np.testing.assert_allclose(got, want, rtol=8 * eps, atol=8 * eps * scale)


SHAPES = [
    ((1,), None), ((5,), 0), ((300_001,), None), ((7, 70_001), 1), ((70_001, 7), 0), ((3000, 3), 1),
    ((3000, 3), 0), ((40, 600), 0), ((40, 600), 1), ((3, 5, 7, 11), (0, 2)), ((2, 1, 3), 1),
    ((4, 8, 30, 31), (0, 2, 3)), ((4, 8, 30, 31), 1), ((2, 1, 3), ()), ((1500, 700), 0),
    ((1500, 700), None), ((200, 1000), 0), ((65, 33, 40), (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_shapes(dev, shape, axis, dtype):
    x, y = numbers(dtype, shape), numbers(dtype, shape, 4)
    for op in OPS:
        if op == "mean" and dtype == np.int32:
            continue
        check(reduce(dev, "relu(x)*y", op, axis, x=x, y=y), x, y, op, axis)
        check(reduce(dev, lazy("relu(x)*y", x, y), op, axis, keepdims=True), x, y, op, axis, True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_instruction_sets(isa_dev, dtype):
    for shape, axis in SHAPES[::2]:
        x, y = numbers(dtype, shape), numbers(dtype, shape, 4)
        for op in ("sum", "max"):
            check(reduce(isa_dev, "relu(x)*y", op, axis, x=x, y=y), x, y, op, axis)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_strides_and_broadcasting(dev, data):
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 9, 40]), min_size=1, max_size=4))
    axis = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    order = data.draw(st.permutations(range(len(shape))))
    step = [data.draw(st.sampled_from([1, 2, -1])) for _ in shape]
    x = numbers(np.float32, [shape[d] * 2 for d in order]).transpose(np.argsort(order))
    x = x[tuple(slice(None, None, s) for s in step)][tuple(slice(n) for n in shape)]
    y = numbers(np.float32, [data.draw(st.sampled_from([1, n])) for n in shape], 4)
    got = reduce(dev, "relu(x)*y", "sum", tuple(axis), x=x, y=y)
    check(got, x, np.broadcast_to(y, x.shape), "sum", tuple(axis))
    np.testing.assert_allclose(
        reduce(dev, x, "sum", tuple(axis)), x.sum(tuple(axis), dtype=float), rtol=1e-5, atol=1e-5
    )


def test_types_are_those_of_the_expression(dev):
    x, i = numbers(np.float32, 50), numbers(np.int32, 50)
    assert reduce(dev, "x*i", x=x, i=i).dtype == np.float64
    assert reduce(dev, "i", i=i).dtype == np.int64
    assert reduce(dev, "x*a", "mean", x=x, a=2).dtype == np.float32
    assert reduce(dev, "max(i, 0)", "max", i=i).dtype == np.int32
    assert reduce(dev, "where(x > 0, 1.0, 0.0)*x", x=x).dtype == np.float64


def test_functions(dev):
    x, y = numbers(np.float64, (30, 40)), numbers(np.float64, (30, 40), 4)

    def squares(x, y):
        return (x - y) ** 2 + functions.relu(x)

    want = squares(x, y).mean(axis=0)
    np.testing.assert_allclose(reduce(dev, squares, "mean", 0, x=x, y=y), want)
    np.testing.assert_allclose(reduce(dev, lazy(traced(squares), x, y), "mean", 0), want)


def test_arrays_of_the_device(dev):
    x, y = numbers(np.float32, (60, 70)), numbers(np.float32, (60, 70), 4)
    a = dev.array(x)
    for axis in (None, 0, 1):
        got = reduce(dev, "relu(x)*y", "sum", axis, x=a, y=y)
        assert got.fence.wait().done
        check(got.numpy(), x, y, "sum", axis)
    assert reduce(dev, "x", "sum", 0, keepdims=True, x=a).shape == (1, 70)


def test_nan_wins_and_infinities_stay(dev):
    x = np.arange(3000, dtype=np.float32)
    x[[7, 2900]] = [np.inf, np.nan]
    for op in OPS:
        assert np.isnan(reduce(dev, "x + 0", op, x=x))
    x[2900] = 0
    assert reduce(dev, "x + 0", x=x) == np.inf
    assert reduce(dev, "-x", "min", x=x) == -np.inf


def test_i32_sums_do_not_wrap_but_terms_do(dev):
    x = np.full(1000, 2**31 - 1, np.int32)
    assert reduce(dev, "x", x=x) == 1000 * (2**31 - 1)
    assert reduce(dev, "x + 1", x=x) == -1000 * 2**31


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_do_not_change_bits(monkeypatch, threads):
    x = numbers(np.float32, (1000, 1001)) * np.float32(1e4)
    cases = [("exp(-x*x)", None), ("x*1.1", 0), ("x*1.1", 1), ("x/3", None)]
    with sp.open("cpu") as device:
        want = [reduce(device, text, "sum", axis, x=x) for text, axis in cases]
    monkeypatch.setenv("SPARKLE_THREADS", str(threads))
    with sp.open("cpu") as device:
        for (text, axis), one in zip(cases, want, strict=True):
            np.testing.assert_array_equal(reduce(device, text, "sum", axis, x=x), one)


def test_nothing_to_reduce(dev):
    empty = np.ones((0, 3), np.float32)
    assert reduce(dev, "x*2", x=empty) == 0
    np.testing.assert_array_equal(reduce(dev, "x*2", "sum", 0, x=empty), np.zeros(3))
    assert reduce(dev, "x*2", "sum", 1, x=empty).shape == (0,)
    with pytest.raises(ValueError, match="max over no elements"):
        reduce(dev, "x*2", "max", 0, x=empty)


def test_many_dimensions(dev):
    x = numbers(np.float32, (2,) * 11).transpose(np.random.default_rng(1).permutation(11))
    y = numbers(np.float32, (2,) * 11, 4)
    check(reduce(dev, "relu(x)*y", "sum", (1, 4, 7), x=x, y=y), x, y, "sum", (1, 4, 7))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda d, x: reduce(d, "x +", x=x), ValueError, "got the end"),
        (lambda d, x: reduce(d, "x*y", x=x), TypeError, "y: it stands in the expression and has"),
        (lambda d, x: reduce(d, "x", x=x, z=x), TypeError, "z: the expression has no such name"),
        (lambda d, x: reduce(d, x, y=x), TypeError, "y: expected no values by name"),
        (lambda d, x: reduce(d, "x", axis=2, x=x), ValueError, "axis: expected -2 to 1"),
        (
            lambda d, x: reduce(d, "x", "prod", x=x),
            ValueError,
            "op: expected 'sum', 'max', 'min' or",
        ),
        (lambda d, x: reduce(d, "2*3"), TypeError, "expected at least one array"),
        (lambda d, x: reduce(d, "x > 0", "mean", x=x), TypeError, "mean takes .* got bool"),
        (lambda d, x: reduce(d, "i", "mean", i=np.ones(3, np.int32)), TypeError, "mean takes"),
        (lambda d, x: reduce(d, "x*y", x=x, y=x[:, :2]), ValueError, "shapes that broadcast"),
        (lambda d, x: lazy("x", x, x), TypeError, "2 values by position"),
    ],
)
def test_bad_input(dev, call, error, match):
    with pytest.raises(error, match=match):
        call(dev, np.ones((4, 3), np.float32))


@pytest.mark.parametrize("uri", ["egl:0", "emu:gfx1100"])
def test_other_devices_map_and_reduce(uri):
    import sparkle_drv.testing  # noqa: F401

    try:
        device = sp.open(uri)
    except sp.DeviceNotFound as error:
        pytest.skip(str(error))
    with device:
        x, y = numbers(np.float32, (50, 60)), numbers(np.float32, (50, 60), 4)
        got = reduce(device, "relu(x)*y", "sum", 0, x=x, y=y)
        np.testing.assert_allclose(got, (np.maximum(x, 0) * y).sum(0), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            map(device, lambda x, y: np.where(x > y, x * y, 2.0), x, y), np.where(x > y, x * y, 2)
        )
        row = y[0].astype(np.int32)
        np.testing.assert_allclose(map(device, "x + a*b", x, 2, y[:1]), x + 2 * y[:1], rtol=1e-6)
        with pytest.raises(TypeError, match="f64"):
            map(device, "x*y + i", x, y, row)
