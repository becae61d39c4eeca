"""Host arrays in and out of unified devices without a copy, with numpy and with a DLPack exporter
and reader of our own.

When this fails, numpy and torch get a copy where they expect the same memory, or freed memory.
"""

import ctypes
import gc

import dlpack
import numpy as np
import pytest

import sparkle_drv as sp


@pytest.fixture
def unified(cpu):
    """A device whose memory is the host's."""
    assert cpu.info.unified
    return cpu


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "u4", "f2", "c8", "?"])
def test_numpy_reads_an_array_in_place(unified, dtype):
    with unified.array(np.arange(12).reshape(3, 4).astype(dtype)) as a:
        for host in (a.numpy(), np.asarray(a), np.array(a, copy=False), np.from_dlpack(a)):
            assert address(host) == a.buffer.address, "it was copied"
            assert (host.shape, host.dtype) == ((3, 4), np.dtype(dtype))
            assert (host == np.arange(12).reshape(3, 4).astype(dtype)).all()
        host = a.numpy()
        host[1, 2] = 0
        assert np.asarray(a)[1, 2] == 0
        assert a.__array_interface__["data"] == (a.buffer.address, False)
        del host


def test_numpy_copies_when_it_must(unified):
    with unified.array(np.arange(6, dtype=np.float32)) as a:
        copied = np.array(a)
        assert address(copied) != a.buffer.address
        wider = np.asarray(a, dtype=np.float64)
        assert (wider.dtype, wider.tolist()) == (np.float64, list(range(6)))
        assert address(a.__array__(copy=True)) != a.buffer.address
        assert address(a.__array__(np.float32, copy=False)) == a.buffer.address
        with pytest.raises(ValueError, match="copy: expected None or True"):
            a.__array__(np.float64, copy=False)


@pytest.mark.parametrize("view_of", [lambda a: a.numpy(), np.from_dlpack, np.asarray])
def test_a_view_outlives_what_it_views(unified, view_of):
    a = unified.array(np.arange(1000, dtype=np.float64))
    host = view_of(a)
    a.close()
    del a
    gc.collect()
    others = [unified.buffer(8000) for _ in range(8)]
    for other in others:
        other.write(np.full(1000, 7.0))
    assert (host == np.arange(1000)).all()
    for other in others:
        other.close()


def test_a_view_outlives_the_device():
    with sp.open("cpu") as dev:
        host = dev.array(np.arange(1000)).numpy()
    del dev
    gc.collect()
    assert (host == np.arange(1000)).all()


def test_a_foreign_reader_sees_the_same_memory(unified):
    with unified.array(np.arange(6, dtype=np.float32).reshape(2, 3)) as a:
        assert tuple(a.__dlpack_device__()) == (dlpack.CPU, 0)
        reader = dlpack.Reader(a.__dlpack__())
        assert reader.address == a.buffer.address
        assert (reader.shape, reader.type) == ((2, 3), (dlpack.FLOAT, 32, 1))
        assert reader.strides in (None, (3, 1))
        reader.floats(6)[4] = 44
        assert np.asarray(a)[1, 1] == 44
        reader.close()


def test_a_foreign_exporter_is_wrapped_in_place(unified):
    source = dlpack.Exporter([1, 2, 3, 4, 5, 6], shape=(2, 3))
    with sp.wrap(unified, source) as x, unified.kernel("axpby_f32") as k, unified.buffer(24) as y:
        assert x.nbytes == 24
        unified.default_queue.launch(k, y, x, 2.0, 0.0, 6, groups=1).wait()
        assert y.read(np.float32, 6).tolist() == [2, 4, 6, 8, 10, 12]
        source.memory[0] = 50
        unified.default_queue.launch(k, y, x, 2.0, 0.0, 6, groups=1).wait()
        assert y.read(np.float32, 1)[0] == 100
        assert source.released == 0, "it was given back while it is in use"
    del x
    gc.collect()
    assert (source.exported, source.released) == (1, 1)


def test_a_foreign_exporter_as_a_launch_argument(unified):
    x, y = dlpack.Exporter([1, 2, 3, 4]), np.zeros(4, np.float32)
    with unified.kernel("copy_f32") as k:
        unified.default_queue.launch(k, y, x, 4, groups=1).wait()
        assert y.tolist() == [1, 2, 3, 4]
        integers = dlpack.Exporter([0] * 4, code=dlpack.INT)
        with pytest.raises(TypeError, match="argument x"):
            unified.default_queue.launch(k, y, integers, 4, groups=1)
    gc.collect()
    assert x.released == 1


def test_a_foreign_exporter_is_copied_by_array(device):
    source = dlpack.Exporter([1, 2, 3, 4, 5, 6], shape=(3, 2), strides=(1, 3))
    with device.array(source) as a:
        assert np.asarray(a).tolist() == [[1, 4], [2, 5], [3, 6]]
    gc.collect()
    assert source.released == 1


def test_bfloat16_comes_in_and_goes_out(unified):
    """numpy neither imports nor exports it."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = (ctypes.c_uint16 * 3)(0x3F80, 0xC000, 0x4040)
    source = dlpack.Exporter([0] * 3, code=dlpack.BFLOAT, bits=16, memory=bits, version=1)
    with unified.array(source) as a, sp.wrap(unified, source) as b:
        assert a.dtype == ml_dtypes.bfloat16
        assert np.asarray(a).astype(np.float32).tolist() == [1, -2, 3]
        assert b.address == ctypes.addressof(bits)
        reader = dlpack.Reader(a.__dlpack__())
        assert (reader.address, reader.type) == (a.buffer.address, (dlpack.BFLOAT, 16, 1))
        assert (reader.shape, reader.device) == ((3,), (dlpack.CPU, 0))
        copied = dlpack.Reader(a.__dlpack__(copy=True, max_version=(1, 0)))
        assert (copied.address != a.buffer.address, copied.readonly) == (True, False)
        with pytest.raises(BufferError, match="expected stream None"):
            a.__dlpack__(dl_device=(dlpack.CUDA, 0))
    elsewhere = dlpack.Exporter([0] * 3, code=dlpack.BFLOAT, bits=16, device=dlpack.CUDA)
    for call in (unified.array, lambda x: sp.wrap(unified, x)):
        with pytest.raises(TypeError, match="expected a host array"):
            call(elsewhere)
    assert (ctypes.c_uint16 * 3).from_address(reader.address)[:] == bits[:], "freed too early"
    for one in (reader, copied):
        one.close()
    del a, b
    gc.collect()
    # Half of the exports are numpy's, which did not take the capsules.
    assert (source.exported, source.released) == (4, 2)
    assert elsewhere.exported - elsewhere.released == 2


def test_exporters_of_other_devices_and_broken_ones(device):
    class Broken:
        def __dlpack__(self, **_):
            raise BufferError("no")

        def __dlpack_device__(self):
            return 1, 0

    class NoDevice:
        def __dlpack__(self, **_):
            raise RuntimeError("never")

    for bad in (dlpack.Exporter([1.0], device=dlpack.CUDA), Broken()):
        for call in (device.array, lambda a: sp.wrap(device, a)):
            with pytest.raises(
                (TypeError, ValueError), match=r"expected a host array|expected memory of cuda:0"
            ):
                call(bad)
    with pytest.raises((TypeError, AttributeError)):
        device.array(NoDevice())


def test_wrap_takes_an_array_interface(unified):
    class Plain:
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    plain = Plain(np.arange(5.0))
    with sp.wrap(unified, plain) as w:
        assert w.nbytes == 40
        assert w.read(np.float64, 5).tolist() == [0, 1, 2, 3, 4]


def test_wrap_keeps_its_array_alive(unified):
    w = sp.wrap(unified, np.full(100_000, 7.0))
    gc.collect()
    others = [np.zeros(100_000) for _ in range(4)]
    assert (w.read(np.float64, 100_000) == 7).all()
    del others
    w.close()


def test_a_read_only_array_stays_read_only(unified):
    host = np.arange(4.0)
    host.flags.writeable = False
    with sp.wrap(unified, host) as w:
        with w.map() as view:
            assert view.readonly
        a = w.array(np.float64, 4)
        assert a.readonly
        assert not a.numpy().flags.writeable


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros((4, 4))[:, 1],
        lambda: np.zeros((4, 4), order="F"),
        lambda: np.zeros(8)[::2],
        lambda: np.zeros(8)[::-1],
        lambda: np.broadcast_to(np.zeros(1), (3,)),
    ],
)
def test_wrap_makes_no_copies(device, make):
    with pytest.raises(ValueError, match="C-contiguous"):
        sp.wrap(device, make())


@pytest.mark.parametrize("what", [None, 3, "text", [1, 2], b"bytes", object()])
def test_wrap_wants_an_array(device, what):
    with pytest.raises(TypeError, match="array"):
        sp.wrap(device, what)
    with pytest.raises(TypeError, match="data"):
        device.array(what)
    with pytest.raises(TypeError, match="device"):
        sp.wrap(what, np.zeros(3))
