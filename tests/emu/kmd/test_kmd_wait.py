"""WAIT_CS, WAIT_FENCES, FENCE_TO_HANDLE, sync_file descriptors.

When this fails, waits that a real kernel ends differently pass on the emulator.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time

import pytest
from ioctls import FOREVER, Syncobj, address, await_word, fence_of, refused, soon, store, wait_cs

from sparkle_drv.testing.emulator import ffi


@pytest.fixture
def out(gpu):
    made = gpu.buffer(4096, flags=0x40, rights="rwu")
    yield made
    made.close()


@pytest.fixture
def stuck(gpu, out):
    """A job that ends when the first dword is 1, which it is after the test."""
    job = gpu.submit("compute", await_word(out, 1))
    yield job
    out.write([1])
    gpu.wait(job)


def wait_fences(gpu, fences, *, every, timeout):
    array = ffi.new("struct drm_amdgpu_fence[]", fences)
    args = gpu.node.call(
        "AMDGPU_WAIT_FENCES",
        "union drm_amdgpu_wait_fences",
        fences=address(array),
        fence_count=len(fences),
        wait_all=every,
        timeout_ns=timeout,
    )
    return args.out.status, args.out.first_signaled


def test_wait_cs_polls_times_out_and_ends(gpu, out, stuck):
    assert wait_cs(gpu, stuck, 0) == 1
    assert wait_cs(gpu, stuck, 1) == 1  # long past
    before = time.monotonic()
    assert wait_cs(gpu, stuck, soon(0.03)) == 1
    assert time.monotonic() - before >= 0.03
    out.write([1])
    assert wait_cs(gpu, stuck, FOREVER) == 0


def test_wait_cs_sleeps_until_the_job_is_done(gpu, out, stuck):
    threading.Timer(0.03, out.write, [[1]]).start()
    assert wait_cs(gpu, stuck, soon()) == 0


def test_the_latest_job_by_minus_one(gpu, stuck):
    assert wait_cs(gpu, stuck._replace(seq=FOREVER)) == 1


@pytest.mark.parametrize("change", [{"seq": 2}, {"ring": 4}, {"ip": 3}, {"seq": FOREVER - 1}])
def test_what_nobody_submitted(gpu, stuck, change):
    with refused(errno.EINVAL):
        wait_cs(gpu, stuck._replace(**change))


def test_all_or_any_fence(gpu, out, stuck):
    done = gpu.submit("gfx", store(out, 3, 64))
    gpu.wait(done)
    both = [fence_of(gpu, stuck), fence_of(gpu, done)]
    assert wait_fences(gpu, both, every=1, timeout=soon(0.01)) == (0, 0)
    assert wait_fences(gpu, both, every=0, timeout=0) == (1, 1)
    assert wait_fences(gpu, both[:1], every=0, timeout=soon(0.01)) == (0, 0)
    threading.Timer(0.02, out.write, [[1]]).start()
    assert wait_fences(gpu, both, every=1, timeout=FOREVER) == (1, 0)


def test_bad_fences(gpu, stuck):
    with refused(errno.EINVAL):
        wait_fences(gpu, [], every=0, timeout=0)
    ctx, *rest = fence_of(gpu, stuck)
    with refused(errno.EINVAL):
        wait_fences(gpu, [fence_of(gpu, stuck), (ctx + 1, *rest)], every=1, timeout=0)
    ctype = "union drm_amdgpu_wait_fences"
    with refused(errno.EFAULT):
        gpu.node.call("AMDGPU_WAIT_FENCES", ctype, fences=8, fence_count=1)


def to_handle(gpu, job, what):
    fence = ffi.new("struct drm_amdgpu_fence *", fence_of(gpu, job))
    ctype = "union drm_amdgpu_fence_to_handle"
    args = gpu.node.call("AMDGPU_FENCE_TO_HANDLE", ctype, fence=fence[0], what=what)
    return args.out.handle


def test_a_fence_becomes_a_syncobj(gpu, out, stuck):
    sync = Syncobj(gpu.node, handle=to_handle(gpu, stuck, 0))
    with refused(errno.ETIME):
        sync.wait()
    out.write([1])
    sync.wait(soon())
    sync.destroy()


def readable(fd, timeout_s):
    return bool(select.select([fd], [], [], timeout_s)[0])


def test_a_sync_file_is_readable_when_signalled(gpu, out, stuck):
    fd = to_handle(gpu, stuck, 2)
    twin = os.dup(fd)
    assert not readable(fd, 0.01)
    out.write([1])
    assert readable(fd, 10)
    assert readable(twin, 0)
    assert readable(fd, 0)
    os.close(fd)
    os.close(twin)


def test_a_fence_of_the_past_is_signalled(gpu, out):
    job = gpu.submit("compute", store(out, 1))
    for _ in range(33):
        gpu.wait(gpu.submit("compute", store(out, 1)))
    fd = to_handle(gpu, job, 2)
    assert readable(fd, 0)
    os.close(fd)


def test_a_syncobj_descriptor_is_the_object(machine, gpu, stuck):
    fd = to_handle(gpu, stuck, 1)
    assert not readable(fd, 0)
    assert machine.live_counts()["fds"] == 1
    got = gpu.node.call("SYNCOBJ_FD_TO_HANDLE", "struct drm_syncobj_handle", fd=fd)
    sync = Syncobj(gpu.node, handle=got.handle)
    os.close(fd)
    assert machine.live_counts()["fds"] == 0
    with refused(errno.ETIME):
        sync.wait()
    sync.destroy()


def test_a_fence_to_what(gpu, stuck):
    with refused(errno.EINVAL):
        to_handle(gpu, stuck, 3)


def test_many_threads_wait_for_one_job(gpu, out, stuck):
    ended = []
    threads = [
        threading.Thread(target=lambda: ended.append(wait_cs(gpu, stuck, soon()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    out.write([1])
    for thread in threads:
        thread.join()
    assert ended == [0] * 8
