"""Work that builds on a failed submission fails once, for everything that was submitted before.

When this fails, work that builds on a failed submission gives garbage without an error.
"""

import errno
import time

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.cross_queue_waits import MANY
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine


@pytest.fixture(params=["ring", "soft", "full"])
def broken(request):
    """(device, machine, recovery): each hang takes 0.1 s."""
    machine = Machine(["gfx1036"], job_limit_s=0.1, recovery=request.param)
    with machine, emu.on(machine), sp.open("emu:gfx1036") as dev:
        yield dev, machine, request.param


def test_a_wait_for_the_last_tells_of_those_before(broken):
    dev, machine, recovery = broken
    with dev.kernel("fill_f32") as k, dev.buffer(400) as y, dev.queue() as q:
        machine.hang_next_job(0, recovery)
        first = q.launch(k, y, 1.0, 100, groups=1)
        while not first.done:
            time.sleep(0.001)
        last = q.submit(sp.Commands())  # the queue goes on, and nobody was told
        with pytest.raises(sp.KernelFault, match="fill_f32"):
            last.wait(60)
        for fence in (first, last):  # as often as one asks
            with pytest.raises(sp.KernelFault):
                fence.wait(60)
        after = q.launch(k, y, 2.0, 100, groups=1)
        assert after.wait(60).done
        assert (y.read(np.float32, 100) == 2).all()


def test_a_queue_that_waited_for_another(broken):
    dev, machine, recovery = broken
    with dev.buffer(64) as a, dev.buffer(64) as b, dev.queue() as one, dev.queue() as two:
        machine.hang_next_job(0, recovery)
        early = one.submit(sp.Commands().fill(a, 7))
        late = two.submit(sp.Commands().wait(early).copy(b, a))
        later = two.submit(sp.Commands().fill(a, 8))
        for fence in (late, later, early):
            with pytest.raises(sp.SparkleError):
                fence.wait(60)
        assert two.submit(sp.Commands().fill(a, 9)).wait(60).done


def test_waits_that_ended_well_are_forgotten():
    with sp.open("cpu") as dev, dev.queue() as one, dev.queue() as two, dev.buffer(64) as a:
        for _ in range(200):
            early = one.submit(sp.Commands().fill(a, 7))
            late = two.submit(sp.Commands().wait(early))
            early.wait()
        assert len(two._waits) <= 65
        late.wait()
        assert two._waits == []


def test_to_look_which_waits_ended_well_tells_nobody(broken):
    dev, machine, recovery = broken
    with dev.buffer(64) as a, dev.queue() as one, dev.queue() as two:
        machine.hang_next_job(0, recovery)
        early = one.submit(sp.Commands().fill(a, 7))
        while not early.done:
            time.sleep(0.001)
        last = one.submit(sp.Commands())
        for _ in range(2 * MANY):
            late = two.submit(sp.Commands().wait(early))
        with pytest.raises(sp.SparkleError):
            last.wait(60)
        with pytest.raises(sp.SparkleError):
            late.wait(60)


def test_waits_of_queues_for_each_other_are_forgotten():
    with sp.open("cpu") as dev, dev.queue() as one, dev.queue() as two:
        fence = one.submit(sp.Commands())
        for _ in range(2 * MANY):
            fence = two.submit(sp.Commands().wait(fence))
            fence = one.submit(sp.Commands().wait(fence))
            while not fence.done:
                time.sleep(0)
        assert len(one._waits) <= MANY + 1
        assert len(two._waits) <= MANY + 1
        fence.wait(60)


def test_an_end_of_which_the_other_queue_has_not_taken_note_is_no_timeout(monkeypatch):
    """As when another thread has that queue's lock."""
    with sp.open("cpu") as dev, dev.queue() as one, dev.queue() as two:
        early = one.submit(sp.Commands())
        late = two.submit(sp.Commands().wait(early))
        two._backend.wait(two._handle, late.value, 10**10)
        wait, reached = dev._backend.wait, dev._backend.reached
        until = time.monotonic() + 0.05

        def locked(handle):
            return handle == one._handle and time.monotonic() < until

        def late_wait(handle, value, timeout_ns):
            return -errno.ETIMEDOUT if locked(handle) else wait(handle, value, timeout_ns)

        monkeypatch.setattr(dev._backend, "wait", late_wait)
        monkeypatch.setattr(dev._backend, "reached", lambda h: 0 if locked(h) else reached(h))
        # C would look at the queue itself, of which this makes believe that it is locked.
        monkeypatch.setattr(sp.Fence, "wait", sp.Fence._wait_slowly)
        assert late.wait(0).done
        assert time.monotonic() >= until
