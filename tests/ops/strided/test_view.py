"""Views against numpy: shape, strides and offset of basic indices and transposes.

When this fails, slices and transposes of arrays show other elements than numpy's.
"""

import itertools

import numpy as np
import pytest

from sparkle_drv.ops.shapes.view import View

FULL = slice(None)


def of_numpy(x, base):
    """The view that numpy made of `base`."""
    offset = (x.ctypes.data - base.ctypes.data) // base.itemsize
    return x.shape, tuple(s // base.itemsize for s in x.strides), offset


def same(view, x, base):
    shape, strides, offset = of_numpy(x, base)
    assert view.shape == shape
    if x.size:  # numpy says anything of where nothing lies
        assert view.offset == offset
    for n, mine, theirs in zip(shape, view.strides, strides, strict=True):
        assert n <= 1 or x.size == 0 or mine == theirs


def test_a_whole_array_is_row_major():
    assert View.of((2, 3, 4)) == View((2, 3, 4), (12, 4, 1), 0)
    assert View.of(()) == View((), (), 0)


@pytest.mark.parametrize(
    "key",
    [
        1, -1, np.int64(2), FULL, ..., None, (), (1, 2, 3), (..., 0), (0, ...), (1, ..., 2),
        slice(1, 3), slice(None, None, -1), slice(-2, None), slice(3, 1), slice(9, None, -2),
        (FULL, slice(2, 5)), (None, 1, None, ...), (..., None), (slice(4, 0, -2), FULL, -1),
        (slice(2, 2), 1), (FULL, FULL, slice(None, None, 7)),
    ],
    ids=repr,
)  # fmt: skip
def test_keys_mean_what_numpy_says(key):
    x = np.arange(5 * 7 * 4, dtype=np.int16).reshape(5, 7, 4)
    found = x[key]
    if not isinstance(found, np.ndarray):  # numpy copies a single element unless asked for a view
        found = x[(*key, ...)]
    same(View.of(x.shape).at(key), found, x)


def test_random_keys_of_keys_and_turns():
    rng = np.random.default_rng(20)
    for _ in range(300):
        shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(1, 5))))
        base = x = np.arange(np.prod(shape)).reshape(shape)
        view = View.of(shape)
        for _ in range(3):
            key = []
            for n in x.shape:
                low, high = (int(i) for i in rng.integers(-n - 1, n + 2, 2))
                key.append(slice(low, high, int(rng.choice([-3, -2, -1, 1, 2]))))
            key = tuple(key[: int(rng.integers(len(key) + 1))])
            axes = [int(axis) for axis in rng.permutation(x.ndim)]
            if x[key].size:
                view, x = view.at(key).turned(axes), x[key].transpose(axes)
                same(view, x, base)


def test_transposes():
    x = np.arange(120).reshape(2, 3, 4, 5)
    for axes in itertools.permutations(range(4)):
        same(View.of(x.shape).turned(axes), x.transpose(axes), x)
    same(View.of(x.shape).turned(), x.T, x)
    same(View.of(x.shape).turned((-1, 0, 1, 2)), x.transpose(-1, 0, 1, 2), x)


@pytest.mark.parametrize(
    ("key", "kind", "says"),
    [
        (5, IndexError, "axis 0 has 5 elements, got index 5"),
        ((0, -8), IndexError, "axis 1 has 7"),
        ((0, 0, 0), IndexError, "at most 2 indices"),
        ((..., ...), IndexError, "one ellipsis"),
        (True, TypeError, "whole numbers"),
        ("1", TypeError, "whole numbers"),
        (1.0, TypeError, "whole numbers"),
        ([1, 2], TypeError, "whole numbers"),
        (np.array([1, 2]), TypeError, "whole numbers"),
        (slice(None, None, 0), ValueError, "zero"),
        (slice(1.5), TypeError, "slice"),
        (10**3000, IndexError, "bits"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_keys_that_mean_nothing(key, kind, says):
    with pytest.raises(kind, match=says):
        View.of((5, 7)).at(key)


@pytest.mark.parametrize("axes", [(0,), (0, 0), (0, 2), (0, 1, 2), (-3, 0)])
def test_axes_that_are_no_permutation(axes):
    with pytest.raises(ValueError, match="axes"):
        View.of((5, 7)).turned(axes)
    with pytest.raises(TypeError, match="axes"):
        View.of((5, 7)).turned((0, 1.0))
