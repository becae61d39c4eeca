"""The amdgpu backend beyond what every device must do, on machines of emulated cards.

When this fails, users of AMD GPUs get wrong memory, wrong order or an unclear error.
"""

from __future__ import annotations

import errno
import os
import time

import numpy as np
import pytest
from emulated_cards import own_card
from sparkle_drv._native import lib
from where import CODE_OBJECTS

import sparkle_drv as sp
from sparkle_drv import _hot
from sparkle_drv.backends.amdgpu import info
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

CHIPS = ["gfx1036", "gfx1100"]
CS, TIMELINE_WAIT = 0x44, 0xCA


@pytest.fixture(params=CHIPS)
def card(request):
    with own_card(request.param) as both:
        yield both


def feature(dev, entry, args, **more):
    """A kernel of tests/kits/codeobjects."""
    path = CODE_OBJECTS / f"features.v5.{dev.info.isa}.hsaco"
    return dev.kernel(image=path, entry=entry, args=args, **more)


def counters(dev):
    return dev._backend.counters()


def test_a_launch_is_two_ioctls_and_its_fence_costs_none(card):
    """How often memory was moved for want of room, since L2 stays as it is; CS."""
    _, dev = card
    with dev.kernel("noop") as k, dev.queue() as q:
        go = q.prepare(k, groups=1)
        q.fence(go()).wait()
        before, begun = counters(dev), time.monotonic()
        for _ in range(100):
            value = go()
            while q.reached < value:
                time.sleep(0.0001)
        after, took_s = counters(dev), time.monotonic() - begun
    assert after["jobs"] - before["jobs"] == 100
    # Asking the kernel whether all is well, every 20 ms without news, is allowed. An interval of
    # n times 20 ms holds at most n + 1 such moments.
    assert 200 <= after["ioctls"] - before["ioctls"] <= 201 + took_s / 0.02


def test_more_jobs_than_the_kernel_tracks(card):
    _, dev = card
    with (
        dev.kernel("saxpy_f32") as k,
        dev.array(np.ones(64, np.float32)) as x,
        dev.queue() as q,
        dev.empty(64, np.float32) as y,
    ):
        for _ in range(100):
            fence = q.launch(k, y, x, 1.0, 64, groups=1)
        fence.wait()
        assert (np.asarray(y) == 100).all()


def test_a_long_list_becomes_several_jobs_and_one_submission(card):
    _, dev = card
    with (
        dev.kernel("saxpy_f32") as k,
        dev.array(np.ones(64, np.float32)) as x,
        dev.empty(64, np.float32) as y,
        dev.queue() as q,
    ):
        commands = sp.Commands()
        for _ in range(1000):
            commands.dispatch(k, y, x, 1.0, 64, groups=1)
        before = counters(dev)["jobs"]
        fence = q.submit(commands)
        assert fence.value == 1
        fence.wait()
        assert counters(dev)["jobs"] - before > 5
        assert (np.asarray(y) == 1000).all()


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("threads", [1, 100, 1000])
def test_long_grids_are_cut_and_every_group_runs_once(monkeypatch, chip, threads):
    monkeypatch.setattr(info, "JOB_THREADS", threads)
    monkeypatch.setattr(info, "JOB_NS", 0)
    with (
        own_card(chip) as (_, dev),
        feature(dev, "xyz", "u32*", group_size=(4, 3, 2)) as k,
        dev.empty(8 * 6 * 4, np.uint32) as out,
    ):
        dev.default_queue.launch(k, out, groups=(2, 2, 2)).wait()
        z, y, x = np.indices((4, 6, 8))
        assert (np.asarray(out) == (10000 * z + 100 * y + x).ravel()).all()
        assert counters(dev)["dispatches"] == {1: 8, 100: 2, 1000: 1}[threads]


def test_scratch_memory_that_grows(card):
    _, dev = card
    with feature(dev, "stack", "u32* i32", group_size=64) as k, dev.empty(192, np.uint32) as out:
        lanes = np.tile(np.arange(64), 3)
        for n in (7, 9):
            dev.default_queue.launch(k, out, n, groups=3).wait()
            assert (np.asarray(out) == n * lanes + n * n).all()


def test_scratch_memory_waits_for_the_queue_no_longer_than_others(card):
    machine, dev = card
    with feature(dev, "stack", "u32* i32", group_size=64) as k, dev.empty(192, np.uint32) as out:
        q = dev.default_queue
        machine.hold_jobs()
        q.submit(sp.Commands().fill(out.buffer, 0))
        record = _hot.pack(dev, k, (out, 7), (3, 1, 1), None, 0)
        said = lib.sp_amdgpu_launch(q._handle, record, len(record), dev._epoch)
        machine.hold_jobs(0, False)
        assert said == -errno.EAGAIN
        q.launch(k, out, 7, groups=3).wait()
        assert (np.asarray(out) == 7 * np.tile(np.arange(64), 3) + 49).all()


def test_hidden_arguments(card):
    _, dev = card
    with feature(dev, "hidden", "u32*", group_size=(8, 2, 3)) as k, dev.empty(11, np.uint32) as out:
        dev.default_queue.launch(k, out, groups=(5, 6, 7)).wait()
        assert list(np.asarray(out)) == [5, 6, 7, 8, 2, 3, 0, 0, 0, 3, 0]


def test_dynamic_local_memory_and_its_limit(card):
    _, dev = card
    with (
        feature(dev, "local_pointer", "u32* i32", group_size=64) as k,
        dev.empty(64, np.uint32) as out,
    ):
        dev.default_queue.launch(k, out, 3, groups=1, shared=256).wait()
        assert (np.asarray(out) == 3 * (63 - np.arange(64)) + 5).all()
        with pytest.raises(ValueError, match="shared"):
            dev.default_queue.launch(k, out, 3, groups=1, shared=65536)


def test_host_memory_is_used_in_place(card):
    _, dev = card
    host = np.arange(5000, dtype=np.float32)[3:4000]
    with (
        sp.wrap(dev, host) as x,
        dev.empty(host.size, np.float32) as y,
        dev.kernel("copy_f32") as k,
    ):
        dev.default_queue.launch(k, y, x, host.size, groups=16).wait()
        assert (np.asarray(y) == host).all()
        dev.default_queue.submit(sp.Commands().fill(x.view(0, 400), 0)).wait()
    assert not host[:100].any()
    assert host[100] == 103


def test_two_cards_copy_through_a_shared_buffer():
    data = np.arange(10_001, dtype=np.int32)
    with Machine(["gfx1100", "gfx1036"]) as machine:
        a = Device("emu:a", emu.open_card(machine, 0, "emu:a"))
        b = Device("emu:b", emu.open_card(machine, 1, "emu:b"))
        with a, b, a.array(data) as x, b.empty(data.shape, np.int32) as y:
            queue = b.default_queue
            value = b._backend.copy_peer(
                queue._handle, y.buffer.address, x.buffer.address, data.nbytes, a._backend
            )
            queue.fence(value).wait()
            assert (np.asarray(y) == data).all()
        assert machine.live_counts()["bos"] == 0


def test_clocks_of_timed_queues_and_timestamps(card):
    _, dev = card
    with dev.queue(timing=True) as q, dev.kernel("busy_u32") as k, dev.buffer(4) as out:
        started = time.monotonic_ns()
        stamp = dev.timestamp()
        fence = q.submit(sp.Commands().dispatch(k, out, 100_000, groups=1).timestamp(stamp))
        fence.wait()
        assert 0 < fence.time_ns < time.monotonic_ns() - started
        assert started < stamp.ns < time.monotonic_ns()
        stamp.close()


@pytest.mark.parametrize("nr", [CS, TIMELINE_WAIT])
@pytest.mark.parametrize("error", [4, 11, 12])  # EINTR, EAGAIN, ENOMEM
def test_ioctls_that_ask_to_come_again(card, nr, error):
    machine, dev = card
    with dev.kernel("busy_u32") as k, dev.buffer(4) as out:
        machine.fail_ioctl(nr, error, 3)
        dev.default_queue.launch(k, out, 50_000, groups=1).wait()
        assert int(out.read(np.uint32, 1)[0]) != 0


def works(dev):
    with (
        dev.array(np.ones(64, np.float32)) as x,
        dev.kernel("vecadd_f32") as k,
        dev.empty(64, np.float32) as y,
    ):
        dev.default_queue.launch(k, y, x, x, 64, groups=1).wait()
        return bool((np.asarray(y) == 2).all())


def test_a_kernel_that_writes_out_of_bounds(card):
    _, dev = card
    with (
        feature(dev, "xyz", "u32*", group_size=(4, 3, 2)) as k,
        dev.buffer(4) as out,
        pytest.raises(sp.KernelFault, match="xyz"),
    ):
        dev.default_queue.launch(k, out, groups=(2, 2, 2048)).wait(10)
    assert works(dev)


def test_a_page_fault_tells_its_address():
    with (
        own_card(kms_minor=57) as (_, dev),
        dev.buffer(4) as out,
        feature(dev, "xyz", "u32*", group_size=(4, 3, 2)) as k,
        pytest.raises(sp.KernelFault, match=r"xyz: page fault at 0x[1-9a-f]"),
    ):
        dev.default_queue.launch(k, out, groups=(2, 2, 2048)).wait(10)


@pytest.mark.parametrize("recovery", ["ring", "soft", "full"])
def test_a_kernel_that_never_ends(recovery):
    with own_card(job_limit_s=0.3) as (machine, dev), dev.kernel("noop") as k, dev.queue() as q:
        machine.hang_next_job(0, recovery)
        first = q.launch(k, groups=1)
        second = q.launch(k, groups=1)
        with pytest.raises(sp.FenceTimeout, match="noop"):
            first.wait(0.02)
        with pytest.raises(sp.KernelFault, match=r"noop: it hung.*last fault: timeout"):
            first.wait(5)
        # After a soft recovery the kernel answers for the whole entity: better one error too many.
        error = sp.KernelFault if recovery == "soft" else sp.DeviceLost
        with pytest.raises(error):
            second.wait(5)
        assert q.launch(k, groups=1).wait(5).done
        assert works(dev)


def test_polling_alone_notices_a_failure():
    with own_card(job_limit_s=0.2) as (machine, dev), dev.kernel("noop") as k:
        machine.hang_next_job(0)
        fence = dev.default_queue.launch(k, groups=1)
        deadline = time.monotonic() + 60
        while not fence.done and time.monotonic() < deadline:
            time.sleep(0.01)
        assert fence.done
        with pytest.raises(sp.KernelFault):
            fence.wait()


def test_lost_memory_loses_the_device_and_says_so(card):
    machine, dev = card
    k = dev.kernel("noop")
    dev.default_queue.launch(k, groups=1).wait()
    machine.reset(vram_lost=True)
    with pytest.raises(sp.DeviceLost):
        dev.default_queue.launch(k, groups=1).wait()
    with pytest.raises(sp.DeviceLost):
        dev.buffer(64)
    assert "memory" in dev._backend.lost()


def test_a_card_that_is_pulled_out():
    with Machine(["gfx1100"]) as machine:
        dev = Device("emu:own", emu.open_card(machine, 0, "emu:own"))
        k = dev.kernel("noop")
        machine.hold_jobs()
        fence = dev.default_queue.launch(k, groups=1)
        machine.unplug()
        with pytest.raises(sp.DeviceLost):
            fence.wait(5)
        with pytest.raises(sp.DeviceLost):
            dev.default_queue.launch(k, groups=1)
        dev.close()


def test_kernels_before_the_oldest_that_will_do():
    with (
        Machine(["gfx1100"], kms_minor=31) as machine,
        pytest.raises(sp.DeviceNotFound, match=r"3\.32.*3\.31"),
    ):
        emu.open_card(machine, 0, "emu:own")


def test_late_jobs_are_waited_for(card):
    with own_card(card[1].info.isa, delay_s=0.01, seed=3) as (_, dev):
        x = np.random.default_rng(3).integers(0, 255, 50_000, np.uint8)
        with dev.buffer(x.nbytes) as a, dev.buffer(x.nbytes) as b, dev.queue() as q:
            a.write(x)
            other = dev.queue()
            first = other.submit(sp.Commands().copy(b, a))
            q.submit(sp.Commands().wait(first).copy(a.view(0, 10_000), b.view(40_000))).wait()
            assert (a.read(np.uint8, 10_000) == x[40_000:]).all()
            other.close()


def test_memory_that_does_not_fit_into_vram(caplog):
    """It is in GTT, which the CPU reaches where it does not reach all VRAM."""
    mib = 1 << 20
    data = np.random.default_rng(4).integers(0, 255, 6 * mib, np.uint8)
    caplog.set_level("INFO", "sparkle_drv.amdgpu")
    with (
        own_card(vram_nbytes=8 * mib, visible_nbytes=2 * mib) as (_, dev),
        dev.buffer(data.nbytes) as first,
    ):
        with dev.buffer(data.nbytes) as second:
            assert counters(dev)["displaced"] == 1
            assert f"{6 * mib} bytes are in another heap" in caplog.text
            first.write(data)
            dev.default_queue.submit(sp.Commands().copy(second, first)).wait()
            with second.map() as view:
                assert (np.frombuffer(view, np.uint8) == data).all()
        for buffer in (first, dev.buffer(mib)):
            with (
                pytest.raises(ValueError, match="expected memory that the CPU reaches"),
                buffer.map(),
            ):
                pass
        assert counters(dev)["displaced"] == 1


def descriptors():
    names = os.listdir("/proc/self/fd")  # one of them is the folder's, which is closed by now
    return {int(name) for name in names if os.path.exists(f"/proc/self/fd/{name}")}


def test_a_program_that_is_started_inherits_nothing_of_a_peer():
    with (
        Machine(["gfx1036", "gfx1100"]) as machine,
        Device("emu:one", emu.open_card(machine, 0, "emu:one")) as one,
        Device("emu:two", emu.open_card(machine, 1, "emu:two")) as two,
        one.buffer(4096, sp.Memory.SHARED) as shared,
    ):
        fd = one._backend.export(shared._storage.handle)
        before = descriptors()
        seen = two._backend.import_(fd, 4096)
        kept = descriptors() - before
        assert kept
        assert not any(map(os.get_inheritable, kept))
        os.close(fd)
        seen.handle.drop()
