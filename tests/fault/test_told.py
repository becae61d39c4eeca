"""Who builds on a submission that failed is told, once for all that was submitted before."""

import time

import numpy as np
import pytest

import sparkle_drv as sp
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
            last.wait(5)
        for fence in (first, last):  # as often as one asks
            with pytest.raises(sp.KernelFault):
                fence.wait(5)
        after = q.launch(k, y, 2.0, 100, groups=1)
        assert after.wait(5).done
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
                fence.wait(5)
        assert two.submit(sp.Commands().fill(a, 9)).wait(5).done


def test_waits_that_ended_well_are_forgotten():
    with sp.open("cpu") as dev, dev.queue() as one, dev.queue() as two, dev.buffer(64) as a:
        for _ in range(200):
            early = one.submit(sp.Commands().fill(a, 7))
            late = two.submit(sp.Commands().wait(early))
            early.wait()
        assert len(two._waits) <= 65
        late.wait()
        assert two._waits == []
