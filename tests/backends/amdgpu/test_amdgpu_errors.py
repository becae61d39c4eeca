"""Every ioctl of an amdgpu device fails now and then. Interrupted ones are repeated; want of memory
ends in an error.

When this fails, a moment without memory in the kernel leaves an AMD device useless.
"""

from __future__ import annotations

import errno

import numpy as np
import pytest
from ioctls import leaks
from sparkle_drv._native import lib

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

N = 1 << 18
ASKED_AT_OPEN = ["VERSION", "GET_CAP", "AMDGPU_INFO"]
USED = [
    *("AMDGPU_CTX", "AMDGPU_CS", "AMDGPU_WAIT_CS", "AMDGPU_GEM_CREATE", "AMDGPU_GEM_MMAP"),
    *("AMDGPU_GEM_VA", "AMDGPU_GEM_OP", "GEM_CLOSE", "SYNCOBJ_CREATE", "SYNCOBJ_DESTROY"),
    "SYNCOBJ_TIMELINE_WAIT",
]


def number(name):
    return getattr(lib, f"DRM_IOCTL_{name}") & 0xFF


@pytest.fixture
def card():
    """(machine, device) whose jobs are late enough to be waited for by ioctls."""
    with Machine(["gfx1036"], delay_s=0.0005, seed=5) as machine:
        with Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
            yield machine, dev
        assert machine.fault() is None
        assert leaks(machine) == {}


def work(dev):
    """Uses them all: memory of several kinds, both rings, more jobs than fit, waits."""
    with (
        dev.queue() as q,
        dev.kernel("saxpy_f32") as k,
        dev.array(np.ones(N, np.float32)) as x,
        dev.array(np.zeros(N, np.float32)) as y,
        dev.buffer(4 * N, memory=sp.Memory.SHARED) as shared,
    ):
        for _ in range(40):
            q.launch(k, y, x, 1.0, 64, groups=1)
        q.submit(sp.Commands().copy(shared, y.buffer)).wait(20)
        out = shared.read(np.float32, N)
        return bool((out[:64] == 40).all() and not out[64:].any())


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("error", [errno.EINTR, errno.EAGAIN], ids=errno.errorcode.get)
def test_what_asks_to_be_repeated_is(card, name, error):
    machine, dev = card
    machine.fail_ioctl(number(name), error, 5)
    assert work(dev)


@pytest.mark.parametrize("name", ASKED_AT_OPEN)
@pytest.mark.parametrize("error", [errno.EINTR, errno.EAGAIN], ids=errno.errorcode.get)
def test_questions_at_open_are_repeated(name, error):
    with Machine(["gfx1036"]) as machine:
        machine.fail_ioctl(number(name), error, 5)
        with Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
            assert work(dev)


@pytest.mark.parametrize("name", [name for name in USED if name not in ("GEM_CLOSE",)])
@pytest.mark.parametrize("count", [1, 3])
def test_want_of_memory_is_an_error_or_is_over_soon(card, name, count):
    machine, dev = card
    machine.fail_ioctl(number(name), errno.ENOMEM, count)
    for _ in range(count + 1):
        try:
            if work(dev):
                break
        except sp.OutOfDeviceMemory:
            pass
    assert work(dev)


def test_a_submission_that_finds_no_memory_waits_for_those_before_it(card):
    machine, dev = card
    with dev.kernel("noop") as k, dev.queue() as q:
        first = q.launch(k, groups=1)
        machine.fail_ioctl(number("AMDGPU_CS"), errno.ENOMEM, 1)
        second = q.launch(k, groups=1)
        assert first.done
        second.wait()


def test_a_submission_that_never_finds_memory_says_so(card):
    machine, dev = card
    with dev.kernel("noop") as k, dev.queue() as q:
        machine.fail_ioctl(number("AMDGPU_CS"), errno.ENOMEM, 100_000)
        with pytest.raises(sp.OutOfDeviceMemory):
            q.launch(k, groups=1)
