"""ops.reduce on the cpu: every operation, type and set of axes against float64 numpy; bad input.

When this fails, sums, means, minima or maxima on the cpu are wrong for some axes.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from agree import agree

import sparkle_drv as sp
from sparkle_drv.ops import reduce, ref
from sparkle_drv.ops.reduce import fold

OPS = ["sum", "max", "min", "mean"]
KINDS = [(op, d) for op in OPS for d in (np.float32, np.float64)]
KINDS += [(op, np.int32) for op in OPS if op != "mean"]


def values(shape, dtype, seed=31):
    rng = np.random.default_rng(seed)
    if dtype == np.int32:
        return rng.integers(-(2**31), 2**31, shape, dtype=np.int32)
    return rng.standard_normal(shape).astype(dtype)


def is_reduced(got, a, op, axis, keepdims=False):
    want = ref.reduce(a, op, axis, keepdims)
    k = max(1, a.size // max(1, want.size))
    assert got.dtype == (np.int64 if a.dtype == np.int32 and op == "sum" else a.dtype)
    rms = {"sum": np.sqrt(k), "mean": 1 / np.sqrt(k)}.get(op)
    exact = op in ("max", "min") or a.dtype == np.int32
    tolerance = 0.0 if exact else ref.tolerance(op, a.dtype, k)
    agree(got, want, tolerance, rms, f"{op} {a.shape} {axis}")


def every_axis(ndim):
    yield None
    for n in range(ndim + 1):
        yield from itertools.combinations(range(ndim), n)


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_every_set_of_axes(isa_dev, op, dtype):
    a = values((3, 5, 2, 7), dtype)
    for axis in every_axis(4):
        is_reduced(reduce(isa_dev, a, op, axis), a, op, axis)
        is_reduced(reduce(isa_dev, a, op, axis, keepdims=True), a, op, axis, True)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("op", ["sum", "max"])
def test_every_order_of_memory(dev, op, dtype):
    base = values((4, 3, 5), dtype)
    views = [base.transpose(order) for order in itertools.permutations(range(3))]
    views += [base[::-1, ::2, 1:], np.broadcast_to(base[:, :1], (4, 3, 5)), base[:, :, ::-1].T]
    for a in views:
        for axis in every_axis(3):
            is_reduced(reduce(dev, a, op, axis), a, op, axis)
            is_reduced(reduce(dev, a, op, axis, keepdims=True), a, op, axis, True)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(
    "shape", [(1,), (100_003,), (3, 70_001), (70_001, 3), (300, 257), (2, 511, 300), (1, 1, 1)]
)
def test_lengths(isa_dev, op, shape):
    a = values(shape, np.float32)
    for axis in every_axis(len(shape)):
        is_reduced(reduce(isa_dev, a, op, axis), a, op, axis)


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_arrays(dev, op, dtype):
    a = values((3, 4, 5), dtype)
    held = dev.array(a)
    for axis in every_axis(3):
        made = reduce(dev, held, op, axis, keepdims=axis == (1,))
        assert made.fence.wait().done
        is_reduced(made.numpy(), a, op, axis, axis == (1,))


def test_axes_that_lie_together_are_one_run():
    """What keeps copies and passes few; results alone would not show it."""
    a = np.zeros((4, 1, 3, 5), np.float32)
    assert fold.memory_order(a.shape, [a.strides]) == [0, 1, 2, 3]
    turned = a.transpose(3, 2, 0, 1)
    assert fold.memory_order(turned.shape, [turned.strides])[-2:] == [1, 0]
    assert fold.memory_order(a[:, :, ::2].shape, [a[:, :, ::2].strides]) == [0, 1, 2, 3]
    order = [0, 1, 2, 3]
    assert fold.runs(a.shape, (1, 2), order) == [(4, False), (3, True), (5, False)]
    assert fold.runs(a.shape, (0, 2), order) == [(12, True), (5, False)]
    assert fold.runs(a.shape, (1,), order) == [(60, False)]
    assert fold.runs(a.shape, (0, 3), order) == [(4, True), (3, False), (5, True)]


def test_whole_numbers_sum_in_64_bits(dev):
    a = np.full((2, 50_000, 2), 2**31 - 1, np.int32)
    for axis in (None, 1, (0, 1), (0, 2)):
        got = reduce(dev, a, "sum", axis)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, a.sum(axis=axis, dtype=np.int64))
        np.testing.assert_array_equal(reduce(dev, dev.array(a), "sum", axis).numpy(), got)


def test_nan_wins(dev):
    a = values((40, 50), np.float32)
    a[3, 7] = np.nan
    for op in OPS:
        got = reduce(dev, a, op, 1)
        assert np.flatnonzero(np.isnan(got)).tolist() == [3]
        assert np.isnan(reduce(dev, a, op))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_nothing_to_reduce(dev, dtype):
    empty = np.zeros((0, 3), dtype)
    for where in (empty, dev.array(empty)):
        total = reduce(dev, where, "sum", 0)
        assert np.asarray(total).tolist() == [0, 0, 0]
        assert np.asarray(total).dtype == (np.int64 if dtype == np.int32 else dtype)
        assert reduce(dev, where, "max", 1).shape == (0,)
        for op in ("max", "min"):
            with pytest.raises(ValueError, match=f"a: {op} over no elements has no value"):
                reduce(dev, where, op, 0)
        if dtype != np.int32:
            assert np.isnan(np.asarray(reduce(dev, where, "mean"))).all()
    assert reduce(dev, empty).shape == ()


def test_zero_dimensions_and_scalars_out(dev):
    assert reduce(dev, np.array(5.0)) == 5
    assert reduce(dev, np.array(5, np.int32), "max", ()).shape == ()
    total = reduce(dev, np.arange(5.0))
    assert isinstance(total, np.ndarray)
    assert total.shape == ()
    assert float(total) == 10


def test_memory_that_is_not_shared_with_the_host(dev, monkeypatch):
    monkeypatch.setattr(dev._backend, "info", dataclasses.replace(dev.info, unified=False))
    a = values((3, 4, 5), np.float32)
    for op, axis in itertools.product(OPS, [None, (0, 2), 1]):
        is_reduced(reduce(dev, a.transpose(2, 0, 1), op, axis), a.transpose(2, 0, 1), op, axis)
        is_reduced(reduce(dev, dev.array(a), op, axis).numpy(), a, op, axis)


A = np.ones((2, 3), np.float32)


def test_an_expression_that_has_its_values_takes_no_others(dev):
    with pytest.raises(
        TypeError, match=r"y: expected no values by name, because a \(made by lazy\)"
    ):
        reduce(dev, sp.ops.lazy("x*2", A), y=A)
    with pytest.raises(TypeError, match="y: expected no values by name"):
        reduce(dev, A, y=A)


@pytest.mark.parametrize(
    ("a", "op", "axis", "error", "match"),
    [
        ([1.0], "sum", None, TypeError, "a: expected a numpy array or an Array, got list"),
        (A.astype(complex), "sum", None, TypeError, "a: reduce takes .* got complex128"),
        (A.astype("i2"), "sum", None, TypeError, "a: reduce takes .* got int16"),
        (
            A.astype("i4"),
            "mean",
            None,
            TypeError,
            "a: mean takes float32 or float64 or float16 or bfloat16, got int32",
        ),
        (A, "prod", None, ValueError, "op: expected 'sum', 'max', 'min' or 'mean', got 'prod'"),
        (A, None, None, ValueError, "op: expected 'sum', .*, got None"),
        (A, sum, None, TypeError, "op: expected 'sum', "),
        (A, "sum", 2, ValueError, "axis: expected -2 to 1 for 2 dimensions, got 2"),
        (A, "sum", (0, -3), ValueError, "axis: expected -2 to 1 .* got -3"),
        (A, "sum", (0, -2), ValueError, r"axis: expected each axis once, got \(0, -2\)"),
        (A, "sum", 1.0, TypeError, "axis: expected None, a number or several, got 1.0"),
        (A, "sum", True, TypeError, "axis: expected None, a number or several, got True"),
        (A, "sum", (0, np.False_), TypeError, "axis: expected None, a number or several, got "),
        (A, "sum", "01", TypeError, "axis: expected None, a number or several, got '01'"),
    ],
)
def test_bad_input(dev, a, op, axis, error, match):
    before = dev.default_queue.submitted
    with pytest.raises(error, match=match):
        reduce(dev, a, op, axis)
    assert dev.default_queue.submitted == before


def test_sizes_beyond_u32_are_refused(dev, monkeypatch):
    monkeypatch.setattr("sparkle_drv.ops.arguments.check.U32", 10)
    monkeypatch.setattr("sparkle_drv.ops.arguments.check.size.__defaults__", (10,))
    with pytest.raises(ValueError, match="a: elements along the reduced axes: expected at most"):
        reduce(dev, np.ones(11, np.float32))
    assert reduce(dev, np.ones((10, 10), np.float32), "sum", 0).tolist() == [10] * 10
