"""gemm and conv2d of the cpu device on absurd input: a right result or a clear error.

When this fails, NaN, infinities or empty arrays give a silent wrong result on the cpu.
"""

from __future__ import annotations

import isas
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.conv2d.operation import ALGOS as CONV_ALGOS

pytestmark = pytest.mark.opens(*isas.HERE, threads=2)

PLAIN = tuple(algo for algo in CONV_ALGOS if "winograd" not in algo)
BOTH = (np.float32, np.float64)


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


# NaN, inf, denormals: what IEEE 754 makes of sums in any order


def products():
    """(m, n, k): several micro-tiles and an edge, one row, one column, one element."""
    return [(33, 50, 20), (1, 40, 9), (40, 1, 9), (1, 1, 3)]


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("algo", ["auto", "blocked", "naive"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_bad_element_of_a_matrix_reaches_its_row_and_no_other(dev, dtype, algo, value):
    for m, n, k in products():
        a, b = normal(m, k, dtype=dtype), np.abs(normal(k, n, dtype=dtype)) + 1
        row = m // 2
        a[row, k - 1] = value
        c = sp.ops.gemm(dev, a, b, algo=algo)
        assert np.array_equal(c[row], np.full(n, value, dtype), equal_nan=True), (m, n, k)
        others = np.delete(c, row, 0)
        assert np.isfinite(others).all(), (m, n, k)
        assert np.allclose(others, np.delete(a, row, 0).astype(float) @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_bad_column_of_b_reaches_its_column_and_no_other(dev, value):
    """Nor the columns beside it in a vector, nor what lies beyond the last one."""
    for n in (1, 15, 16, 17, 33, 50):
        a, b = np.abs(normal(20, 9)) + 1, normal(9, n)
        b[4, n - 1] = value
        c = sp.ops.gemm(dev, a, b)
        assert np.array_equal(c[:, -1], np.full(20, value, np.float32), equal_nan=True)
        assert np.isfinite(c[:, :-1]).all()


def test_activations_of_nan_and_inf(dev):
    a = np.array([[np.nan], [np.inf], [-np.inf], [-0.0]], np.float32)
    one = np.ones((1, 17), np.float32)
    wanted = {
        None: [np.nan, np.inf, -np.inf, 0], "relu": [np.nan, np.inf, 0, 0],
        "tanh": [np.nan, 1, -1, 0], "sigmoid": [np.nan, 1, 0, 0.5],
    }  # fmt: skip
    for activation, values in wanted.items():
        c = sp.ops.gemm(dev, a, one, activation=activation)
        assert np.allclose(c, np.array(values)[:, None], equal_nan=True, atol=1e-7), activation


@pytest.mark.parametrize("dtype", BOTH)
def test_denormals_are_numbers(dev, dtype):
    """No flush to zero: sums of denormals are exact."""
    tiny = np.finfo(dtype).smallest_subnormal
    for m, n, k in products():
        a = np.full((m, k), tiny, dtype)
        assert np.array_equal(
            sp.ops.gemm(dev, a, np.ones((k, n), dtype)), np.full((m, n), k * tiny)
        )
    if dtype is np.float32:
        x = np.full((1, 3, 9, 9), tiny, dtype)
        y = sp.ops.conv2d(dev, x, np.ones((5, 3, 2, 2), dtype), algo="direct")
        assert np.array_equal(y, np.full((1, 5, 8, 8), 12 * tiny, dtype))


def test_large_numbers_do_not_overflow_on_their_way(dev):
    """1e38 + 1e38 - 1e38 may overflow in another order of additions; 64 of 1e36 may not."""
    a, b = np.full((33, 64), 1e18, np.float32), np.full((64, 40), 1e18, np.float32)
    assert np.allclose(sp.ops.gemm(dev, a, b), 64e36, rtol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algo", PLAIN)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_bad_pixel_reaches_what_sees_it_and_nothing_else(dev, layout, algo, value):
    """By all that is no transform; Winograd spreads it over its tile, as all libraries do."""
    x, w = normal(2, 5, 9, 21), np.abs(normal(7, 5, 3, 3)) + 1
    x[1, 2, 4, 10] = value
    turned = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = sp.ops.conv2d(dev, turned, w, padding=1, layout=layout, algo=algo)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    bad = np.zeros(y.shape, bool)
    bad[1, :, 3:6, 9:12] = True
    assert np.array_equal(~np.isfinite(y), bad)
    assert np.array_equal(y[bad], np.full(7 * 9, value, np.float32), equal_nan=True)


@pytest.mark.parametrize("algo", [algo for algo in CONV_ALGOS if algo not in PLAIN] or ["auto"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_bad_pixel_spoils_no_more_than_its_tiles(dev, layout, algo):
    """Of 6 x 6 outputs at most around the nine that see it; and those nine are spoilt."""
    x, w = normal(2, 5, 30, 31), normal(7, 5, 3, 3)
    x[1, 2, 14, 15] = np.nan
    turned = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    y = sp.ops.conv2d(dev, turned, w, padding=1, layout=layout, algo=algo)
    y = y if layout == "NCHW" else y.transpose(0, 3, 1, 2)
    assert np.isnan(y[1, :, 13:16, 14:17]).all()
    y[1, :, 10:20, 11:21] = 0
    assert np.isfinite(y).all()


# Memory: any address, any strides, nothing at all


def odd(array: np.ndarray) -> np.ndarray:
    """The same numbers one byte behind where they belong."""
    raw = np.zeros(array.nbytes + 1, np.uint8)
    out = raw[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    assert not out.flags.aligned
    return out


@pytest.mark.parametrize("dtype", BOTH)
def test_any_address_and_any_strides(dev, dtype):
    a, b, bias = normal(21, 19, dtype=dtype), normal(19, 37, dtype=dtype), normal(37, dtype=dtype)
    wanted = a.astype(float) @ b + bias
    wide = np.zeros((42, 57), dtype)
    wide[::2, ::3] = a
    views = [
        a, odd(a), np.asfortranarray(a), wide[::2, ::3], a[::-1].copy()[::-1],
        a[:, ::-1].copy()[:, ::-1], np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    ]  # fmt: skip
    for view in views:
        assert np.array_equal(view, a)
        for weights in (b, odd(b), np.asfortranarray(b)):
            c = sp.ops.gemm(dev, view, weights, bias=odd(bias))
            assert np.allclose(c, wanted, rtol=1e-4, atol=1e-4)
    for out in (odd(np.zeros_like(wanted, dtype)), np.zeros((37, 21), dtype).T):
        sp.ops.gemm(dev, a, b, out, bias=bias)
        assert np.allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_a_matrix_that_repeats_one_row(dev):
    row, b = normal(1, 19), normal(19, 8)
    repeated = np.broadcast_to(row, (50, 19))
    assert repeated.strides[0] == 0
    assert np.allclose(sp.ops.gemm(dev, repeated, b), repeated @ b, atol=1e-5)
    assert np.allclose(sp.ops.gemm(dev, normal(5, 19), np.broadcast_to(b[:, :1], (19, 30))),
                       normal(5, 19) @ np.broadcast_to(b[:, :1], (19, 30)), atol=1e-4)  # fmt: skip


@pytest.mark.parametrize("algo", PLAIN)
def test_convolutions_at_any_address(dev, algo):
    x, w, bias = normal(2, 6, 7, 18), normal(9, 6, 3, 3), normal(9)
    wanted = sp.ops.conv2d(dev, x, w, bias, padding=1, algo="naive")
    for image in (odd(x), x[:, :, ::-1].copy()[:, :, ::-1], np.asfortranarray(x)):
        for weights in (odd(w), np.asfortranarray(w)):
            y = sp.ops.conv2d(dev, image, weights, odd(bias), padding=1, algo=algo)
            assert np.allclose(y, wanted, rtol=1e-4, atol=1e-4)
    out = odd(np.zeros_like(wanted))
    sp.ops.conv2d(dev, x, w, bias, out, padding=1, algo=algo)
    assert np.allclose(out, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(0, 4, 5), (4, 0, 5), (4, 5, 0), (0, 0, 0)])
def test_products_of_nothing(dev, shape):
    m, n, k = shape
    bias = normal(n)
    c = sp.ops.gemm(dev, normal(m, k), normal(k, n), bias=bias, activation="relu")
    assert c.shape == (m, n)
    assert np.array_equal(c, np.broadcast_to(np.maximum(bias, 0), (m, n)))


def test_convolutions_of_nothing(dev):
    w = normal(3, 2, 1, 1)
    assert sp.ops.conv2d(dev, np.zeros((0, 2, 4, 4), np.float32), w).shape == (0, 3, 4, 4)
    x = np.zeros((1, 2, 4, 4), np.float32)
    assert sp.ops.conv2d(dev, x, np.zeros((0, 2, 1, 1), np.float32)).shape == (1, 0, 4, 4)
    with pytest.raises(ValueError, match="x: expected 1 or more in all dim"):
        sp.ops.conv2d(dev, np.zeros((2, 0, 4, 4), np.float32), np.zeros((3, 0, 1, 1), np.float32))
    with pytest.raises(ValueError, match="w: expected 1 or more in all dim"):
        sp.ops.conv2d(dev, x, np.zeros((3, 2, 0, 1), np.float32))


# Sizes: beyond any memory, beyond 32 bits, filters and padding beyond the image


def huge(*shape: int) -> np.ndarray:
    """So many numbers, all in one place. Results of those below have no room in 2**47 bytes, or no
    size in 32 bits: whatever memory the machine has, nothing large is made.
    """
    return np.broadcast_to(np.float32(1), shape)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(2**32, 1, 2), (1, 1, 2**33), (2, 2**32, 1), (2**40, 1, 2**40), (2**24, 1, 2**24)],
)  # fmt: skip
def test_products_beyond_all_bounds(dev, m, k, n):
    with pytest.raises((ValueError, MemoryError)):
        sp.ops.gemm(dev, huge(m, k), huge(k, n))
    assert np.array_equal(sp.ops.gemm(dev, huge(2, 3), huge(3, 2)), np.full((2, 2), 3))


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((1, 1, 2**32, 1), (1, 1, 1, 1), {}),
        ((2**32, 1, 1, 1), (1, 1, 1, 1), {}),
        ((1, 1, 4, 4), (2**32, 1, 1, 1), {}),
        ((1, 1, 4, 4), (1, 1, 2**32, 1), {}),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(padding=2**31)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(padding=2**62)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(stride=2**40)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(dilation=2**33)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(padding=-1)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(stride=0)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(dilation=0)),
        ((1, 1, 4, 4), (1, 1, 2, 2), dict(groups=0)),
        ((1, 3, 4, 4), (2, 1, 2, 2), dict(groups=3)),
        ((1, 1, 4, 4), (1, 1, 5, 5), {}),
        ((1, 1, 4, 4), (1, 1, 3, 3), dict(dilation=3)),
        ((1, 1, 2**16, 2**16), (2**16, 1, 1, 1), {}),
    ],
)
def test_convolutions_beyond_all_bounds(dev, x, w, options):
    with pytest.raises((ValueError, MemoryError)):
        sp.ops.conv2d(dev, huge(*x), huge(*w), **options)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("algo", PLAIN)
def test_huge_filters_and_paddings(dev, layout, algo):
    x = normal(1, 2, 3, 4)
    turned = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))

    def run(w, **options):
        y = sp.ops.conv2d(dev, turned, w, layout=layout, algo=algo, **options)
        return y if layout == "NCHW" else y.transpose(0, 3, 1, 2)

    w = normal(5, 2, 61, 47)  # at (30, 23) lies the image's first pixel
    y = run(w, padding=((30, 60), (23, 46)))
    assert y.shape == (1, 5, 33, 27)
    seen = w[:, :, 30:33, 23:27].astype(float)
    assert np.allclose(y[0, :, 0, 0], np.einsum("ocij,cij->o", seen, x[0]), atol=1e-4)
    y = run(normal(5, 2, 3, 3), padding=200)
    assert y.shape == (1, 5, 401, 402)
    assert np.count_nonzero(y) <= 5 * 5 * 6
    assert np.abs(y[:, :, 198:203, 198:204]).min() > 0
    y = run(normal(5, 2, 2, 2), stride=1000, dilation=2, padding=1)
    assert y.shape == (1, 5, 1, 1)


def test_weights_changed_in_place_are_seen(dev):
    """Whatever was kept of them: a writeable array, one made writeable and back, an Array."""
    a, b = normal(20, 30), normal(30, 40)
    x, w = normal(1, 6, 12, 12), normal(8, 6, 3, 3)
    for _ in range(3):
        for _ in range(3):  # often enough that they would be kept, if anything were
            assert np.allclose(sp.ops.gemm(dev, a, b), a @ b, atol=1e-4)
            y = sp.ops.conv2d(dev, x, w)
            assert np.allclose(y, sp.ops.conv2d(dev, x, w, algo="naive"), atol=1e-3)
        b += 1
        w *= -1.5
    array = dev.array(b)
    for factor in (1, 2, 3):
        dev.default_queue.write(array.buffer, b * np.float32(factor)).wait()
        for _ in range(3):
            c = sp.ops.gemm(dev, dev.array(a), array).numpy()
            assert np.allclose(c, factor * (a @ b), atol=1e-3)
