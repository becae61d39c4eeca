"""Injection, counters and modelled time.

When this fails, tests of failing CUDA calls inject none, and pass.
"""

from ctypes import byref, c_float, c_size_t, c_uint64, c_void_p


def test_a_call_fails_on_request_after_some_that_pass(fake):
    fake.control("fail cuMemAlloc_v2 2 times=2 after=1")
    got = [fake.call("cuMemAlloc_v2", byref(c_uint64()), c_size_t(4)) for _ in range(4)]
    assert got == [0, 2, 2, 0]


def test_calls_are_counted(fake):
    f = fake.function("noop")
    for _ in range(3):
        assert fake.launch(f, 1) == 0
    assert fake.control("calls cuLaunchKernel") == 3
    assert fake.control("calls cuCtxGetCurrent") == 0


def test_a_kernel_meets_a_fault(fake):
    f = fake.function("noop")
    fake.control("fault 719 noop after=1")
    assert fake.launch(f, 1) == 0
    fake.ok("cuCtxSynchronize")
    assert fake.launch(f, 1) == 0
    assert fake.call("cuCtxSynchronize") == 719


def test_commands_that_make_no_sense(fake):
    for command in (b"", b"fail", b"fail cuNothing 2", b"live nothing", b"nothing"):
        assert fake.dll.fake_cuda_control(command) < 0, command


def modelled_ms(fake, streams) -> float:
    """Two 2 ms kernels in these streams, by events in modelled time."""
    f, start, end = fake.function("noop"), fake.event(), fake.event()
    fake.ok("cuEventRecord", start, streams[0])
    for s in streams:
        assert fake.launch(f, 1, stream=s) == 0
    fake.ok("cuEventRecord", end, streams[-1])
    for s in streams:
        fake.ok("cuStreamSynchronize", s)
    out = c_float()
    fake.ok("cuEventElapsedTime", byref(out), start, end)
    return out.value


def test_kernels_of_one_device_take_turns(fake):
    fake.control("time kernel 2000")
    assert modelled_ms(fake, [fake.stream()]) >= 2
    assert modelled_ms(fake, [fake.stream(), fake.stream()]) >= 2


def test_a_copy_and_a_kernel_overlap(fake):
    """Both ends lie nearer together than the two together would last, whatever the machine does."""
    fake.control("time kernel 20000")
    fake.control("time h2d 0.00005")  # GB/s: 1000 bytes in 20 ms
    copies, kernels = fake.stream(), fake.stream()
    pinned = c_void_p(fake.get("cuMemHostAlloc", c_void_p, c_size_t(1000), 0))
    at, f = fake.alloc(1000), fake.function("noop")
    ends = [fake.event(), fake.event()]
    fake.ok("cuMemcpyHtoDAsync_v2", at, pinned, c_size_t(1000), copies)
    assert fake.launch(f, 1, stream=kernels) == 0
    for end, s in zip(ends, (copies, kernels), strict=True):
        fake.ok("cuEventRecord", end, s)
    fake.ok("cuCtxSynchronize")
    out = c_float()
    fake.ok("cuEventElapsedTime", byref(out), *ends)
    assert abs(out.value) < 20
