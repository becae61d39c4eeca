"""Memory that a reset has destroyed is never taken for a result.

When this fails, memory that a reset destroyed is read as a result.
"""

import errno

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

INFO = 0x45
CHIPS = ["gfx1036", "gfx1100"]  # the CPU reads VRAM of the first itself


@pytest.fixture(params=CHIPS)
def card(request):
    """(machine, device), with nothing left on the machine afterwards."""
    with Machine([request.param], job_limit_s=0.2) as machine, emu.on(machine):
        with sp.open(f"emu:{request.param}") as dev:
            yield machine, dev
        assert not any(machine.live_counts().values())


def test_what_was_written_before_is_not_read(card):
    machine, dev = card
    buffer = dev.buffer(4096)
    buffer.write(np.full(4096, 7, np.uint8))
    machine.reset(vram_lost=True)
    with pytest.raises(sp.DeviceLost):
        buffer.read(np.uint8, 4096)


def test_a_new_queue_does_not_go_on_with_it(card):
    machine, dev = card
    x, y = dev.array(np.ones(64, np.float32)), dev.empty(64, np.float32)
    k = dev.kernel("copy_f32")
    machine.reset(vram_lost=True)
    with pytest.raises(sp.DeviceLost):
        dev.queue().launch(k, y, x, 64, groups=1).wait()
    assert "memory" in dev._backend.lost()


def test_nor_does_a_queue_whose_context_was_made_anew(card):
    """A hang first, then a reset between the question what happened and the new context."""
    machine, dev = card
    x, y = dev.array(np.ones(64, np.float32)), dev.empty(64, np.float32)
    k = dev.kernel("copy_f32")
    faults = [Fault("job", 1, "hang"), Fault("context", 3, "reset", vram_lost=1)]
    apply(Schedule(0, faults), machine)
    with pytest.raises(sp.KernelFault):
        dev.default_queue.launch(k, y, x, 64, groups=1).wait(5)
    with pytest.raises(sp.DeviceLost):
        dev.default_queue.launch(k, y, x, 64, groups=1).wait(5)


def test_memory_of_the_host_survives(card):
    machine, dev = card
    buffer = dev.buffer(4096, sp.Memory.HOST)
    buffer.write(np.full(4096, 7, np.uint8))
    machine.reset(vram_lost=True)
    assert (buffer.read(np.uint8, 4096) == 7).all()


def test_a_question_that_is_refused_is_no_loss(card):
    """INFO fails once: that says nothing about the memory, and is told as what it is."""
    machine, dev = card
    machine.fail_ioctl(INFO, errno.EIO)
    with pytest.raises(sp.DriverCallError) as caught:
        dev.queue()
    assert caught.value.errno == errno.EIO
    assert not dev._backend.lost()
    dev.queue().close()
