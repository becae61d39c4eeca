"""Memory shared with other libraries on a device whose queues are streams. The device is a cpu
device that notes every call about streams. Exporter and reader are our own (kits/dlpack.py).

When this fails, torch on a stream of its own reads a result before it is there.
"""

import ctypes
import errno
import gc
from dataclasses import replace

import dlpack
import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.backends.base import Allocation
from sparkle_drv.backends.cpu import BACKEND
from sparkle_drv.core import registry

PLACE = (dlpack.CUDA, 3)


class Streams(BACKEND):
    """Its memory is the host's, though it does not say so; stream 1000 + n is its n-th queue's."""

    dlpack = PLACE

    def __init__(self, settings):
        super().__init__(settings)
        self.info = replace(self.info, uri="streams:0", unified=False)
        self.calls, self.handles, self.busy, self.rc = [], [], [], 0
        reached = self.reached
        self.reached = lambda queue: 0 if queue in self.busy else reached(queue)

    @classmethod
    def open(cls, uri, settings):
        return cls(settings)

    def open_queue(self, timing):
        handle = super().open_queue(timing)
        self.handles.append(handle)
        return handle

    def owns(self, address):
        return True

    def adopt(self, address, nbytes, owner):
        self.calls.append(("adopt", address, nbytes))
        made = self.wrap(address, nbytes, owner)
        return Allocation(made.handle, address)

    def share_stream(self, queue):
        return 1000 + self.handles.index(queue)

    def wait_stream(self, queue, stream):
        self.calls.append(("wait", self.share_stream(queue), stream))
        return self.rc

    def order_stream(self, queue, stream):
        self.calls.append(("order", self.share_stream(queue), stream))
        return self.rc


@pytest.fixture
def dev():
    registry.register("streams", lambda: Streams)
    with sp.open("streams:0") as device:
        assert device.default_queue.stream == 1000
        yield device
        device._backend.busy = []
    registry.unregister("streams")


def calls(dev):
    found, dev._backend.calls = dev._backend.calls, []
    return found


def busy(dev, *queues):
    dev._backend.busy = [queue._handle for queue in queues]


def launched(dev, queue):
    with dev.kernel("noop") as k:
        queue.launch(k, groups=1).wait()


class Foreign(dlpack.Exporter):
    """Memory of device 3 of kind CUDA; notes which stream it was asked for."""

    def __init__(self, values, **options):
        super().__init__(values, device=dlpack.CUDA, **options)
        self.streams = []
        self.index = 3

    def __dlpack_device__(self):
        return self.device, self.index

    def __dlpack__(self, stream=None, max_version=None):
        self.streams.append(stream)
        capsule = super().__dlpack__(max_version=max_version)
        self.managed.tensor.device.id = 3
        return capsule


class Interface:
    """The CUDA array interface over numpy memory."""

    def __init__(self, array, **other):
        self.array = array
        said = dict(array.__array_interface__)
        del said["descr"]
        self.__cuda_array_interface__ = {**said, "version": 3, "stream": None, **other}


def test_an_exporter_is_asked_for_the_stream_of_the_queue_that_launches(dev):
    x = Foreign([1, 2, 3, 4])
    with dev.queue() as q, dev.kernel("axpby_f32") as k, dev.buffer(16) as y:
        assert q.stream == 1001
        q.launch(k, y, x, 2.0, 0.0, 4, groups=1).wait()
        assert y.read(np.float32, 4).tolist() == [2, 4, 6, 8]
        q.launch(k, x, y, 1.0, 0.0, 4, groups=1).wait()
        assert list(x.memory) == [2, 4, 6, 8]
    gc.collect()
    assert x.streams == [1001, 1001]
    assert x.released == 2


def test_wrap_is_ordered_before_every_queue(dev):
    x = Foreign([1, 2, 3, 4, 5, 6], shape=(2, 3))
    with dev.queue():
        with sp.wrap(dev, x) as buffer:
            address = ctypes.addressof(x.memory)
            assert (buffer.nbytes, buffer.address) == (24, address)
            assert buffer.memory is sp.Memory.DEVICE
            assert calls(dev) == [("wait", 1001, 1000), ("adopt", address, 24)]
            assert x.streams == [1000]
            gc.collect()
            assert x.released == 0, "it was given back while it is in use"
        del buffer
    gc.collect()
    assert x.released == 1


def test_the_array_interface_names_the_stream_to_wait_for(dev):
    host = np.arange(4, dtype=np.float32)
    for stream, wanted in ((None, []), (7777, [("wait", 1000, 7777)]), (2, [("wait", 1000, 2)])):
        with sp.wrap(dev, Interface(host, stream=stream)) as buffer:
            assert calls(dev) == [*wanted, ("adopt", buffer.address, 16)]
            assert buffer.read(np.float32, 4).tolist() == [0, 1, 2, 3]


def test_the_array_interface_may_be_of_an_older_version(dev):
    old = Interface(np.zeros(3))
    del old.__cuda_array_interface__["stream"], old.__cuda_array_interface__["strides"]
    with sp.wrap(dev, old) as buffer:
        assert buffer.nbytes == 24


def test_a_read_only_array_interface_is_not_written(dev):
    host = np.zeros(4, np.float32)
    host.flags.writeable = False
    with sp.wrap(dev, Interface(host)) as buffer:
        assert buffer.readonly
    with dev.kernel("fill_f32") as k, pytest.raises(ValueError, match="read-only"):
        dev.default_queue.launch(k, Interface(host), 1.0, 4, groups=1)


@pytest.mark.parametrize(("stream", "error"), [
    (0, ValueError), (-1, ValueError), ("x", TypeError), (1.5, TypeError),
])  # fmt: skip
def test_a_stream_that_there_is_not(dev, stream, error):
    with pytest.raises(error, match="stream"):
        sp.wrap(dev, Interface(np.zeros(3), stream=stream))
    for call in (dev.default_queue.wait_stream, dev.default_queue.order_stream):
        with pytest.raises(error, match="stream"):
            call(stream)
    assert calls(dev) == []


@pytest.mark.parametrize("broken", [
    {"typestr": "nonsense"}, {"shape": None}, {"data": 3}, {"mask": 1}, {"strides": 5},
])  # fmt: skip
def test_a_broken_array_interface(dev, broken):
    with pytest.raises(TypeError, match="__cuda_array_interface__ cannot be used"):
        sp.wrap(dev, Interface(np.zeros(3), **broken))


def test_strided_memory_is_refused(dev):
    for strided in (
        Foreign([1, 2, 3, 4, 5, 6], shape=(3, 2), strides=(1, 3)),
        Interface(np.zeros((4, 4))[:, 1], strides=(32,)),
    ):
        with pytest.raises(ValueError, match="C-contiguous"):
            sp.wrap(dev, strided)
    with sp.wrap(dev, Foreign([1, 2], shape=(1, 2), strides=(77, 1))) as buffer:
        assert buffer.nbytes == 8


def test_memory_of_another_device_is_not_taken(dev):
    other = Foreign([1.0])
    other.index = 0
    with pytest.raises(TypeError, match="expected a host array"):
        sp.wrap(dev, other)
    with dev.kernel("copy_f32") as k, pytest.raises(TypeError, match="argument y"):
        dev.default_queue.launch(k, other, other, 1, groups=1)


def test_a_capsule_of_another_device_than_was_said(dev):
    class Liar(Foreign):
        def __dlpack__(self, stream=None):
            return dlpack.Exporter.__dlpack__(self)

    liar = Liar([1.0])
    with pytest.raises(TypeError, match="got one on device"):
        sp.wrap(dev, liar)
    gc.collect()
    assert liar.released == 1


def test_an_exporter_that_raises(dev):
    class Broken(Foreign):
        def __dlpack__(self, stream=None):
            raise RuntimeError("not today")

    with pytest.raises(TypeError, match="not today"):
        sp.wrap(dev, Broken([1.0]))


def test_elements_are_checked(dev):
    with dev.kernel("copy_f32") as k, dev.buffer(16) as y:
        for wrong in (Foreign([0] * 4, code=dlpack.INT), Foreign([0] * 4, code=9)):
            with pytest.raises(TypeError, match="argument x"):
                dev.default_queue.launch(k, y, wrong, 4, groups=1)
        with pytest.raises(ValueError, match="argument x"):
            dev.default_queue.launch(k, y, Foreign([1, 2]), 4, groups=1)


def test_an_export_orders_the_work_in_flight_before_the_stream(dev):
    with dev.queue() as q, dev.array(np.arange(6.0).reshape(2, 3)) as a:
        assert a.__dlpack_device__() == PLACE
        launched(dev, q)
        calls(dev)
        busy(dev, q)
        for stream, wanted in (
            (None, [("order", 1001, 1)]),
            (2, [("order", 1001, 2)]),
            (5555, [("order", 1001, 5555)]),
            (-1, []),
        ):
            reader = dlpack.Reader(a.__dlpack__(stream=stream))
            assert calls(dev) == wanted
            assert reader.address == a.buffer.address
            assert (reader.shape, reader.type) == ((2, 3), (dlpack.FLOAT, 64, 1))
            assert reader.strides is None
            assert reader.device == PLACE
            reader.close()
        busy(dev)
        dlpack.Reader(a.__dlpack__(stream=5555)).close()
        assert calls(dev) == [], "nothing is in flight"
        for stream in (0, "x"):
            with pytest.raises((ValueError, TypeError), match="stream"):
                a.__dlpack__(stream=stream)


def test_exported_memory_outlives_its_array(dev):
    a = dev.array(np.arange(6, dtype=np.float32))
    before = dev.live_counts()["native_allocations"]
    reader = dlpack.Reader(a.__dlpack__())
    a.close()
    gc.collect()
    assert list(reader.floats(6)) == [0, 1, 2, 3, 4, 5]
    assert dev.live_counts()["native_allocations"] == before
    reader.close()
    assert dev.live_counts()["native_allocations"] == before - 1


def test_a_capsule_that_nobody_takes_gives_back_its_memory(dev):
    a = dev.array(np.zeros(6))
    capsule = a.__dlpack__()
    before = dev.live_counts()["native_allocations"]
    a.close()
    del capsule
    assert dev.live_counts()["native_allocations"] == before - 1


def test_what_an_export_cannot_be(dev):
    with dev.array(np.zeros(2)) as a, dev.array(np.zeros(2, "M8[s]")) as dates:
        with pytest.raises(BufferError, match="copy: expected None or False"):
            a.__dlpack__(copy=True)
        with pytest.raises(BufferError, match="dl_device: expected"):
            a.__dlpack__(dl_device=(2, 7))
        with pytest.raises(BufferError, match="copy: expected None or True"):
            a.__dlpack__(dl_device=(1, 0), copy=False)
        dlpack.Reader(a.__dlpack__(dl_device=PLACE, copy=False, max_version=(1, 0))).close()
        with pytest.raises(BufferError, match="datetime64"):
            dates.__dlpack__()
    host = np.zeros(2)
    host.flags.writeable = False
    with sp.wrap(dev, Interface(host)) as buffer, pytest.raises(BufferError, match="read-only"):
        buffer.array(np.float64, 2).__dlpack__()


def test_an_export_of_version_1_says_what_is_read_only(dev):
    """torch, JAX and numpy write into what they do not know to be read-only."""
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    for readonly in (False, True):
        host.flags.writeable = not readonly
        with sp.wrap(dev, Interface(host)) as buffer:
            before = dev.live_counts()["native_allocations"]
            array = buffer.array(np.float32, (2, 3))
            reader = dlpack.Reader(array.__dlpack__(max_version=(1, 3)))
            assert (reader.readonly, reader.shape, reader.strides) == (readonly, (2, 3), (3, 1))
            assert (reader.managed.major, reader.address) == (1, buffer.address)
            array.close()
            reader.close()
            assert dev.live_counts()["native_allocations"] == before
        del buffer, array


def test_an_export_to_the_host_is_a_copy(dev):
    with dev.array(np.arange(4, dtype=np.float32)) as a:
        reader = dlpack.Reader(a.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
        assert reader.device == (dlpack.CPU, 0)
        assert reader.address != a.buffer.address
        assert list(reader.floats(4)) == [0, 1, 2, 3]
        reader.close()


def test_a_capsule_of_version_1_is_read(dev):
    """Its flag keeps our kernels from writing an array that others count on."""
    for readonly in (False, True):
        x = Foreign([1, 2, 3, 4], version=1, readonly=readonly)
        with sp.wrap(dev, x) as buffer:
            assert (buffer.nbytes, buffer.readonly) == (16, readonly)
        del buffer
        gc.collect()
        assert x.released == 1
    later = Foreign([1.0], version=2)
    with pytest.raises(TypeError, match="version 1 at most, got 2"):
        sp.wrap(dev, later)
    gc.collect()
    assert later.released == 1


def test_the_array_interface_of_an_array(dev):
    with dev.queue() as q, dev.array(np.zeros((2, 3), np.int32)) as a, dev.empty(0, "f4") as none:
        launched(dev, q)
        calls(dev)
        said = a.__cuda_array_interface__
        assert said == {
            "shape": (2, 3), "typestr": "<i4", "data": (a.buffer.address, False), "strides": None,
            "stream": None, "version": 3,
        }  # fmt: skip
        busy(dev, q)
        assert a.__cuda_array_interface__["stream"] == 1000
        assert calls(dev) == [("wait", 1000, 1001)]
        busy(dev)
        assert none.__cuda_array_interface__["data"] == (0, False)


def test_one_device_reads_another_arrays(dev):
    """Our own export and import against each other, by either protocol."""
    with dev.array(np.arange(4, dtype=np.float32)) as a:
        with sp.wrap(dev, a) as same:
            assert same.address == a.buffer.address
        plain = Interface(np.zeros(1))
        plain.__cuda_array_interface__ = a.__cuda_array_interface__
        with sp.wrap(dev, plain) as same:
            assert same.read(np.float32, 4).tolist() == [0, 1, 2, 3]


def test_a_driver_that_refuses(dev):
    dev._backend.rc = -errno.EIO
    with pytest.raises(sp.SparkleError, match=r"order_stream: EIO"):
        dev.default_queue.order_stream(1)
    dev._backend.rc = 0


def test_devices_without_streams():
    with sp.open("cpu") as cpu, cpu.array(np.zeros(2)) as a:
        assert not hasattr(a, "__cuda_array_interface__")
        for call in (lambda: cpu.default_queue.stream, lambda: cpu.default_queue.wait_stream(1)):
            with pytest.raises(ValueError, match="cannot use its queues as streams"):
                call()
