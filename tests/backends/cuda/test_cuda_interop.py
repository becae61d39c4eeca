"""Memory shared with another CUDA library in this process, on the fake driver. The other library is
written here with ctypes. Its stream is held up until the test lets it go. Whoever does not wait
reads too early, and the test sees that.

When this fails, torch or CuPy beside this package reads a result before it is there.
"""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import dlpack
import fakecuda
import numpy as np
import pytest

import sparkle_drv as sp

NOT_READY = 600  # CUDA_ERROR_NOT_READY
PTX = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry busy_u32(.param .u64 y, .param .u32 iters) { ret; }
\0"""


class Other:
    """A library with a stream of its own; `busy` puts a kernel into it that `endless` holds up."""

    def __init__(self):
        self.cu = ctypes.CDLL(fakecuda.library())
        self.context, self.stream, module = c_void_p(), c_void_p(), c_void_p()
        self.kernel, self.kept, self.pinned = c_void_p(), [], []
        self("cuDevicePrimaryCtxRetain", byref(self.context), 0)
        self("cuCtxSetCurrent", self.context)
        self("cuStreamCreate", byref(self.stream), 1)
        self("cuModuleLoadData", byref(module), PTX)
        self("cuModuleGetFunction", byref(self.kernel), module, b"busy_u32")

    def __call__(self, name, *args):
        code = self.raw(name, *args)
        assert code == 0, f"{name}: error {code}"

    def raw(self, name, *args):
        return getattr(self.cu, name)(*args)

    def memory(self, nbytes):
        address = c_uint64()
        self("cuMemAlloc_v2", byref(address), c_size_t(nbytes))
        self.kept.append(address)
        return address

    def busy(self, scratch):
        iters = c_uint(1)
        args = (c_void_p * 2)(ctypes.addressof(scratch), ctypes.addressof(iters))
        self("cuLaunchKernel", self.kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, args, None)

    def fill(self, memory, value, count):
        self("cuMemsetD32Async", memory, c_uint(value), c_size_t(count), self.stream)

    def read(self, address, count):
        """Ordered into its stream; the numbers are there once `sync` has returned."""
        pinned = c_void_p()  # from pageable memory the driver would wait here
        self("cuMemHostAlloc", byref(pinned), c_size_t(4 * count), 0)
        self.pinned.append(pinned)
        self("cuMemcpyDtoHAsync_v2", pinned, c_uint64(address), c_size_t(4 * count), self.stream)
        return (ctypes.c_float * count).from_address(pinned.value)

    def ready(self):
        code = self.raw("cuStreamQuery", self.stream)
        assert code in (0, NOT_READY)
        return code == 0

    def sync(self):
        self("cuStreamSynchronize", self.stream)

    def make_wait(self, stream, after):
        """What `stream` is given from now on runs after what `after` has been given."""
        event = c_void_p()
        self("cuEventCreate", byref(event), c_int(2))
        self("cuEventRecord", event, c_void_p(after))
        self("cuStreamWaitEvent", c_void_p(stream), event, 0)
        self("cuEventDestroy_v2", event)

    def close(self):
        self.sync()
        for address in self.kept:
            self("cuMemFree_v2", address)
        for pinned in self.pinned:
            self("cuMemFreeHost", pinned)
        self("cuStreamDestroy_v2", self.stream)
        self("cuDevicePrimaryCtxRelease_v2", 0)


class Exported(dlpack.Exporter):
    """Eight floats of the other library's memory; asks its stream to come first, as DLPack says."""

    def __init__(self, other, memory):
        super().__init__([0.0] * 8, device=dlpack.CUDA)
        self.other, self.address, self.streams = other, memory, []

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        self.other.make_wait(stream, self.other.stream.value)
        capsule = super().__dlpack__()
        self.managed.tensor.data = self.address.value
        return capsule


class Described:
    """The same by the CUDA array interface, which names the stream and leaves the rest to us."""

    def __init__(self, other, memory):
        self.__cuda_array_interface__ = {
            "shape": (8,), "typestr": "<f4", "data": (memory.value, False), "strides": None,
            "stream": other.stream.value, "version": 3,
        }  # fmt: skip


@pytest.fixture
def other(cuda, tell):
    made = Other()
    yield made
    tell("release")
    made.close()


def held(fence):
    """What it is the fence of has begun, or waits, and does not end."""
    with pytest.raises(sp.FenceTimeout):
        fence.wait(0.05)


SEVEN = 0x40E00000  # 7.0


@pytest.mark.parametrize("kind", [Exported, Described])
def test_a_launch_waits_for_the_producers_stream(cuda, tell, other, kind):
    x, scratch = other.memory(32), other.memory(4)
    tell("endless busy_u32")
    other.busy(scratch)
    other.fill(x, SEVEN, 8)
    with cuda.queue() as q, cuda.kernel("copy_f32") as k, cuda.buffer(32) as y:
        given = kind(other, x)
        fence = q.launch(k, y, given, 8, groups=1)
        if kind is Exported:
            assert given.streams == [q.stream]
        held(fence)
        tell("release")
        fence.wait()
        assert y.read(np.float32, 8).tolist() == [7.0] * 8


@pytest.mark.parametrize("kind", [Exported, Described])
def test_every_queue_waits_for_what_was_wrapped(cuda, tell, other, kind):
    x, scratch = other.memory(32), other.memory(4)
    tell("endless busy_u32")
    other.busy(scratch)
    other.fill(x, SEVEN, 8)
    with (
        cuda.queue() as q, cuda.kernel("copy_f32") as k, cuda.buffer(32) as y,
        sp.wrap(cuda, kind(other, x)) as wrapped,
    ):  # fmt: skip
        assert (wrapped.address, wrapped.nbytes) == (x.value, 32)
        fence = q.launch(k, y, wrapped, 8, groups=1)
        held(fence)
        tell("release")
        fence.wait()
        assert y.read(np.float32, 8).tolist() == [7.0] * 8


def test_a_consumers_stream_waits_for_our_work(cuda, tell, other):
    tell("endless busy_u32")
    with (
        cuda.queue() as q, cuda.kernel("busy_u32") as busy, cuda.kernel("fill_f32") as fill,
        cuda.buffer(4) as scratch, cuda.empty(8, np.float32) as a,
    ):  # fmt: skip
        held(q.launch(busy, scratch, 1, groups=1))
        q.launch(fill, a, 7.0, 8, groups=1)
        early = dlpack.Reader(a.__dlpack__(stream=-1))
        other.sync()
        assert other.ready(), "stream=-1 orders nothing"
        early.close()
        reader = dlpack.Reader(a.__dlpack__(stream=other.stream.value))
        assert reader.device == (dlpack.CUDA, 0)
        out = other.read(reader.address, 8)
        assert not other.ready()
        tell("release")
        other.sync()
        assert list(out) == [7.0] * 8
        reader.close()


def test_a_reader_of_the_array_interface_finds_the_stream_to_wait_for(cuda, tell, other):
    tell("endless busy_u32")
    with (
        cuda.queue() as q, cuda.kernel("busy_u32") as busy, cuda.kernel("fill_f32") as fill,
        cuda.buffer(4) as scratch, cuda.empty(8, np.float32) as a,
    ):  # fmt: skip
        held(q.launch(busy, scratch, 1, groups=1))
        q.launch(fill, a, 7.0, 8, groups=1)
        said = a.__cuda_array_interface__
        other.make_wait(other.stream.value, said["stream"])
        out = other.read(said["data"][0], 8)
        assert not other.ready()
        tell("release")
        other.sync()
        assert list(out) == [7.0] * 8


def test_wait_stream_and_order_stream(cuda, tell, other):
    scratch, x = other.memory(4), other.memory(32)
    tell("endless busy_u32")
    other.busy(scratch)
    other.fill(x, SEVEN, 8)
    with cuda.queue() as q, cuda.kernel("noop") as noop:
        q.wait_stream(other.stream.value)
        fence = q.launch(noop, groups=1)
        held(fence)
        tell("release")
        fence.wait()
        tell("endless busy_u32")
        with cuda.kernel("busy_u32") as busy, cuda.buffer(4) as y:
            held(q.launch(busy, y, 1, groups=1))
            q.order_stream(other.stream.value)
            other.fill(x, SEVEN, 8)
            assert not other.ready()
            tell("release")
            other.sync()
            q.fence(q.submitted).wait()


def test_memory_that_is_not_the_devices_is_refused(cuda, other):
    host = np.zeros(8, np.float32)
    given = Described(other, c_uint64(host.ctypes.data))
    with pytest.raises(ValueError, match="not memory of cuda:0"):
        sp.wrap(cuda, given)


def test_a_launch_does_not_reach_for_another_gpus_memory(cuda, other):
    given = Described(other, other.memory(32))
    with sp.open("cuda:1") as device, device.kernel("copy_f32") as k, device.buffer(32) as y:
        with pytest.raises(ValueError, match="not memory of cuda:1"):
            device.default_queue.launch(k, y, given, 8, groups=1)
        y.read(np.float32, 8)  # the device is none the worse
    other("cuCtxSetCurrent", other.context)  # its thread was lent to cuda:1 meanwhile


@pytest.mark.parametrize(
    "wrong",
    [{"shape": (-8,)}, {"shape": (-2, -4)}, {"shape": (1 << 62, 8)}, {"data": (-1, False)},
     {"data": (1 << 64, False)}, {"data": ((1 << 64) - 8, False)}],
)  # fmt: skip
def test_sizes_and_addresses_that_cannot_be_are_refused(cuda, other, wrong):
    given = Described(other, other.memory(32))
    given.__cuda_array_interface__ |= wrong
    with pytest.raises(TypeError, match="cannot be used"):
        sp.wrap(cuda, given)
    with cuda.kernel("copy_f32") as k, cuda.buffer(32) as y, pytest.raises(TypeError):
        cuda.default_queue.launch(k, y, given, 8, groups=1)


@pytest.mark.parametrize("stream", [0, -1, 1 << 64])
def test_a_stream_that_is_no_handle_is_refused(cuda, stream):
    with pytest.raises(ValueError, match="1, 2 or a handle"):
        cuda.default_queue.wait_stream(stream)


def test_exported_memory_outlives_its_array(cuda, other):
    a = cuda.array(np.arange(8, dtype=np.float32))
    reader = dlpack.Reader(a.__dlpack__(stream=other.stream.value))
    a.close()
    others = [cuda.array(np.zeros(8, np.float32)) for _ in range(4)]
    out = other.read(reader.address, 8)
    other.sync()
    assert list(out) == list(range(8))
    reader.close()
    for array in others:
        array.close()
