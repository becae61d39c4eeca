"""A reset that the kernel reported as a success left dead rings. An empty job finds out before work
is lost there.

When this fails, the first work after a GPU reset is lost.
"""

from __future__ import annotations

import errno
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sparkle_drv._native import lib

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

COMPUTE, DMA = lib.AMDGPU_HW_IP_COMPUTE, lib.AMDGPU_HW_IP_DMA
ALL = 0xF
CS = 0x44
NBYTES = 1 << 20  # what goes to the ring for copies


@contextmanager
def opened(engine, rings, **options):
    """(machine, device, a queue, a kernel) of a card whose `rings` are dead after a reset."""
    with Machine(["gfx1100"], trace=1, **options) as machine:
        machine.plant("reset", engine, rings)
        with (
            Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev,
            dev.queue() as queue,
            dev.kernel("noop") as kernel,
        ):
            yield machine, dev, queue, kernel
        until = time.monotonic() + 5  # a canary that hangs lives on
        while any(machine.live_counts().values()) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(machine.live_counts().values())


def hang(machine, queue, kernel):
    machine.hang_next_job()
    with pytest.raises(sp.KernelFault, match="it hung"):
        queue.launch(kernel, groups=1).wait(10)


def reset(machine, again=False):
    """From outside; the next submission is told of it as after a soft recovery. One that was made
    `again` is first tried as it was."""
    machine.reset()
    machine.fail_ioctl(CS, errno.ENODATA, 1 + again)


def rings(machine):
    """Of the jobs for compute since this was last asked."""
    lines = [line for line in machine.trace if "queued on ring" in line and "ip=1" in line]
    return [line.split()[-1] for line in lines]


def test_a_dead_ring_is_left():
    """The kernel ends the hung canary after the job limit: until then it chooses other rings."""
    with opened(COMPUTE, 1, job_limit_s=1.5) as (machine, dev, q, k):
        q.launch(k, groups=1).wait(5)
        reset(machine, again=True)
        rings(machine)
        for _ in range(3):
            q.launch(k, groups=1).wait(5)
        with dev.queue() as other:  # a new one is not sent there either
            other.launch(k, groups=1).wait(5)
        assert machine.fault() is None
        first, *more = rings(machine)
        assert (first, set(more)) == ("0", {"1"})


def test_a_device_without_a_living_ring_is_lost():
    with opened(COMPUTE, ALL, job_limit_s=0.2) as (machine, dev, q, k):
        hang(machine, q, k)
        with pytest.raises(sp.DeviceLost, match="no ring of the GPU runs a job after a reset"):
            q.launch(k, groups=1)
        assert "is dead since a reset" in machine.fault().text
        with pytest.raises(sp.DeviceLost):
            dev.queue()


def test_rings_that_others_keep_busy_are_not_taken_for_dead():
    """Every canary is late, and none fails: the first that ends will do."""
    with opened(DMA, 0, job_limit_s=30.0) as (machine, dev, q, k):
        q.launch(k, groups=1).wait(5)
        reset(machine, again=True)
        machine.hold_jobs()
        free = threading.Timer(4.5, machine.hold_jobs, kwargs={"hold": False})
        free.start()
        q.launch(k, groups=1).wait(5)
        assert not dev._backend.lost()
        assert len(rings(machine)) >= 5  # the launches, and a canary on every entity
        free.join()


def test_a_dead_engine_for_copies_is_done_without():
    data = np.random.default_rng(1).integers(0, 255, NBYTES, np.uint8)
    with (
        opened(DMA, ALL, job_limit_s=0.2) as (machine, dev, q, k),
        dev.buffer(NBYTES) as a,
        dev.buffer(NBYTES) as b,
    ):
        q.submit(sp.Commands().fill(b, 1)).wait(5)
        hang(machine, q, k)
        assert "dead since a reset" in machine.fault().text
        q.write(a, data)
        q.submit(sp.Commands().copy(b, a)).wait(5)
        assert (b.read(np.uint8, NBYTES) == data).all()
        assert dev._backend.counters()["dma_jobs"] == 1


def test_one_engine_for_copies_of_two_is_enough():
    with opened(DMA, 1, job_limit_s=1.5) as (machine, dev, q, _), dev.buffer(NBYTES) as a:
        for value in (1, 3):
            q.submit(sp.Commands().fill(a, value)).wait(5)
            reset(machine)
        assert dev._backend.counters()["dma_jobs"] == 2
        assert (a.read(np.uint32, NBYTES // 4) == 3).all()


@pytest.mark.parametrize("recovery", ["ring", "soft", "full"])
def test_where_the_reset_was_a_success_a_canary_is_one_job(recovery):
    with opened(COMPUTE, 0, job_limit_s=0.2) as (machine, _, q, k):
        machine.hang_next_job(recovery=recovery)
        with pytest.raises(sp.KernelFault):
            q.launch(k, groups=1).wait(5)
        assert len(rings(machine)) == 2
        q.launch(k, groups=1).wait(5)
        q.launch(k, groups=1).wait(5)
