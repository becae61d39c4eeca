"""ops.strided_copy refuses by name, and submits nothing.

When this fails, a wrong copy of a view overwrites memory.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import strided_copy

HUGE = 10**3000


@pytest.fixture
def pair(dev, monkeypatch):
    """dst and src of 4 x 6 floats; what is submitted for them is an error."""
    with dev.empty((4, 6), np.float32) as dst, dev.array(np.ones((4, 6), np.float32)) as src:
        monkeypatch.setattr(sp.Queue, "launch", _never)
        monkeypatch.setattr(sp.Queue, "submit", _never)
        yield dst, src
        assert dst.fence is None


def _never(*args, **more):
    raise AssertionError("something was submitted")


@pytest.mark.parametrize(
    ("shape", "more", "kind", "says"),
    [
        ("ab", {}, TypeError, "shape"),
        ((2.0,), {}, TypeError, "shape"),
        (None, {}, TypeError, "shape"),
        ((-1,), {}, ValueError, "shape"),
        ((2, -HUGE), {}, ValueError, "shape"),
        ((HUGE,), {}, ValueError, "dst: expected positions"),
        ((25,), {}, ValueError, "dst: expected positions 0 to 23, got 0 to 24"),
        ((4,), {"src_strides": (8,)}, ValueError, "src: expected positions 0 to 23, got 0 to 24"),
        ((4,), {"src_strides": (-1,), "src_offset": 2}, ValueError, "src: .* got -1 to 2"),
        ((4,), {"dst_strides": (-7,), "dst_offset": 20}, ValueError, "dst: .* got -1 to 20"),
        ((4,), {"src_offset": 21}, ValueError, "src: .* got 21 to 24"),
        ((4,), {"src_offset": 25}, ValueError, "src_offset: expected 0 to 24, got 25"),
        ((4,), {"dst_offset": -1}, ValueError, "dst_offset"),
        ((4,), {"dst_offset": HUGE}, ValueError, "dst_offset"),
        ((4,), {"dst_offset": 1.0}, TypeError, "dst_offset"),
        ((4,), {"src_offset": True}, TypeError, "src_offset"),
        ((4,), {"src_offset": None}, TypeError, "src_offset"),
        ((4,), {"src_strides": 1}, TypeError, "src_strides"),
        ((4,), {"src_strides": (1.0,)}, TypeError, "src_strides"),
        ((4,), {"src_strides": "1"}, TypeError, "src_strides"),
        ((4,), {"src_strides": (1, 1)}, ValueError, "src_strides: expected 1"),
        ((4, 1), {"dst_strides": (1,)}, ValueError, "dst_strides: expected 2"),
        ((1,), {"dst_strides": (2**31,)}, ValueError, r"dst_strides: .* below 2\*\*31"),
        ((0,), {"src_strides": (-(2**31),)}, ValueError, r"src_strides: .* below 2\*\*31"),
        ((2,), {"src_strides": (HUGE,)}, ValueError, "src_strides"),
        ((4,), {"dst_strides": (0,)}, ValueError, "dst_strides: expected separate elements"),
        ((HUGE,), {"dst_strides": (0,), "src_strides": (0,)}, ValueError, "dst_strides"),
        ((2, 3), {"dst_strides": (1, 1)}, ValueError, "dst_strides: expected separate elements"),
        ((2, 3), {"dst_strides": (3, 2)}, ValueError, "dst_strides: expected separate elements"),
        ((2, 3), {"dst_strides": (-2, 1), "dst_offset": 2}, ValueError, "dst_strides"),
        (
            (2, 1, 2, 2, 1, 2, 1),
            {"dst_strides": (12, 9, 6, 3, 0, 1, 0), "src_strides": (1, 0, 2, 4, 0, 8, 3)},
            None, "",
        ),
        ((2,) * 70, {"src_strides": (0,) * 70}, ValueError, "dst"),
    ],
    ids=lambda value: str(value)[:30] if not callable(value) else value.__name__,
)  # fmt: skip
def test_numbers_that_make_no_sense(dev, pair, shape, more, kind, says):
    dst, src = pair
    if kind is None:  # dimensions of one element do not count
        with pytest.raises(AssertionError, match="submitted"):
            strided_copy(dev, dst, src, shape, **more)
        return
    with pytest.raises(kind, match=says):
        strided_copy(dev, dst, src, shape, **more)


def test_too_many_dimensions(dev):
    x = np.arange(2**5, dtype=np.int32)
    with dev.array(x) as src, dev.empty((32,), np.int32) as dst:
        turned = (1, 2, 4, 8, 16)
        with pytest.raises(ValueError, match=r"at most 4 dimensions .* got 5"):
            strided_copy(dev, dst, src, (2,) * 5, src_strides=turned)
        assert dst.fence is None
        strided_copy(dev, dst, src, (2,) * 5, src_strides=(16, 8, 1, 4, 2))
        want = x.reshape((2,) * 5).transpose(0, 1, 4, 2, 3).reshape(-1)
        np.testing.assert_array_equal(dst.numpy(), want)


def test_operands_that_are_none(dev, pair):
    dst, src = pair
    host = np.ones((4, 6), np.float32)
    with pytest.raises(TypeError, match="dev: expected a Device"):
        strided_copy("cpu", dst, src, (4,))
    for given in (host, [1, 2], None, dst.buffer, sp.ops.constant(dev, host)):
        with pytest.raises(TypeError, match="dst: expected an Array"):
            strided_copy(dev, given, src, (4,))
        with pytest.raises(TypeError, match="src: expected an Array"):
            strided_copy(dev, dst, given, (4,))


def test_arrays_of_others(dev, pair):
    dst, src = pair
    with sp.open("cpu") as other, other.array(np.ones(4, np.float32)) as foreign:
        with pytest.raises(ValueError, match="src: expected an open Array of cpu"):
            strided_copy(dev, dst, foreign, (4,))
        with pytest.raises(ValueError, match="dst: expected an open Array of cpu"):
            strided_copy(dev, foreign, src, (4,))
    closed = dev.empty((4,), np.float32)
    closed.close()
    with pytest.raises(ValueError, match=r"dst: .* closed"):
        strided_copy(dev, closed, src, (4,))
    with pytest.raises(ValueError, match=r"src: .* closed"):
        strided_copy(dev, dst, closed, (4,))


def test_dtypes_of_another_size_and_memory_that_is_read_only(dev, pair):
    src = pair[1]
    expected = pytest.raises(TypeError, match="dst: expected elements of 4 bytes because src")
    with dev.empty((4,), np.float64) as wide, expected:
        strided_copy(dev, wide, src, (4,))
    fixed = np.ones(4, np.float32)
    fixed.flags.writeable = False
    with sp.wrap(dev, fixed) as buffer:
        readonly = buffer.array(np.float32, 4)
        with pytest.raises(ValueError, match="dst: expected a writable Array"):
            strided_copy(dev, readonly, src, (4,))
