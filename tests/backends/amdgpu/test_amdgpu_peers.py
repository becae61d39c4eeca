"""Copies between two emulated cards that end late, fail half way or are interrupted: memory stays
while a queued copy may touch it, and no longer."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import backend
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

DATA = np.arange(1 << 18, dtype=np.int32)  # 1 MiB: enough for the ring for copies
HERE, THERE = 0, 1  # the card that copies, and the one that it copies from


@contextmanager
def two():
    with Machine(["gfx1100", "gfx1036"]) as machine:
        here = Device("emu:here", emu.open_card(machine, HERE, "emu:here"))
        there = Device("emu:there", emu.open_card(machine, THERE, "emu:there"))
        with here, there, here.empty(DATA.shape, DATA.dtype) as out:
            with there.array(DATA) as source:  # once, so that both have what they keep
                here.default_queue.copy_peer(out.buffer, source.buffer).wait(10)
            yield machine, here, there, out
        assert machine.fault() is None
        assert machine.live_counts() == dict.fromkeys(machine.live_counts(), 0)


@contextmanager
def held(machine, card):
    """Jobs of the card wait."""
    machine.hold_jobs(card)
    try:
        yield
    finally:
        machine.hold_jobs(card, False)


def allocations(dev):
    return dev.live_counts()["native_allocations"]


def alive(machine, dev):
    """What is open on either side of the seam."""
    kinds = ("files", "bos", "mappings", "contexts", "syncobjs", "fds")
    return allocations(dev), *(machine.live_counts()[kind] for kind in kinds)


def becomes(wanted, look, *args):
    """Does it, once jobs go on?"""
    deadline = time.monotonic() + 10
    while look(*args) != wanted and time.monotonic() < deadline:
        time.sleep(0.001)
    return look(*args) == wanted


@pytest.mark.parametrize("nbytes", [5, 1 << 20])
def test_a_copy_that_ends_late_keeps_its_memory(nbytes):
    data = DATA.view(np.uint8)[:nbytes]
    with two() as (machine, here, there, _), here.buffer(nbytes) as out:
        there_buffer = there.buffer(nbytes)
        there_buffer.write(data)
        before = allocations(here)
        with held(machine, HERE):
            fence = here.default_queue.copy_peer(out, there_buffer)
            assert not fence.done  # it is not waited for
            assert allocations(here) == before + 1  # what both cards map
            there_buffer.close()
        fence.wait(10)
        assert (out.read(np.uint8, nbytes) == data).all()
        assert allocations(there) == before - 1  # without there_buffer


def test_the_other_card_ends_late(monkeypatch):
    monkeypatch.setattr(backend, "_PEER_NS", 50_000_000)
    with two() as (machine, here, there, out):
        source = there.array(DATA)
        before = allocations(here)
        with held(machine, THERE):
            with pytest.raises(sp.FenceTimeout, match=r"copy_peer.*emu:there"):
                here.default_queue.copy_peer(out.buffer, source.buffer)
            source.close()  # which the copy is still to read
            assert allocations(here) > before  # source, what both cards map, a queue's
        assert becomes(before - 1, allocations, here)
        with there.array(DATA) as again:  # and both go on
            here.default_queue.copy_peer(out.buffer, again.buffer).wait(10)
        assert (np.asarray(out) == DATA).all()


def test_a_device_that_is_closed_before_its_copy_has_ended(monkeypatch):
    monkeypatch.setattr(backend, "_PEER_NS", 1_000_000)
    with two() as (machine, here, there, out):
        source = there.array(DATA)
        with held(machine, THERE):
            with pytest.raises(sp.FenceTimeout):
                here.default_queue.copy_peer(out.buffer, source.buffer)
            source.close()
            there.close()
        assert becomes(1, open_nodes, machine, here)


def open_nodes(machine, dev):
    dev.live_counts()
    return machine.live_counts()["files"]


@pytest.mark.parametrize(
    ("card", "on", "at"),
    [
        (THERE, "alloc", 1),  # of what both cards map
        (HERE, "alloc", 1),  # its import
        (HERE, "map", 1),
        (THERE, "context", 1),
        (THERE, "submit", 1),
        (HERE, "submit", 1),
    ],
)
def test_a_copy_that_fails_half_way_keeps_nothing(card, on, at):
    fails = Schedule(0, [Fault(on, at, "fail", error="EPERM")])
    with two() as (machine, here, there, out):
        with there.array(DATA) as source:
            before = alive(machine, here)
            apply(fails, machine, card)
            with pytest.raises(sp.SparkleError) as kept:  # and its traceback the frames
                here.default_queue.copy_peer(out.buffer, source.buffer)
            assert happened(machine, card)["fail"] == 1
            assert alive(machine, here) == before, kept
            here.default_queue.copy_peer(out.buffer, source.buffer).wait(10)
        assert (np.asarray(out) == DATA).all()


def test_memory_that_another_thread_frees_does_not_refuse_a_job():
    """Each job lists all shared memory of its device, also what it does not touch."""
    done = []

    def come_and_go(dev):
        while not done:
            dev.buffer(4096, sp.Memory.SHARED).close()

    with two() as (_, here, _, out):
        threads = [threading.Thread(target=come_and_go, args=(here,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            with here.queue() as queue:
                for _ in range(2000):
                    queue.submit(sp.Commands().fill(out.buffer.view(0, 64), 1)).wait(20)
        finally:
            done.append(True)
            for thread in threads:
                thread.join()
