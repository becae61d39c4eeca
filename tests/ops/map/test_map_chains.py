"""Maps of several simple operations, which the cpu device does with a few vectors at a time. Arrays
have every type, any length and alignment, broadcast rows and columns, and results in place.
Whole numbers, so that numpy's results are exact whatever is rounded together.

When this fails, an expression on the cpu is wrong at some length or alignment.
"""

import numpy as np
import pytest
from isas import HERE, usual_and_past

from sparkle_drv.ops import map

DTYPES = (np.float32, np.float64, np.int32)
TEXTS = {
    "(3*x + y)*z - x + y": lambda x, y, z: (3 * x + y) * z - x + y,
    "relu(abs(x - y) - z)*2 + x": lambda x, y, z: np.maximum(abs(x - y) - z, 0) * 2 + x,
    "max(min(x, y), -z) - square(y)": lambda x, y, z: np.maximum(np.minimum(x, y), -z) - y * y,
    "where(x < y, x*z, y - z) + (x == z)": lambda x, y, z: np.where(x < y, x * z, y - z) + (x == z),
    "(x + y)*(x - z) - (x + y)*(y - z)": lambda x, y, z: (x + y) * (x - z) - (x + y) * (y - z),
}  # fmt: skip
LENGTHS = (1, 15, 31, 64, 127, 128, 129, 191, 255, 256, 257, 384, 500, 4096, 4097, 40001)


@pytest.fixture(scope="module", params=HERE)
def devices(request):
    with usual_and_past(request.param) as both:
        yield both


def numbers(dtype, shape, seed):
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


def check(devices, text, dtype, x, y, z):
    want = TEXTS[text](x, y, z).astype(dtype)
    for dev in devices:
        got = map(dev, text, x=x, y=y, z=z)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_lengths(devices, text, dtype):
    for n in LENGTHS:
        check(devices, text, dtype, *(numbers(dtype, n, seed) for seed in (1, 2, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_arrays_that_begin_anywhere(devices, text, dtype):
    whole = [numbers(dtype, 9000, seed) for seed in (4, 5, 6, 7)]
    for first in (1, 3, 8, 21):
        x, y, z = (a[first * k : first * k + 5000] for k, a in enumerate(whole[:3], 1))
        for dev in devices:
            whole[3][:] = 77
            out = whole[3][first : first + 5000]
            assert map(dev, text, x=x, y=y, z=z, out=out) is out
            np.testing.assert_array_equal(out, TEXTS[text](x, y, z))
            assert (whole[3][:first] == 77).all()
            assert (whole[3][first + 5000 :] == 77).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_broadcast_and_in_place(devices, text, dtype):
    x = numbers(dtype, (9, 700), 8)
    row, column, one = numbers(dtype, 700, 9), numbers(dtype, (9, 1), 10), numbers(dtype, (), 11)
    check(devices, text, dtype, x, row, column)
    check(devices, text, dtype, column, x, one)
    check(devices, text, dtype, x[:, ::-1], x[:, ::2][:, :1], row)
    for dev in devices:
        for name in "xyz":
            given = {"x": x.copy(), "y": numbers(dtype, x.shape, 12), "z": x + 1}
            want = TEXTS[text](**given)
            map(dev, text, **given, out=given[name])
            np.testing.assert_array_equal(given[name], want)


@pytest.mark.parametrize("text", ["exp(x)*y + tanh(x)", "sigmoid(x - y)*tanh(exp(-y)) + y"])
def test_functions_are_those_of_single_elements(devices, text):
    """A chain takes whole vectors, a loop what is left over: to the bit the same."""
    x, y = (np.random.default_rng(seed).normal(0, 3, 1000).astype(np.float32) for seed in (13, 14))
    x[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40]
    for dev in devices:
        whole = map(dev, text, x=x, y=y)
        single = [map(dev, text, x=x[i : i + 1], y=y[i : i + 1])[0] for i in range(len(x))]
        np.testing.assert_array_equal(whole, single)
