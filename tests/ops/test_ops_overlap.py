"""`out` that overlaps inputs, or whose elements share memory, gets what numpy would store there.

When this fails, an operation whose `out` overlaps an input gives garbage.

Views are drawn at random over one small buffer, so that short ways and long ones meet all kinds.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops

as_strided = np.lib.stride_tricks.as_strided
SIZE = 200


def drawn(rng, base, shape):
    """A view of `base`: plain, transposed, with padded rows, or with any strides at all."""
    size = int(np.prod(shape))
    way = rng.integers(0, 4)
    if way < 2:
        at = int(rng.integers(0, base.size - size + 1))
        flat = base[at : at + size]
        return flat.reshape(shape) if way == 0 else flat.reshape(shape[::-1]).T
    strides = [int(rng.integers(-6, 7)) for _ in shape]
    if way == 2:
        strides = [shape[-1] + int(rng.integers(0, 3)), 1][-len(shape) :]
    below = -sum(min(0, (d - 1) * s) for d, s in zip(shape, strides, strict=True))
    above = sum(max(0, (d - 1) * s) for d, s in zip(shape, strides, strict=True))
    at = below + int(rng.integers(0, base.size - below - above))
    return as_strided(base[at:], shape, [s * base.itemsize for s in strides])


def shares(x):
    """Do elements share memory? By the address of each."""
    at = np.zeros(x.shape, int)
    for axis, stride in enumerate(x.strides):
        at += np.arange(x.shape[axis]).reshape([-1, *[1] * (x.ndim - axis - 1)]) * stride
    return bool((np.diff(np.sort(at, axis=None)) < x.itemsize).any())


def stores(base, out, values):
    """What is in the buffer when `values` have been stored, the last of those that share one."""
    out[...] = values
    return base.copy()


def product(dev, rng, base):
    m, n, k = (int(d) for d in rng.integers(1, 7, 3))
    a, b, out = (drawn(rng, base, s) for s in ((m, k), (k, n), (m, n)))
    return a.astype(float) @ b, out, lambda: ops.gemm(dev, a, b, out)


def mapped(dev, rng, base):
    shape = tuple(int(d) for d in rng.integers(1, 7, rng.integers(1, 3)))
    x, y, out = (drawn(rng, base, s) for s in (shape, shape[-1:], shape))
    return x * 2.0 + y, out, lambda: ops.map(dev, "x*2 + y", x, y, out=out)


@pytest.mark.unmeasured
@pytest.mark.parametrize("call", [product, mapped])
def test_any_views_of_one_buffer(dev, call):
    rng = np.random.default_rng(7)
    refused = shared = 0
    for case in range(250):
        base = rng.standard_normal(SIZE).astype(np.float32)
        kept = base.copy()
        want, out, run = call(dev, rng, base)
        for _ in range(2):  # the second time by the short way
            base[...] = kept
            if any(s == 0 and d > 1 for s, d in zip(out.strides, out.shape, strict=True)):
                refused += 1
                with pytest.raises(ValueError, match="out: expected separate elements"):
                    run()
                np.testing.assert_array_equal(base, kept)
                continue
            shared += shares(out)
            stored = stores(base, out, want)
            base[...] = kept
            assert run() is out
            np.testing.assert_allclose(base, stored, rtol=1e-4, atol=1e-4, err_msg=str(case))
    assert refused > 10
    assert shared > 10


def test_a_convolution_into_overlapping_rows(dev):
    base = np.zeros(64, np.float32)
    out = as_strided(base, (1, 1, 3, 4), (4, 4, 8, 4))
    x, w = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4), np.ones((1, 1, 1, 1), np.float32)
    ops.conv2d(dev, x, w, out=out)
    np.testing.assert_array_equal(base[:9], [0, 1, 4, 5, 8, 9, 10, 11, 0])


def test_arrays_of_other_elements_over_one_buffer(dev):
    """The same bytes, but other elements: the map must not write what it has yet to read."""
    buffer = dev.buffer(16 * 4096)
    wide, out = buffer.array(np.float64, (4096, 1)), buffer.array(np.float32, (4096, 2))
    wide.numpy()[...] = np.where(np.arange(4096) % 3, 1.0, -1.0)[:, None]
    assert wide.nbytes * 2 == buffer.nbytes == out.nbytes * 2
    y = dev.array(np.arange(8192, dtype=np.float32).reshape(4096, 2))
    want = np.where(wide.numpy() > 0, y.numpy(), -y.numpy())
    ops.map(dev, "where(x > 0, y, -y)", x=wide, y=y, out=out)
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("shape", [(2**20, 2**20), (2**31, 2**31)])
def test_results_for_which_there_is_no_memory(dev, shape):
    one = np.ones(1, np.float32)
    rows, columns = np.broadcast_to(one, (shape[0], 1)), np.broadcast_to(one, (1, shape[1]))
    error = ValueError if shape[0] == 2**31 else sp.OutOfDeviceMemory
    with pytest.raises(error, match=r"the result: shape \(\d+, \d+\) of float32 is \d+ bytes"):
        ops.map(dev, "x + y", rows, columns)


@pytest.mark.parametrize(("padding", "error"), [(10**6, sp.OutOfDeviceMemory), (10**9, ValueError)])
def test_more_padding_than_memory(dev, padding, error):
    x, w = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 3, 3), np.float32)
    with pytest.raises(error, match=r"the result: shape .* of float32 is \d+ bytes"):
        ops.conv2d(dev, x, w, padding=padding)
