"""Devices, contexts, memory, launches, streams and events of the fake driver, by its ABI alone.

When this fails, tests of the cuda backend run on a driver that does not behave as NVIDIA's.
"""

import ctypes
import time
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p

import numpy as np
from fakekit import ILLEGAL_ADDRESS, INVALID_VALUE, NOT_READY, alone

N = 1000
X = np.arange(N, dtype=np.float32)
ONES = np.ones(N, np.float32)


def test_two_devices_of_compute_capability_9(fake):
    assert fake.get("cuDeviceGetCount", c_int) == 2
    assert fake.get("cuDeviceGetAttribute", c_int, 75, 1) == 9
    assert fake.call("cuDeviceGet", byref(c_int()), 2) == 101


def test_settings_come_from_the_environment():
    code = """print(fake.call("cuInit", 0)); print(fake.get("cuDriverGetVersion", c_int))"""
    assert alone(code, FAKE_CUDA="devices 0; driver 12040").split() == ["100", "12040"]


def test_nothing_works_before_init():
    assert alone("""print(fake.call("cuDeviceGetCount", byref(c_int())))""") == "3"


def test_a_forked_child_is_not_initialised():
    code = """
import os
fake.ok("cuInit", 0)
pid = os.fork()
if pid == 0:
    os._exit(10 * fake.call("cuInit", 0) + fake.call("cuDeviceGetCount", byref(c_int())))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), fake.call("cuInit", 0))"""
    assert alone(code) == "33 0"


def test_saxpy(fake):
    y, x = fake.upload(ONES), fake.upload(X)
    assert fake.saxpy(fake.function("saxpy_f32"), y, x, 2.0, N) == 0
    assert (fake.download(y, N) == 2 * X + 1).all()


def test_a_grid_too_small_leaves_the_rest(fake):
    y, x = fake.upload(ONES), fake.upload(X)
    assert fake.saxpy(fake.function("saxpy_f32"), y, x, 2.0, N, groups=2) == 0
    out = fake.download(y, N)
    assert (out[:512] == 2 * X[:512] + 1).all()
    assert (out[512:] == 1).all()


def test_arguments_in_a_buffer(fake):
    y, x = fake.upload(ONES), fake.upload(X)
    packed = y.value.to_bytes(8, "little") + x.value.to_bytes(8, "little")
    packed += np.float32(2).tobytes() + np.uint32(N).tobytes()
    size = c_size_t(len(packed))
    extra = (c_void_p * 5)(1, ctypes.cast(packed, c_void_p).value, 2, ctypes.addressof(size), 0)
    shape = (4, 1, 1, 256, 1, 1, 0)
    fake.ok("cuLaunchKernel", fake.function("saxpy_f32"), *shape, None, None, extra)
    assert (fake.download(y, N) == 2 * X + 1).all()


def test_a_write_beyond_its_memory_is_sticky_until_reset(fake):
    y, x = fake.upload(ONES), fake.upload(X)
    assert fake.saxpy(fake.function("saxpy_f32"), y, x, 1.0, N + 1) == 0
    assert fake.call("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert fake.call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(4)) == ILLEGAL_ADDRESS
    fake.ok("cuDevicePrimaryCtxReset_v2", 0)
    fake.context(0)
    fake.ok("cuCtxSynchronize")


def test_host_memory_is_no_device_memory(fake):
    assert (
        fake.saxpy(fake.function("saxpy_f32"), c_uint64(X.ctypes.data), fake.upload(X), 1.0, N) == 0
    )
    assert fake.call("cuCtxSynchronize") == ILLEGAL_ADDRESS


def test_limits_of_a_launch(fake):
    f = fake.function("noop")
    for shape in (
        (0, 1, 1, 1, 1, 1),
        (1, 65536, 1, 1, 1, 1),
        (1, 1, 1, 1025, 1, 1),
        (1, 1, 1, 1, 1, 65),
    ):
        assert fake.call("cuLaunchKernel", f, *shape, 0, None, None, None) == INVALID_VALUE, shape
    assert fake.launch(f, 1, shared=49153) == INVALID_VALUE
    assert fake.launch(fake.function("saxpy_f32"), 1, block=512) == INVALID_VALUE  # .maxntid
    fake.ok("cuFuncSetAttribute", f, 8, 65536)
    assert fake.launch(f, 1, shared=65536) == 0


def test_parameters_are_told(fake):
    f, offset = fake.function("saxpy_f32"), c_size_t()
    told = [
        (offset.value, size.value)
        for i in range(4)
        for size in [c_size_t()]
        if fake.call("cuFuncGetParamInfo", f, c_size_t(i), byref(offset), byref(size)) == 0
    ]
    assert told == [(0, 8), (8, 8), (16, 4), (20, 4)]
    assert fake.call("cuFuncGetParamInfo", f, c_size_t(4), byref(offset), None) == INVALID_VALUE
    assert fake.get("cuFuncGetAttribute", c_int, 1, f) == 1024


def test_too_much_memory(fake):
    assert fake.call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(1 << 40)) == 2
    fake.alloc(4)


def test_pageable_memory_is_staged_and_pinned_is_not(fake):
    s, f = fake.stream(), fake.function("noop")
    fake.control("endless noop")
    pinned = c_void_p(fake.get("cuMemHostAlloc", c_void_p, c_size_t(4), 0))
    words = [np.zeros(1, np.float32), np.frombuffer((c_float * 1).from_address(pinned.value), "f4")]
    at = [fake.upload(words[0]) for _ in words]
    fake.ok("cuStreamSynchronize", s)
    assert fake.launch(f, 1, stream=s) == 0
    for word, to in zip(words, at, strict=True):
        word[0] = 1
        fake.ok("cuMemcpyHtoDAsync_v2", to, c_void_p(word.ctypes.data), c_size_t(4), s)
        word[0] = 2
    fake.control("release")
    fake.ok("cuStreamSynchronize", s)
    assert [fake.download(to, 1)[0] for to in at] == [1, 2]


def test_an_event_of_an_endless_kernel_is_not_ready_until_released(fake):
    s, event, f = fake.stream(), fake.event(), fake.function("noop")
    fake.control("endless noop")
    assert fake.launch(f, 1, stream=s) == 0
    fake.ok("cuEventRecord", event, s)
    assert fake.call("cuEventQuery", event) == NOT_READY
    assert fake.call("cuStreamQuery", s) == NOT_READY
    fake.control("release")
    fake.ok("cuEventSynchronize", event)
    fake.ok("cuStreamQuery", s)


def test_streams_wait_for_events(fake):
    first, second, event = fake.stream(), fake.stream(), fake.event()
    y, x, f = fake.upload(ONES), fake.upload(X), fake.function("saxpy_f32")
    noop = fake.function("noop")
    fake.control("endless noop")
    assert fake.launch(noop, 1, stream=first) == 0
    assert fake.saxpy(f, y, x, 1.0, N, first) == 0
    fake.ok("cuEventRecord", event, first)
    fake.ok("cuStreamWaitEvent", second, event, 0)
    assert fake.saxpy(f, y, x, 1.0, N, second) == 0
    assert fake.call("cuStreamQuery", second) == NOT_READY
    fake.control("release")
    fake.ok("cuStreamSynchronize", second)
    assert (fake.download(y, N) == 2 * X + 1).all()


def test_the_legacy_stream_waits_for_blocking_ones_only(fake):
    blocking, other = fake.stream(0), fake.stream(1)
    y, x, f = fake.upload(ONES), fake.upload(X), fake.function("saxpy_f32")
    # Of another name than what waits for it: the streams' threads may begin in any order.
    fake.control("endless noop")
    assert fake.launch(fake.function("noop"), 1, stream=blocking) == 0
    assert fake.saxpy(f, y, x, 1.0, N, None) == 0
    assert fake.saxpy(f, y, x, 1.0, N, other) == 0
    fake.ok("cuStreamSynchronize", other)
    assert fake.call("cuStreamQuery", None) == NOT_READY
    fake.control("release")
    fake.ok("cuStreamSynchronize", None)


def test_work_begins_without_anyone_asking(fake):
    word, s = fake.upload(np.zeros(2, np.float32)), fake.stream()
    fake.ok("cuStreamWriteValue64_v2", s, word, c_uint64(7), 0)
    seen, end = ctypes.c_uint64.from_address(word.value), time.monotonic() + 10
    while seen.value != 7 and time.monotonic() < end:
        time.sleep(0.001)
    assert seen.value == 7


def test_more_launches_than_the_ring_holds(fake):
    y, x, f, s = (
        fake.upload(ONES[:8]),
        fake.upload(ONES[:8]),
        fake.function("saxpy_f32"),
        fake.stream(),
    )
    for _ in range(10000):
        assert fake.saxpy(f, y, x, 1.0, 8, s) == 0
    fake.ok("cuStreamSynchronize", s)
    assert (fake.download(y, 8) == 10001).all()


def test_freed_in_the_order_of_the_stream(fake):
    s, f, x = fake.stream(), fake.function("saxpy_f32"), fake.upload(X)
    y = c_uint64(fake.get("cuMemAllocAsync", c_uint64, c_size_t(4 * N), s))
    assert fake.saxpy(f, y, x, 1.0, N, s) == 0
    fake.ok("cuMemFreeAsync", y, s)
    assert fake.call("cuMemFreeAsync", y, s) == INVALID_VALUE
    fake.ok("cuStreamSynchronize", s)
    assert fake.saxpy(f, y, x, 1.0, N, s) == 0
    assert fake.call("cuStreamSynchronize", s) == ILLEGAL_ADDRESS


def test_stale_handles_are_recognised(fake):
    s, event = fake.stream(), fake.event()
    fake.ok("cuStreamDestroy_v2", s)
    fake.ok("cuEventDestroy_v2", event)
    assert fake.call("cuStreamQuery", s) == fake.call("cuEventQuery", event) == 400
    assert fake.launch(fake.function("noop"), 1, stream=s) == 400


def test_peers(fake):
    one = fake.context(1)
    y = fake.upload(ONES)
    zero = fake.context(0)
    x, f = fake.upload(X), fake.function("saxpy_f32")
    fake.ok("cuMemcpyPeerAsync", y, one, x, zero, c_size_t(4 * N), None)
    assert (fake.download(y, N) == X).all()
    fake.ok("cuCtxEnablePeerAccess", one, 0)
    assert fake.call("cuCtxEnablePeerAccess", one, 0) == 704
    assert fake.saxpy(f, y, x, 1.0, N) == 0
    assert (fake.download(y, N) == 2 * X).all()
    fake.ok("cuCtxDisablePeerAccess", one)
    assert fake.saxpy(f, y, x, 1.0, N) == 0
    assert fake.call("cuCtxSynchronize") == ILLEGAL_ADDRESS


def test_another_process_opens_memory(fake):
    y = fake.upload(X)
    handle = (ctypes.c_char * 64)()
    fake.ok("cuIpcGetMemHandle", handle, y)
    code = f"""
class H(ctypes.Structure): _fields_ = (("b", ctypes.c_char * 64),)
import ctypes
h = ctypes.create_string_buffer(bytes.fromhex("{handle.raw.hex()}"), 64)
"""
    code = "import ctypes\n" + code.replace("import ctypes\n", "")
    code += """
fake.ok("cuInit", 0); fake.context(0)
at = c_uint64(); fake.dll.cuIpcOpenMemHandle_v2.argtypes = (c_void_p, H, c_uint)
fake.ok("cuIpcOpenMemHandle_v2", byref(at), H.from_buffer_copy(h), 1)
print(fake.download(at, 1000).sum()); fake.ok("cuIpcCloseMemHandle", at)"""
    assert float(alone(code)) == X.sum()
