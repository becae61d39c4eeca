"""egl:0 as a device: clocks, threads, copies and fills of every shape, pooled memory, SPIR-V.

When this fails, OpenGL devices give wrong times, lose copies or break under threads.
"""

from __future__ import annotations

import struct
import threading
import time

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.testing.checks.base import Busy

ADD = b"""\
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Y { uint y[]; };
layout(location = 0) uniform uint n;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < n)
        y[i] += 1u;
}
"""


def adder(dev):
    return dev.kernel(image=ADD, entry="main", args="u32* u32")


def test_it_says_what_it_is(egl):
    info = egl.info
    assert (info.backend, info.kind, info.unified) == ("egl", "gpu", False)
    assert info.max_groups >= (65535,) * 3
    assert info.max_group_size >= 128
    assert info.max_shared_nbytes >= 16384
    assert info.offset_alignment & (info.offset_alignment - 1) == 0
    assert info.max_pointer_nbytes >= 1 << 24  # what OpenGL 4.3 requires
    assert info.software == ("llvmpipe" in info.name)
    assert ("cpu" in info.shares) == info.software
    if info.software:  # last, whatever else there is
        order = [i.software for i in sp.devices()]
        assert order == sorted(order)


def test_device_times_are_times_of_this_clock(egl):
    """A timing queue and a timestamp, told as CLOCK_MONOTONIC, lie between looks at that clock."""
    slack = 50_000_000  # how far apart the two clocks' readings may be
    with (
        adder(egl) as k,
        egl.buffer(4000) as y,
        egl.queue(timing=True) as queue,
    ):
        stamps = [egl.timestamp() for _ in range(2)]
        start = time.monotonic_ns()
        commands = sp.Commands().timestamp(stamps[0]).dispatch(k, y, 1000, groups=16)
        fence = queue.submit(commands.timestamp(stamps[1])).wait()
        end = time.monotonic_ns()
        times = egl._backend.times(queue._handle, fence.value)
        assert start - slack < times[0] <= times[1] < end + slack
        assert fence.time_ns == times[1] - times[0]
        assert start - slack < stamps[0].ns <= stamps[1].ns < end + slack
        for stamp in stamps:
            stamp.close()


def test_threads_that_launch_and_load_at_once(egl):
    errors, results = [], {}

    def work(index):
        try:
            with adder(egl) as k, egl.buffer(4 * 500) as y, egl.queue() as queue:
                for _ in range(50):
                    queue.launch(k, y, 500, groups=8)
                queue.fence(queue.submitted).wait()
                results[index] = y.read(np.uint32, 500)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all((results[i] == 50).all() for i in range(4))


def test_two_threads_on_one_queue(egl):
    """Launches, prepared ones and lists of two threads on one buffer: each sees the one before."""
    with adder(egl) as k, egl.buffer(4 * 64) as y, egl.queue() as queue:
        errors = []

        def work():
            try:
                go = queue.prepare(k, y, 64, groups=1)
                listed = sp.Commands()
                for _ in range(5):
                    listed.dispatch(k, y, 64, groups=1)
                for _ in range(100):
                    queue.launch(k, y, 64, groups=1)
                    queue.submit(listed)
                    queue.fence(go()).wait()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert (y.read(np.uint32, 64) == 2 * 100 * 7).all()


def test_dispatches_in_turn_see_each_other(egl):
    """One buffer, others, views of one: whether a barrier is put between is the backend's care."""
    rng = np.random.default_rng(11)
    with adder(egl) as k, egl.buffer(4 * 256) as a, egl.buffer(4 * 256) as b:
        step = max(64, egl.info.offset_alignment // 4)
        want = {id(a): np.zeros(256, np.uint32), id(b): np.zeros(256, np.uint32)}
        commands = sp.Commands()
        for _ in range(60):
            buffer = (a, b)[rng.integers(2)]
            at, n = step * int(rng.integers(256 // step)), int(rng.integers(1, step + 1))
            commands.dispatch(k, buffer.view(4 * at), n, groups=-(-n // 64))
            want[id(buffer)][at : at + n] += 1
            if rng.random() < 0.2:
                commands.copy(b, a)
                want[id(b)] = want[id(a)].copy()
        egl.default_queue.submit(commands).wait()
        for buffer in (a, b):
            assert (buffer.read(np.uint32, 256) == want[id(buffer)]).all()


def test_launches_that_nobody_waits_for_run(egl):
    """Also those on an idle device, whose owner sleeps or naps."""
    with adder(egl) as k, egl.buffer(4) as y, egl.queue() as queue:
        for pause in (0, 0.001, 0.01, 0.05):
            time.sleep(pause)
            queue.launch(k, y, 1, groups=1)
            deadline = time.monotonic() + 30
            while queue.reached < queue.submitted:
                assert time.monotonic() < deadline
        assert y.read(np.uint32, 1)[0] == 4


def test_more_launches_than_are_kept_at_once(egl):
    with adder(egl) as k, egl.buffer(4) as y, egl.queue() as queue:
        go = queue.prepare(k, y, 1, groups=1)
        for _ in range(20000):
            last = go()
        queue.fence(last).wait()
        assert y.read(np.uint32, 1)[0] == 20000


def test_copies_and_fills_of_every_shape(egl):
    rng = np.random.default_rng(3)
    image = rng.integers(0, 256, 4096, np.uint8)
    with egl.buffer(4096) as a, egl.buffer(4096, sp.Memory.HOST) as b:
        a.write(image)
        b.write(image)
        commands = sp.Commands()
        for dst, src, n in ((1, 100, 33), (10, 0, 1000), (0, 10, 1000), (5, 5, 7), (2000, 9, 0)):
            commands.copy(a.view(dst, n), a.view(src, n))  # overlapping too
            image[dst : dst + n] = image[src : src + n].copy()
        for at, n, width in ((3, 8, 4), (6, 8, 2), (7, 5, 1), (64, 400, 4), (600, 0, 4)):
            commands.fill(a.view(at, n), 0xC1C2C3C4 % (1 << 8 * width), width)
            image[at : at + n] = np.tile(
                np.frombuffer((0xC1C2C3C4 % (1 << 8 * width)).to_bytes(width, "little"), np.uint8),
                n // width,
            )
        commands.copy(b, a)
        egl.default_queue.submit(commands).wait()
        assert (b.read(np.uint8, 4096) == image).all()
        with b.map() as view:
            assert bytes(view) == image.tobytes()


def test_memory_from_the_pool_is_zero(egl):
    for memory in (sp.Memory.DEVICE, sp.Memory.HOST):
        for nbytes in (1, 255, 4096, 70001, 1 << 20):
            for _ in range(2):
                with egl.buffer(nbytes, memory) as buffer:
                    assert not buffer.read(np.uint8, nbytes).any()
                    buffer.write(np.full(nbytes, 0xEE, np.uint8))


@pytest.mark.parametrize("memory", list(sp.Memory))
def test_what_the_host_has_mapped_stays_past_its_end(egl, memory):
    """An array over mapped memory, which another device may have wrapped, keeps it."""
    n = 70001
    before = egl.live_counts()["native_allocations"]
    buffer = egl.buffer(n, memory)
    view = np.frombuffer(buffer.map(), np.uint8)
    view[:] = 7
    also = np.frombuffer(buffer.view(n - 5, 5).map(), np.uint8)
    buffer.close()
    for _ in range(3):  # the pool gives freed memory of this size to the next
        with egl.buffer(n, memory) as other, other.map() as bytes_:
            bytes_[:] = b"\xee" * n
            assert (view == 7).all()
    del view
    assert (also == 7).all()
    assert egl.live_counts()["native_allocations"] == before + 1
    del also
    assert egl.live_counts()["native_allocations"] == before


def test_spirv_is_opt_in_and_runs(egl):
    def op(code, *operands):
        return [(len(operands) + 1) << 16 | code, *operands]

    main = struct.unpack("<2I", b"main\0\0\0\0")
    words = [0x07230203, 0x00010000, 0, 10, 0, *op(17, 1), *op(14, 0, 1), *op(15, 5, 4, *main)]
    words += [*op(16, 4, 17, 8, 1, 1), *op(19, 2), *op(33, 3, 2), *op(54, 2, 4, 0, 3)]
    words += [*op(248, 5), *op(253), *op(56)]
    image = struct.pack(f"<{len(words)}I", *words)
    with pytest.raises(sp.ImageError, match="allow_spirv=True"):
        egl.kernel(image=image, entry="main", args="u32")
    if "spirv" not in egl.info.features:
        pytest.skip("this driver takes no SPIR-V")
    with egl.kernel(image=image, entry="main", args="u32", allow_spirv=True) as k:
        assert k.group_size == (8, 1, 1)
        egl.default_queue.launch(k, 5, groups=2).wait()
    with pytest.raises(sp.ImageError, match="expected a compute entry point"):
        egl.kernel(image=image, entry="other", args="u32", allow_spirv=True)
    with pytest.raises(sp.ImageError, match="truncated"):
        egl.kernel(image=image[:-4], entry="main", args="u32", allow_spirv=True)


def test_a_copy_to_another_device_waits_as_long_as_its_queue_says(egl):
    """After a timeout the first half of the way still runs: its memory lives until it has ended."""
    data = np.arange(100_000, dtype=np.uint32)
    with (
        sp.open("egl:0") as other,
        Busy(other) as busy,
        other.buffer(data.nbytes) as src,
        egl.buffer(data.nbytes) as dst,
        egl.queue() as queue,
    ):
        src.write(data)
        queue.timeout_s = 0.01
        other.default_queue.submit(busy.commands(0.5))
        with pytest.raises(sp.FenceTimeout, match=r"within 0\.01 s"):
            queue.copy_peer(dst, src)
        assert other.live_counts()["retired"] == 1
        other.wait_idle()
        assert other.live_counts()["retired"] == 0
        queue.timeout_s = 30
        queue.copy_peer(dst, src).wait()
        np.testing.assert_array_equal(dst.read(np.uint32, data.size), data)
