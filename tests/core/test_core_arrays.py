"""Arrays: every shape, order and type that numpy has, copied in and out; views and reshapes.

When this fails, an array comes back from a device with other values, order or shape.
"""

import numpy as np
import pytest

import sparkle_drv as sp


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(24.0).reshape(2, 3, 4),
        lambda: np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        lambda: np.arange(24.0).reshape(4, 6)[::2, ::-1],
        lambda: np.arange(24.0).reshape(4, 6).T,
        lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
        lambda: np.array(3.5),
        lambda: np.empty(0),
        lambda: np.empty((3, 0, 2), np.int8),
        lambda: np.arange(5, dtype=">f4"),
        lambda: np.arange(5, dtype="c16"),
        lambda: np.array([True, False]),
        lambda: np.zeros(3, [("a", "f4"), ("b", "i8")]),
        lambda: np.array(["2001-01-01"], "M8[s]"),
        lambda: np.array([b"ab", b"c"]),
        lambda: np.arange(4, dtype=np.longdouble),
    ],
)
def test_a_round_trip_of_anything(device, make):
    host = make()
    with device.array(host) as a:
        assert (a.shape, a.dtype, a.nbytes) == (host.shape, host.dtype, host.nbytes)
        assert (a.size, a.ndim) == (host.size, host.ndim)
        back = a.numpy()
        assert (back.shape, back.dtype) == (host.shape, host.dtype)
        assert back.tobytes() == host.tobytes()


def test_objects_are_refused(device):
    for call in (device.array, lambda a: sp.wrap(device, a)):
        with pytest.raises(TypeError, match="elements of a fixed size"):
            call(np.array([object()]))
    for dtype in (object, "V0", "S0"):
        with pytest.raises(TypeError, match="dtype"):
            device.empty(3, dtype)


def test_shapes(device):
    for shape, want in (
        (5, (5,)),
        (np.int64(5), (5,)),
        ((), ()),
        ([2, 3], (2, 3)),
        ((0, 3), (0, 3)),
    ):
        with device.empty(shape, np.float32) as a:
            assert a.shape == want
            assert not np.asarray(a).any()
    for wrong in (-1, (2, -1)):
        with pytest.raises(ValueError, match="dimensions of 0 or more"):
            device.empty(wrong, np.float32)
    for wrong in (1.5, "ab", None, (1, 2.5)):
        with pytest.raises(TypeError, match="shape"):
            device.empty(wrong, np.float32)
    with pytest.raises((sp.OutOfDeviceMemory, ValueError)):
        device.empty((2**40, 2**40), np.float64)


def test_reshape(device):
    host = np.arange(24, dtype=np.int32)
    with device.array(host) as a:
        for shape in ((4, 6), (-1,), (2, -1, 3), (24,), (1, 24, 1)):
            assert (np.asarray(a.reshape(shape)) == host.reshape(shape)).all()
            assert (np.asarray(a.reshape(*shape)) == host.reshape(shape)).all()
        for wrong in ((5, 5), (-1, 5), (-1, -1), (25,), (0, -1)):
            with pytest.raises(ValueError, match="shape"):
                a.reshape(wrong)
        with pytest.raises(TypeError, match="shape"):
            a.reshape("ab")
    with device.array(np.array(7)) as scalar:
        assert scalar.reshape(1, 1).shape == (1, 1)
        assert scalar.reshape(()).shape == ()
    with device.empty((0, 4), np.float32) as empty:
        assert empty.reshape(4, 0).shape == (4, 0)
        assert empty.reshape(-1, 4).shape == (0, 4)


def test_closing_a_reshaped_array_leaves_the_first_one(device):
    with device.array(np.arange(4.0)) as a:
        other = a.reshape(2, 2)
        other.close()
        assert not a.closed
        assert np.asarray(a).tolist() == [0, 1, 2, 3]
        last = a.reshape(4)
    assert last.closed


def test_length_and_repr(device):
    with device.empty((3, 2), np.float32, layout="NHWC") as a, device.empty((), np.int8) as scalar:
        assert len(a) == 3
        with pytest.raises(TypeError, match="0-d"):
            len(scalar)
        assert repr(a) == f"<Array float32[3, 2] NHWC on {device.uri}>"
        assert a.layout == "NHWC"
        assert a.device is device
        assert not a.readonly
    assert repr(a) == "<Array float32[3, 2] NHWC closed>"


def test_an_array_waits_for_its_fence(device):
    with (
        device.kernel("fill_f32") as fill,
        device.kernel("busy_u32") as busy,
        device.queue() as queue,
        device.empty(4, np.float32) as a,
        device.buffer(4) as y,
    ):
        commands = sp.Commands().dispatch(busy, y, 1_000_000, groups=1)
        a.fence = queue.submit(commands.dispatch(fill, a, 6.0, 4, groups=1))
        assert a.reshape(2, 2).fence is a.fence
        assert np.asarray(a).tolist() == [6] * 4


def test_two_arrays_over_one_buffer(device):
    with device.buffer(64) as b:
        floats, ints = b.array(np.float32, 16), b.array(np.uint32, (4, 4))
        b.write(np.ones(16, np.float32))
        assert np.asarray(floats).tolist() == [1] * 16
        assert (np.asarray(ints) == 0x3F800000).all()
        floats.close()
        assert not b.closed
        assert floats.closed


@pytest.mark.parametrize("dtype", [">f4", "c8", "f8", "M8[s]", "f2"])
def test_write_and_read_of_any_dtype(device, dtype):
    host = np.arange(6).astype(dtype).reshape(2, 3)
    with device.buffer(host.nbytes) as b:
        b.write(host.T)
        assert (b.read(dtype, (3, 2)) == host.T).all()
        b.write(host)
        assert (b.read(dtype, (2, 3)) == host).all()


def test_a_subclass_is_as_large_as_numpy_knows_it_to_be():
    class Liar(np.ndarray):
        nbytes = property(lambda self: 400)

    memory, x = np.zeros(100, np.float32), np.ones(100, np.float32)
    y = memory[:4].view(Liar)
    with sp.open("cpu") as dev, dev.kernel("copy_f32") as k:
        with pytest.raises(ValueError, match="argument y"):
            dev.default_queue.launch(k, y, x, 100, groups=1)
        assert dev.wrap(y).nbytes == 16
        dev.default_queue.launch(k, y, x, 4, groups=1).wait()
    assert memory.sum() == 4


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "i8", "c16", [("a", "f4"), ("b", "i8")]])
def test_one_element(device, dtype):
    host = np.arange(24).reshape(2, 3, 4).astype(dtype)
    with device.array(host) as a:
        for at in ((0, 0, 0), (1, 2, 3), (-1, np.int64(1), -4)):
            assert a.get(*at) == host[at]
            assert type(a.get(*at)) is type(host[at])
    with device.array(np.float32(2.5)) as a:
        assert a.get() == 2.5
    with pytest.raises(ValueError, match="the buffer is closed"):
        a.get()


@pytest.mark.parametrize(
    ("at", "error", "said"),
    [
        ((2, 0), IndexError, "expected an index from -2 to 1, got 2"),
        ((0, -4), IndexError, "expected an index from -3 to 2, got -4"),
        ((0,), IndexError, "expected 2 indices, one per axis, got 1"),
        ((0, 0, 0), IndexError, "expected 2 indices, one per axis, got 3"),
        ((0, 1.0), TypeError, r"expected whole numbers, got 1\.0"),
        ((True, 0), TypeError, "expected whole numbers, got True"),
        ((slice(1), 0), TypeError, "expected whole numbers, got slice"),
    ],
)
def test_no_element(device, at, error, said):
    with device.array(np.zeros((2, 3))) as a, pytest.raises(error, match=f"get: {said}"):
        a.get(*at)
