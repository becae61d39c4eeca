"""The GPU's clock beside CLOCK_MONOTONIC, through drift and suspends.

When this fails, kernel times on AMD GPUs are wrong after minutes of work or after a suspend.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager

import pytest

import sparkle_drv as sp
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

BOUND_NS = 200_000  # native/amdgpu/device/anchor.c
RENEWED_S = 1.0
# Ten times what oscillators are apart: a second without an anchor shows it.
FAST, SLOW = 1000, -1000
HOUR_NS = 3600 * 10**9


@contextmanager
def opened(ppm=None, **options):
    with Machine(["gfx1100"], **options) as machine:
        if ppm is not None:
            machine.plant("drift", ppm)
        with Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
            yield machine, dev


def run(dev, queue, kernel):
    """(when at the earliest, start, end, when at the latest) of one launch, in ns."""
    before = time.monotonic_ns()
    fence = queue.launch(kernel, groups=1)
    fence.wait(5)
    after = time.monotonic_ns()
    start, end = dev._backend.times(queue._handle, fence.value)
    return before, start, end, after


def off(times):
    """How far the device's times are outside of where they must be."""
    before, start, end, after = times
    return max(before - start, end - after, 0)


@pytest.fixture(scope="module")
def aged():
    """name -> (machine, device, timing queue, kernel, times at the first launch), a second old.

    They wait for that second together. Meanwhile "slow" launches: its (start, end) are "times".
    """
    with ExitStack() as stack:
        found = {}
        for name, ppm in {"fast": FAST, "slow": SLOW, "suspended": None, "mute": None}.items():
            machine, dev = stack.enter_context(opened(ppm))
            queue = stack.enter_context(dev.queue(timing=True))
            kernel = stack.enter_context(dev.kernel("noop"))
            found[name] = machine, dev, queue, kernel, run(dev, queue, kernel)
        found["suspended"][0].plant("drift", 40, -HOUR_NS)
        times, until = [], time.monotonic() + 1.4 * RENEWED_S
        while time.monotonic() < until:
            times.append(run(*found["slow"][1:4])[1:3])
            time.sleep(0.01)
        yield found | {"times": times}


def test_a_clock_that_drifts_is_followed(aged):
    """An offset of the open alone is off by a millisecond a second."""
    _, dev, q, k, first = aged["fast"]
    assert off(first) < BOUND_NS
    stamp = dev.timestamp()
    before = time.monotonic_ns()
    dev.default_queue.submit(sp.Commands().timestamp(stamp)).wait(5)
    assert before - BOUND_NS < stamp.ns < time.monotonic_ns() + BOUND_NS
    assert off(run(dev, q, k)) < BOUND_NS
    stamp.close()


def test_times_are_in_order_and_stay(aged):
    """Over an anchor, of a clock that is slower than the device first took it to be."""
    (_, dev, q, _, _), times = aged["slow"], aged["times"]
    flat = [ns for pair in times for ns in pair]
    assert flat == sorted(flat)
    newest = q._backend.submitted(q._handle)
    kept = range(newest - len(times) + 1, newest + 1)
    assert [dev._backend.times(q._handle, value) for value in kept] == times


def test_a_suspend_is_made_good_within_a_second(aged):
    """The GPU's clock began anew while CLOCK_MONOTONIC stood."""
    _, dev, q, k, _ = aged["suspended"]
    for _ in range(3):
        assert off(run(dev, q, k)) < BOUND_NS


def test_no_launch_asks_for_the_clock():
    with opened(trace=1) as (machine, dev), dev.queue(timing=True) as q, dev.kernel("noop") as k:
        run(dev, q, k)
        list(machine.trace)
        begun = time.monotonic()
        for _ in range(200):
            q.launch(k, groups=1)
        q.submit(sp.Commands()).wait(5)
        asked = [line for line in machine.trace if "AMDGPU_INFO" in line]
        # An anchor asks five times, and another one is taken a second later. A launch that would
        # leave L2 as it is asks for evictions once.
        assert len(asked) <= 200 + 5 * (1 + (time.monotonic() - begun) / RENEWED_S)


def test_a_clock_that_cannot_be_asked_is_left_as_it_was(aged):
    machine, dev, q, k, _ = aged["mute"]
    machine.fail_ioctl(0x45, 5, 1)  # INFO, EIO
    assert off(run(dev, q, k)) < BOUND_NS
