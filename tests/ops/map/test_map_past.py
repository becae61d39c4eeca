"""Maps whose result is larger than the caches write past them. The bits are the same as without,
for every instruction, type, stride and beginning. Small arrays, and a device that believes its
caches to be smaller still.

When this fails, large maps on the cpu are wrong, although small ones are right.
"""

import numpy as np
import pytest
from isas import HERE, usual_and_past

from sparkle_drv.ops import map

TEXTS = (
    "x", "x + y", "(0.75*x + y)*z - x", "relu(x*y)", "x*y - z", "z - x*y", "where(x < y, x, z)",
    "min(x, y) + max(y, z)*2", "abs(x) - sqrt(abs(y))", "tanh(x)*y", "exp(x)",
)  # fmt: skip
WHOLE = ("x", "x*y + z", "relu(x - y)", "where(x < y, x, z)", "abs(x)*3 - min(y, z)")


@pytest.fixture(scope="module", params=HERE)
def pair(request):
    with usual_and_past(request.param) as both:
        yield both


def numbers(dtype, shape, seed):
    rng = np.random.default_rng(seed)
    if dtype == np.int32:
        return rng.integers(-9, 10, shape, dtype=np.int32)
    return (rng.standard_normal(shape) * 4).astype(dtype)


def same(pair, text, **arrays):
    """The result of `text` on both devices; a few elements of it by numpy would not be enough."""
    arrays = {name: x for name, x in arrays.items() if name in text}
    want, got = (map(dev, text, **arrays) for dev in pair)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))
    return want


@pytest.mark.parametrize("n", [1, 31, 32, 100, 1000, 40000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_plain_arrays(pair, dtype, n):
    x, y, z = (numbers(dtype, n, seed) for seed in (1, 2, 3))
    for text in WHOLE if dtype == np.int32 else TEXTS:
        same(pair, text, x=x, y=y, z=z)
    if dtype != np.int32:
        want = same(pair, "x + y*0 + z*0", x=x, y=y, z=z)
        np.testing.assert_array_equal(want, x + y * 0 + z * 0)


def test_types_of_two_sizes(pair):
    wide, whole = numbers(np.float64, 3000, 4), numbers(np.int32, 3000, 5)
    single = numbers(np.float32, 3000, 6)
    same(pair, "x*y", x=wide, y=single)
    same(pair, "x + y", x=whole, y=wide)
    same(pair, "x + y", x=single, y=whole)
    same(pair, "where(x > 0, x, y)", x=whole, y=whole[::-1])


@pytest.mark.parametrize("columns", [1, 3, 40, 255, 256, 300, 1024, 2048, 2049, 3000])
def test_rows_columns_and_patterns(pair, columns):
    x = numbers(np.float32, (max(6, 9000 // columns), columns), 7)
    row, column = numbers(np.float32, columns, 8), numbers(np.float32, (len(x), 1), 9)
    np.testing.assert_array_equal(same(pair, "x + y", x=x, y=row), x + row)
    np.testing.assert_array_equal(same(pair, "x + y", x=x, y=column), x + column)
    np.testing.assert_array_equal(same(pair, "x + y + z", x=x, y=row, z=column), x + row + column)
    np.testing.assert_array_equal(same(pair, "x + y", x=x[:, ::-1], y=row), x[:, ::-1] + row)
    np.testing.assert_array_equal(same(pair, "x + y", x=x[::2], y=row), x[::2] + row)


@pytest.mark.parametrize("columns", [40, 256, 700])
def test_nothing_beside_a_result_with_strides(pair, columns):
    x, y = (numbers(np.float32, (30, columns), seed) for seed in (10, 11))
    for first in range(4):
        for dev in pair:
            whole = np.full((30, columns + 5), 7, np.float32)
            out = whole[:, first : first + columns]
            assert map(dev, "x*y", x=x, y=y, out=out) is out
            np.testing.assert_array_equal(out, x * y)
            assert (whole[:, :first] == 7).all()
            assert (whole[:, first + columns :] == 7).all()


@pytest.mark.parametrize("first", range(0, 40, 3))
def test_results_that_begin_anywhere(pair, first):
    x, y = (numbers(np.float32, 2000, seed) for seed in (12, 13))
    for dev in pair:
        for n in (1, 5, 32, 63, 64, 65, 500, 2000):
            whole = np.full(2100, 7, np.float32)
            map(dev, "x*y", x=x[:n], y=y[:n], out=whole[first : first + n])
            np.testing.assert_array_equal(whole[first : first + n], x[:n] * y[:n])
            assert (whole[:first] == 7).all()
            assert (whole[first + n :] == 7).all()


def test_in_place(pair):
    for dev in pair:
        x, y = numbers(np.float32, 5000, 14), numbers(np.float32, 5000, 15)
        want = x * y
        map(dev, "x*y", x=x, y=y, out=x)
        np.testing.assert_array_equal(x, want)
