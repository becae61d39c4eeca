"""Grids that need several jobs: how long jobs become, what happens when the queue is full, and
Ctrl-C.

When this fails, a large grid is killed by the kernel's time limit, or fills the queue for good.
"""

from __future__ import annotations

import errno
import signal
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.backends.amdgpu import info
from sparkle_drv.backends.base import BEGUN
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

CHIPS = ["gfx1036", "gfx1100"]
JOBS = 30  # of one queue at the same time
GROUP = 256


@contextmanager
def opened(monkeypatch, chip="gfx1100", *, threads=GROUP, ns=0, measured=0, **options):
    monkeypatch.setattr(info, "JOB_THREADS", threads)
    monkeypatch.setattr(info, "JOB_NS", ns)
    monkeypatch.setattr(info, "MEASURED_THREADS", measured)
    with (
        Machine([chip], **options) as machine,
        Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev,
    ):
        yield machine, dev


@contextmanager
def arrays(dev, n):
    with (
        dev.kernel("saxpy_f32") as k,
        dev.array(np.ones(n, np.float32)) as x,
        dev.array(np.zeros(n, np.float32)) as y,
        dev.queue() as q,
    ):
        yield SimpleNamespace(k=k, x=x, y=y, q=q, n=n, groups=n // GROUP)


def go(a):
    return a.q.launch(a.k, a.y, a.x, 1.0, a.n, groups=a.groups)


def jobs(dev):
    return dev._backend.counters()["jobs"]


def job_threads(kernel):
    return lib.sp_amdgpu_job_threads(ffi.cast("struct sp_amdgpu_kernel *", kernel._pointer))


@pytest.mark.parametrize("chip", CHIPS)
def test_more_jobs_than_fit_into_the_queue(monkeypatch, chip):
    with opened(monkeypatch, chip) as (_, dev), arrays(dev, 100 * GROUP) as a:
        before = jobs(dev)
        go(a).wait()
        go(a).wait()
        assert jobs(dev) - before == 200
        assert (np.asarray(a.y) == 2).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_jobs_grow_while_they_are_short(monkeypatch, chip):
    with opened(monkeypatch, chip, ns=10**9) as (_, dev), arrays(dev, 2000 * GROUP) as a:
        before = jobs(dev)
        for i in range(1, 4):
            go(a).wait()
            assert (np.asarray(a.y) == i).all()
        assert job_threads(a.k) > 16 * GROUP
        assert jobs(dev) - before < 500


def test_jobs_shrink_when_they_are_long(monkeypatch):
    with (
        opened(monkeypatch, threads=64 * GROUP, ns=1000) as (_, dev),
        arrays(dev, 512 * GROUP) as a,
    ):
        go(a).wait()
        assert job_threads(a.k) < 8 * GROUP
        go(a).wait()
        assert (np.asarray(a.y) == 2).all()


def test_each_kernel_has_a_length_of_its_own(monkeypatch):
    with (
        opened(monkeypatch, ns=10**9) as (_, dev),
        arrays(dev, 200 * GROUP) as a,
        dev.kernel("fill_f32") as other,
    ):
        go(a).wait()
        assert job_threads(other) == GROUP < job_threads(a.k)


def test_what_was_not_cut_and_is_small_is_not_measured(monkeypatch):
    with (
        opened(monkeypatch, threads=1 << 19, ns=10**9, measured=1 << 16) as (_, dev),
        arrays(dev, 4 * GROUP) as a,
    ):
        before = dev._backend.counters()["ib_ndw"]
        go(a).wait()
        assert job_threads(a.k) == 1 << 19
        assert dev._backend.counters()["ib_ndw"] - before < 128


@pytest.mark.parametrize("other", ["another kernel", "a fill", "nothing"])
def test_a_job_that_has_other_work_too_teaches_no_length(monkeypatch, other):
    """Its time is not the kernel's alone: the kernel's next grids would be cut too short."""
    most = 64 * GROUP
    with (
        opened(monkeypatch, threads=most, ns=1) as (_, dev),
        arrays(dev, GROUP) as a,
        dev.kernel("fill_f32") as fill,
    ):
        commands = sp.Commands().dispatch(a.k, a.y, a.x, 1.0, a.n, groups=1)
        if other == "another kernel":
            commands.dispatch(fill, a.x, 1.0, a.n, groups=1)
        elif other == "a fill":
            commands.fill(a.x.buffer, 7)
        before = jobs(dev)
        a.q.submit(commands).wait()
        assert jobs(dev) - before == 1
        assert (job_threads(a.k) == most) == (other != "nothing")


def native(a):
    """What native code says to a launch of all groups."""
    record = _hot.pack(a.q.device, a.k, (a.y, a.x, 1.0, a.n), (a.groups, 1, 1), None, 0)
    return lib.sp_amdgpu_launch(a.q._handle, record, len(record), a.q.device._epoch)


def test_a_full_queue_is_told_in_time(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a:
        machine.hold_jobs()
        value = native(a)
        assert value == -BEGUN - (a.q.reached + 1)  # 30 of its 40 jobs are on their way
        assert native(a) == -errno.EAGAIN  # nothing gets in between
        assert dev._backend.wait(a.q._handle, -BEGUN - value, 0) == -errno.ETIMEDOUT
        machine.hold_jobs(0, False)
        a.q.fence(-BEGUN - value).wait(20)
        assert (np.asarray(a.y) == 1).all()
        go(a).wait()
        assert (np.asarray(a.y) == 2).all()


def test_a_queue_that_stays_full_is_an_error(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a:
        a.q.timeout_s = 0.25
        machine.hold_jobs()
        assert native(a) < -BEGUN
        try:
            with pytest.raises(sp.FenceTimeout, match=r"full.*nothing was submitted"):
                go(a)
        finally:
            machine.hold_jobs(0, False)


@pytest.mark.parametrize("prepared", [False, True])
def test_ctrl_c_ends_a_launch_that_has_no_room(monkeypatch, prepared):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a:
        again = a.q.prepare(a.k, a.y, a.x, 1.0, a.n, groups=a.groups)
        machine.hold_jobs()
        threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            again() if prepared else go(a)
        assert a.q.submitted == a.q.reached + 1
        machine.hold_jobs(0, False)
        a.q.fence(a.q.submitted).wait(20)  # Ctrl-C ends a wait, not the work
        assert (np.asarray(a.y) == 1).all()


def test_transfers_wait_for_room_too(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a:
        machine.hold_jobs()
        assert native(a) < -BEGUN
        threading.Timer(0.3, machine.hold_jobs, [0, False]).start()
        a.q.write(a.x.buffer, np.full(a.n, 5, np.float32))
        out = np.empty(a.n, np.float32)
        go(a)
        a.q.read(a.y.buffer, out).wait(20)
        assert (out == 6).all()


def test_another_queue_waits_for_what_is_begun(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a, dev.queue() as other:
        machine.hold_jobs()
        value = -BEGUN - native(a)
        threading.Timer(0.3, machine.hold_jobs, [0, False]).start()
        helper = threading.Thread(target=a.q.fence(value).wait, args=(20,))
        helper.start()
        with dev.buffer(4 * a.n) as b:
            other.submit(sp.Commands().wait(a.q.fence(value)).copy(b, a.y.buffer)).wait(20)
            assert (b.read(np.float32, a.n) == 1).all()
        helper.join()


@pytest.mark.parametrize("recovery", ["ring", "full"])
def test_a_long_launch_whose_first_job_hangs(monkeypatch, recovery):
    with (
        opened(monkeypatch, job_limit_s=0.2) as (machine, dev),
        arrays(dev, 100 * GROUP) as a,
    ):
        machine.hang_next_job(0, recovery)
        fence = go(a)
        with pytest.raises(sp.KernelFault, match="saxpy_f32: it hung"):
            fence.wait(20)
        a.y.buffer.write(np.zeros(a.n, np.float32))
        go(a).wait(20)
        assert (np.asarray(a.y) == 1).all()


def test_a_queue_is_closed_with_work_that_has_not_all_been_sent(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 60 * GROUP) as a:
        machine.hold_jobs()
        assert native(a) < -BEGUN
        machine.hold_jobs(0, False)
        a.q.close()
        assert (np.asarray(a.y) == 1).all()


def test_who_waits_for_what_builds_on_a_long_launch_is_told_of_its_failure(monkeypatch):
    with (
        opened(monkeypatch, job_limit_s=0.2) as (machine, dev),
        arrays(dev, 100 * GROUP) as a,
    ):
        machine.hang_next_job(0, "ring")
        go(a)  # fails while its jobs are still being sent
        with pytest.raises(sp.KernelFault, match="saxpy_f32: it hung"):
            a.q.read(a.y.buffer, np.empty(a.n, np.float32)).wait(20)


def test_a_long_launch_returns_once_all_of_it_is_sent(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a:
        machine.hold_jobs()
        value = -BEGUN - native(a)
        hand_over = dev._backend.hand_over
        assert hand_over(a.q._handle, value, 0) == -errno.ETIMEDOUT
        machine.hold_jobs(0, False)
        while (rc := hand_over(a.q._handle, value, 10**7)) in (-errno.EAGAIN, -errno.ETIMEDOUT):
            pass
        assert rc == 0
        assert hand_over(a.q._handle, value + 1, 0) == -errno.EINVAL
        a.q.fence(value).wait(20)
        assert (np.asarray(a.y) == 1).all()


def test_a_long_launch_that_gets_no_further_is_left_to_its_fence(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, 40 * GROUP) as a:
        a.q.timeout_s = 0.25
        machine.hold_jobs()
        fence = go(a)
        with pytest.raises(sp.FenceTimeout):
            fence.wait(0)
        machine.hold_jobs(0, False)
        fence.wait(20)
        assert (np.asarray(a.y) == 1).all()


def test_ctrl_c_leaves_a_transfer_that_has_begun_its_memory(monkeypatch):
    with opened(monkeypatch) as (machine, dev), arrays(dev, GROUP) as a:
        out = np.zeros(a.n, np.float32)

        def begun(handle, address, data):
            value, kept = download(handle, address, data)
            return -BEGUN - value, kept

        def interrupted(*_):
            raise KeyboardInterrupt

        download = dev._backend.download
        monkeypatch.setattr(dev._backend, "download", begun)
        monkeypatch.setattr(dev._backend, "hand_over", interrupted)
        machine.hold_jobs()
        go(a)
        before = sys.getrefcount(out)
        with pytest.raises(KeyboardInterrupt):
            a.q.read(a.y.buffer, out)
        assert sys.getrefcount(out) > before  # the device will write there
        machine.hold_jobs(0, False)
        a.q.fence(a.q.submitted).wait(20)
        assert (out == 1).all()


def test_a_fill_of_several_jobs_waits_for_room_no_longer_than_others(monkeypatch):
    most = 1 << 30  # bytes that one job moves
    with opened(monkeypatch) as (machine, dev), dev.buffer(most + 4) as b, dev.queue() as q:
        small = sp.Commands().fill(b.view(0, 1 << 18), 1)
        records, nbytes, epoch = sp.Commands().fill(b, 7)._encode(dev)
        machine.hold_jobs()
        for _ in range(JOBS - 1):
            q.submit(small)
        assert lib.sp_amdgpu_submit(q._handle, records, nbytes, epoch) == -BEGUN - JOBS
        machine.unplug()  # a GiB takes an emulated card too long
        with pytest.raises(sp.DeviceLost):
            q.fence(JOBS).wait(20)


def test_copies_and_fills_are_cut_anywhere(monkeypatch):
    """So many that IBs end within them: before the bytes at the ends of a fill, between the halves
    of a copy to where it overlaps its source."""
    rng = np.random.default_rng(5)
    want = np.arange(1 << 12, dtype=np.uint16).view(np.uint8)
    with opened(monkeypatch) as (_, dev), dev.buffer(want.nbytes) as b, dev.queue() as q:
        b.write(want)
        commands, before = sp.Commands(), jobs(dev)
        for i in range(2000):
            at, to, n = (int(v) for v in rng.integers(1, 4000, 3))
            if i % 2:
                commands.fill(b.view(at, n), i & 0xFF, 1)
                want[at : at + n] = i & 0xFF
            else:
                commands.copy(b.view(to, n), b.view(at, n))
                want[to : to + n] = want[at : at + n].copy()
        q.submit(commands).wait(60)
        assert jobs(dev) - before > 3
        assert (b.read(np.uint8, want.nbytes) == want).all()
