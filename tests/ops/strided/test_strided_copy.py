"""ops.strided_copy: fences, the width of the elements that move, copies on threads.

When this fails, a copy of a view is wrong or early.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops import strided_copy
from sparkle_drv.ops.shapes.view import View
from sparkle_drv.ops.strided import moves

pytestmark = pytest.mark.opens(threads=3)

FULL = slice(None)


@pytest.fixture(scope="module")
def egl():
    with sp.open("egl:0") as device:
        yield device


def taken(dev, x, view):
    """The view of numpy's array `x`, packed by the device."""
    src, dst = dev.array(x), dev.empty(view.shape, x.dtype)
    made = strided_copy(dev, dst, src, view.shape, src_strides=view.strides, src_offset=view.offset)
    assert made is dst
    return made.numpy().copy()


def launched(monkeypatch):
    """Names of the kernels that are launched from now on."""
    seen = []
    launch = sp.Queue.launch

    def note(self, kernel, *args, **more):
        seen.append(kernel.name)
        return launch(self, kernel, *args, **more)

    monkeypatch.setattr(sp.Queue, "launch", note)
    return seen


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("key", [(FULL, slice(7, 300)), (slice(None, None, -1), FULL), None])
def test_large_copies_on_threads(dev, kind, key):
    """Several blocks in each direction, and several tasks."""
    x = np.random.default_rng(1).integers(0, 100, (300, 5003)).astype(kind)
    view, want = (View.of(x.shape).at(key), x[key]) if key else (View.of(x.shape).turned(), x.T)
    np.testing.assert_array_equal(taken(dev, x, view), want)


def test_many_small_planes_and_one_long_row(dev):
    x = np.random.default_rng(2).integers(0, 100, (130, 70, 3, 5)).astype(np.int32)
    for axes in ((1, 0, 3, 2), (3, 1, 2, 0), (2, 0, 3, 1)):
        view = View.of(x.shape).turned(axes)
        np.testing.assert_array_equal(taken(dev, x, view), x.transpose(axes))
    line = np.arange(300_001, dtype=np.int16)
    for step in (3, -1, -2):
        view = View.of(line.shape).at(slice(None, None, step))
        np.testing.assert_array_equal(taken(dev, line, view), line[::step])


def test_the_call_is_asynchronous_and_in_order(dev):
    x = dev.array(np.arange(6, dtype=np.float32))
    y, z = dev.empty((6,), np.float32), dev.empty((2, 3), np.float32)
    assert strided_copy(dev, y, x, (6,), src_strides=(-1,), src_offset=5) is y
    assert y.fence is not None
    strided_copy(dev, z, y, (2, 3))
    np.testing.assert_array_equal(z.numpy(), [[5, 4, 3], [2, 1, 0]])


def test_work_on_another_queue_comes_first(dev):
    x, y = dev.empty((1 << 16,), np.float32), dev.empty((1 << 16,), np.float32)
    with dev.queue() as other, dev.kernel("busy_u32") as busy, dev.buffer(4) as steps:
        other.launch(busy, steps, 3_000_000, groups=1)
        with dev.kernel("fill_f32") as fill:
            x.fence = other.launch(fill, x, 7.0, 1 << 16, groups=256)
        strided_copy(dev, y, x, (1 << 15,), dst_strides=(-2,), dst_offset=(1 << 16) - 1)
        got = y.numpy()
    assert (got[1::2] == 7).all()
    assert not got[::2].any()


def test_nothing_to_copy(dev):
    x, y = dev.array(np.arange(4)), dev.array(np.arange(4))
    assert strided_copy(dev, y, x, (0,)) is y
    assert strided_copy(dev, y, x, (3, 0, 7), src_strides=(5, 1, 9), dst_offset=4) is y
    assert y.fence is None
    empty = dev.empty((0, 3), np.int64)
    strided_copy(dev, empty, x, (0, 3))
    strided_copy(dev, y, x, ())  # one element
    strided_copy(dev, y, x, (1, 1, 1, 1, 1, 1), src_offset=3, dst_offset=2)
    assert y.numpy().tolist() == [0, 1, 3, 3]


@pytest.mark.parametrize(
    ("kind", "columns", "name"),
    [
        (np.float32, slice(2, 6), "strided_u64"),
        (np.float32, slice(1, 5), "strided_u32"),
        (np.float32, slice(2, 5), "strided_u32"),
        (np.uint8, slice(8, 24), "strided_u64"),
        (np.uint8, slice(4, 12), "strided_u32"),
        (np.uint8, slice(2, 8), "strided_u16"),
        (np.uint8, slice(1, 9), "strided_u8"),
        (np.int16, slice(0, 7), "strided_u16"),
        (np.float64, slice(3, 4), "strided_u64"),
        (np.complex128, slice(3, 4), "strided_u64"),
        (np.uint8, slice(None, None, -1), "strided_u8"),
    ],
)
def test_elements_move_as_wide_as_they_can(dev, monkeypatch, kind, columns, name):
    x = np.random.default_rng(3).integers(0, 100, (5, 32)).astype(kind)
    seen = launched(monkeypatch)
    np.testing.assert_array_equal(
        taken(dev, x, View.of(x.shape).at((FULL, columns))), x[:, columns]
    )
    assert seen == [name]


def test_addresses_that_are_not_aligned_keep_elements_small(dev, monkeypatch):
    with dev.buffer(64) as buffer:
        x, y = buffer.view(1, 16).array(np.uint8, 16), dev.empty((16,), np.uint8)
        buffer.write(np.arange(64, dtype=np.uint8))
        seen = launched(monkeypatch)
        strided_copy(dev, y, x, (16,))
        assert y.numpy().tolist() == list(range(1, 17))
    assert seen == ["strided_u8"]


def test_bytes_on_a_device_without_a_kernel_for_them(egl):
    x = np.arange(96, dtype=np.uint8).reshape(6, 16)
    view = View.of(x.shape).at((FULL, slice(4, 12)))
    np.testing.assert_array_equal(taken(egl, x, view), x[:, 4:12])
    with egl.array(x) as src, egl.empty((16, 6), np.uint8) as dst:
        turned = View.of(x.shape).turned()
        with pytest.raises(TypeError, match=r"dst: egl:0 has no strided copy of uint8"):
            strided_copy(egl, dst, src, turned.shape, src_strides=turned.strides)
        assert dst.fence is None
    with egl.array(x.astype(">i2")) as src, egl.empty((6, 4), ">i2") as dst:
        strided_copy(egl, dst, src, (6, 4), src_strides=(16, 1), src_offset=2)
        np.testing.assert_array_equal(dst.numpy(), x[:, 2:6])


def test_columns_within_one_array(dev):
    x = np.arange(60, dtype=np.int32).reshape(6, 10)
    with dev.array(x) as a:
        strided_copy(
            dev, a, a, (6, 3), dst_strides=(10, 1), src_strides=(10, 1), dst_offset=6, src_offset=2
        )
        x[:, 6:9] = x[:, 2:5]
        np.testing.assert_array_equal(a.numpy(), x)
        with pytest.raises(ValueError, match="dst: expected no memory in common with src"):
            strided_copy(dev, a, a, (6, 3), dst_strides=(10, 1), src_strides=(10, 1), dst_offset=2)
        with dev.array(x) as b, a.buffer.view(4, 40).array(np.int32, 10) as part:
            with pytest.raises(ValueError, match="dst"):
                strided_copy(dev, part, a, (10,))  # two arrays over one buffer
            strided_copy(dev, part, b, (10,))
        assert a.numpy().reshape(-1)[1:11].tolist() == x.reshape(-1)[:10].tolist()


def test_sharing_is_exact_and_hard_cases_count_as_shared():
    move = moves.StridedMove(4, (6, 3), ((10, 1), (10, 1)), (3, 0))
    assert not moves.share(move, 0)
    assert moves.share(moves.StridedMove(4, (6, 3), ((10, 1), (10, 1)), (2, 0)), 0)
    assert moves.share(move, 12)
    assert moves.share(move, 1)  # by bytes
    hard = moves.StridedMove(
        1, (97, 89, 83, 79), ((10007, 1009, 103, 11), (9973, 997, 101, 7)), (0, 3)
    )
    assert moves.share(hard, 0)


def test_a_direct_launch_reaches_nothing_beyond_what_it_declares(dev):
    """The cpu refuses positions beyond dst_n and src_n; a pointer shorter than that is refused."""
    strides = (0, 0, 0, 1)
    with dev.kernel("strided_u32") as kernel, dev.buffer(40) as x, dev.buffer(40) as y:
        launch = dev.default_queue.launch
        with pytest.raises(ValueError, match="dst"):
            launch(kernel, y, x, 1, 1, 1, 5, *strides, *strides, 0, 0, 11, 5)
        for offset, sizes, step in (
            (0, (4, 5), 1),
            (0, (5, 4), 1),
            (0, (5, 5), -1),
            (6, (10, 5), 1),
        ):
            with pytest.raises(ValueError, match="the kernel refused these arguments"):
                launch(kernel, y, x, 1, 1, 1, 5, 0, 0, 0, step, *strides, offset, 0, *sizes)
        assert not y.read(np.uint8, 40).any()
