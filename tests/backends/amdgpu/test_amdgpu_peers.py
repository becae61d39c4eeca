"""Copies between two emulated cards: asynchronous, without new kernel objects, on memory that
stays.

When this fails, a copy between two AMD cards stalls them, or writes to freed memory.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from ioctls import leaks
from sparkle_drv._native import ffi

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import links
from sparkle_drv.core.device import Device
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulated_faults import apply, happened
from sparkle_drv.testing.emulator import Machine
from sparkle_drv.testing.faults import Fault, Schedule

DATA = np.arange(1 << 18, dtype=np.int32)  # 1 MiB: enough for the ring for copies
CHUNK = 4 << 20  # as native/amdgpu/flight/link.h
HERE, THERE = 0, 1  # the card that copies, and the one that it copies from


@contextmanager
def two(*, fresh=False, faults=False, **options):
    with Machine(["gfx1100", "gfx1036"], **options) as machine:
        here = Device("emu:here", emu.open_card(machine, HERE, "emu:here"))
        there = Device("emu:there", emu.open_card(machine, THERE, "emu:there"))
        with here, there, here.empty(DATA.shape, DATA.dtype) as out:
            if fresh:
                with there.default_queue, there.queue():
                    pass  # small memory that a queue gives back is kept for the next
            else:
                with there.array(DATA) as source:  # once, so that both have what they keep
                    here.default_queue.copy_peer(out.buffer, source.buffer).wait(10)
            yield machine, here, there, out
        assert faults or machine.fault() is None
        here.live_counts()  # ends what readers were still to do
        assert leaks(machine) == {}


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


def ioctls(machine):
    """Those since it was last asked, by name."""
    return [found[1] for line in machine.trace if (found := re.match(r"ioctl .* (\w+) -> ", line))]


@pytest.mark.parametrize(("nbytes", "chunks"), [(5, 1), (1 << 20, 1), (CHUNK, 1), (CHUNK + 4, 2)])
def test_the_second_copy_makes_jobs_and_nothing_else(nbytes, chunks):
    with two(trace=1) as (machine, here, there, _):
        data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
        with here.buffer(nbytes) as out, there.buffer(nbytes) as source:
            source.write(data)
            here.default_queue.copy_peer(out, source).wait(10)
            out.write(np.zeros(nbytes, np.uint8))
            ioctls(machine)
            with held(machine, THERE), held(machine, HERE):
                queue, addresses = here.default_queue, (out.address, source.address)
                call = here._backend.copy_peer(queue._handle, *addresses, nbytes, there._backend)
                made = ioctls(machine)
                fence = queue.fence(call)
                assert not fence.done
            assert made == ["AMDGPU_CS"] * (2 * chunks)  # a half of each chunk on each card
            fence.wait(10)
            assert (out.read(np.uint8, nbytes) == data).all()


@pytest.mark.parametrize("nbytes", [5, 1 << 20, CHUNK + 4])
@pytest.mark.parametrize("card", [HERE, THERE])
def test_a_copy_that_ends_late_keeps_its_memory(nbytes, card):
    data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    with two() as (machine, here, there, _), here.buffer(nbytes) as out:
        source = there.buffer(nbytes)
        source.write(data)
        before = allocations(here)
        with held(machine, card):
            fence = here.default_queue.copy_peer(out, source)
            assert not fence.done  # it is not waited for
            with pytest.raises(sp.FenceTimeout):
                fence.wait(0.02)
            assert allocations(here) == before
            source.close()  # which the copy is still to read
        fence.wait(10)
        assert (out.read(np.uint8, nbytes) == data).all()
        assert allocations(there) == before - 1  # without source


def test_a_copy_outlives_the_device_that_it_reads_from():
    with two() as (machine, here, there, out):
        source = there.array(DATA + 1)
        with held(machine, THERE):
            fence = here.default_queue.copy_peer(out.buffer, source.buffer)
            source.close()
            there.close()
            assert not fence.done
        fence.wait(10)
        assert (np.asarray(out) == DATA + 1).all()
        assert becomes(1, open_nodes, machine, here)


def open_nodes(machine, dev):
    dev.live_counts()
    return machine.live_counts()["files"]


@pytest.mark.parametrize(
    ("card", "on", "at"),
    [
        *((THERE, "alloc", at) for at in (1, 3, 6)),  # a queue's, and chunks
        *((HERE, "alloc", at) for at in (1, 4)),  # imports
        *((HERE, "map", at) for at in (1, 4)),
        (THERE, "context", 1),
    ],
)
def test_a_link_that_cannot_be_made_leaves_nothing(card, on, at):
    fails = Schedule(0, [Fault(on, at, "fail", error="EPERM")])
    with two(fresh=True) as (machine, here, there, out):
        with there.array(DATA) as source:
            here.default_queue.submit(sp.Commands().fill(out.buffer, 0)).wait(10)
            before = alive(machine, here)
            apply(fails, machine, card)
            with pytest.raises(sp.SparkleError) as kept:  # and its traceback the frames
                here.default_queue.copy_peer(out.buffer, source.buffer)
            assert happened(machine, card)["fail"] == 1
            assert alive(machine, here) == before, kept
            here.default_queue.copy_peer(out.buffer, source.buffer).wait(10)
        assert (np.asarray(out) == DATA).all()


def test_a_device_that_closes_while_its_link_is_made(monkeypatch):
    """The copy that made the link keeps it, whoever has taken it out of the table meanwhile."""

    class Closing(dict):
        def setdefault(self, key, made):
            kept = super().setdefault(key, made)
            links.close(key[0])
            return kept

    with two(fresh=True) as (_, here, there, _out):
        monkeypatch.setattr(links, "_open", Closing())
        assert isinstance(links.between(there._backend, here._backend), ffi.CData)
        assert not links._open


@pytest.mark.parametrize("card", [HERE, THERE])
def test_a_job_that_the_kernel_refuses_leaves_nothing(card):
    fails = Schedule(0, [Fault("submit", 1, "fail", error="EPERM")])
    with two() as (machine, here, there, out):
        with there.array(DATA + 2) as source:
            before = alive(machine, here)
            apply(fails, machine, card)
            with pytest.raises(sp.SparkleError) as kept:
                here.default_queue.copy_peer(out.buffer, source.buffer)
            assert happened(machine, card)["fail"] == 1
            assert becomes(before, alive, machine, here), kept
            here.default_queue.copy_peer(out.buffer, source.buffer).wait(10)
        assert (np.asarray(out) == DATA + 2).all()


@pytest.mark.parametrize("nbytes", [1000, CHUNK + 4])
@pytest.mark.parametrize("how", ["hang_next_job", "fault_next_job"])
def test_a_peer_that_fails_ends_the_copy_with_an_error(how, nbytes):
    """The kernel starts the other half all the same: what it copies is not what was asked for."""
    with (
        two(faults=True, job_limit_s=0.2) as (machine, here, there, out),
        there.buffer(nbytes) as source,
        here.buffer(nbytes) as into,
    ):
        getattr(machine, how)(THERE)
        fence = here.default_queue.copy_peer(into, source)
        with pytest.raises(sp.KernelFault, match="that device failed to read the bytes"):
            fence.wait(20)
        here.default_queue.submit(sp.Commands().fill(out.buffer, 1)).wait(10)  # it goes on
        data = np.random.default_rng(1).integers(0, 256, nbytes, np.uint8)
        source.write(data)
        here.default_queue.copy_peer(into, source).wait(10)
        assert (into.read(np.uint8, nbytes) == data).all()


def test_a_chunk_that_was_not_read_fails_its_own_copy():
    """Copies of two queues share the link's reader: the fault is of the one whose chunk it was,
    which goes on with more chunks after the other has ended."""
    soft = Schedule(0, [Fault("job", 5, "hang", recovery="soft")])  # its later reads go on
    with (
        two(faults=True, job_limit_s=1, trace=1) as (machine, here, there, out),
        there.buffer(32 * CHUNK) as source,
        here.buffer(32 * CHUNK) as into,
        there.array(DATA + 3) as other_source,
        here.queue() as queue,
        here.queue() as other,
    ):
        queue.timeout_s = 0.2  # for so long it hands over what it has no room for
        apply(soft, machine, THERE)
        with held(machine, HERE):
            long = queue.copy_peer(into, source)  # as many chunks as a queue takes jobs
        assert becomes(True, killed, machine, [])
        other.copy_peer(out.buffer, other_source.buffer).wait(20)
        assert (np.asarray(out) == DATA + 3).all()
        with pytest.raises(sp.KernelFault, match="that device failed to read the bytes"):
            long.wait(20)
        queue.copy_peer(into, source).wait(20)  # it goes on


def killed(machine, lines):
    """Has a job been killed softly? `lines` gets the trace, which tells each once."""
    lines.extend(machine.trace)
    return any(line.endswith(f"done: -{errno.ENODATA}") for line in lines)


@pytest.mark.parametrize("nbytes", [1000, CHUNK + 4])
def test_a_peer_that_goes_while_it_is_read(nbytes):
    with two(faults=True) as (machine, here, there, out), here.buffer(nbytes) as into:
        source = there.buffer(nbytes)
        with held(machine, THERE):
            fence = here.default_queue.copy_peer(into, source)
            machine.unplug(THERE)
        with pytest.raises(sp.KernelFault, match="that device was lost: the card was removed"):
            fence.wait(20)
        with pytest.raises(sp.DeviceLost, match=r"emu:there.*the card was removed"):
            here.default_queue.copy_peer(into, source)
        here.default_queue.submit(sp.Commands().fill(out.buffer, 1)).wait(10)  # it goes on
        source.close()


def test_other_work_of_either_card_waits_for_no_copy():
    """Jobs that name the same memory wait for one another: only copies name that of the link."""
    with two() as (machine, here, there, out), here.queue() as other:
        source = there.array(DATA)
        with here.empty(DATA.shape, DATA.dtype) as into, there.buffer(64) as spare:
            with held(machine, THERE):
                fence = here.default_queue.copy_peer(into.buffer, source.buffer)
                other.submit(sp.Commands().fill(out.buffer, 7)).wait(10)
                assert not fence.done
            fence.wait(10)
            assert (np.asarray(into) == DATA).all()
            with held(machine, HERE):
                fence = here.default_queue.copy_peer(into.buffer, source.buffer)
                there.default_queue.submit(sp.Commands().fill(spare, 0)).wait(10)
            fence.wait(10)
        source.close()


def test_more_chunks_than_either_queue_takes_jobs():
    n = 35 * CHUNK // 8 + 1
    data = np.arange(n, dtype=np.uint64)
    with (
        two() as (_, here, there, _),
        there.array(data) as source,
        here.empty(data.shape, data.dtype) as out,
    ):
        fence = here.default_queue.copy_peer(out.buffer, source.buffer)
        fence.wait(30)
        assert (out.numpy() == data).all()


@pytest.mark.parametrize("seed", range(2))
def test_copies_both_ways_by_several_queues_at_once(seed):
    """Chunks come round again while others wait for their turn."""
    with two(delay_s=0.001, seed=seed) as (_, here, there, _):
        failures = []

        def copies(source, to, seed):
            chance = np.random.default_rng(seed)
            with to.queue() as queue:
                for _ in range(8):
                    n = int(chance.choice([1, 1000, 300_000, CHUNK, 2 * CHUNK + 8]))
                    data = chance.integers(0, 256, n, np.uint8)
                    with source.buffer(n) as given, to.buffer(n) as out:
                        given.write(data)
                        queue.copy_peer(out, given).wait(30)
                        if not (out.read(np.uint8, n) == data).all():
                            failures.append((seed, n))

        pairs = [(there, here), (here, there), (there, here), (here, there)]
        threads = [
            threading.Thread(target=copies, args=(*pair, 10 * seed + at))
            for at, pair in enumerate(pairs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_many_copies_are_in_flight_in_order():
    with two() as (machine, here, there, out):
        parts = [there.array(np.full(1000, at, np.int32)) for at in range(20)]
        with held(machine, THERE):
            fences = [
                here.default_queue.copy_peer(out.buffer.view(0, 4000), p.buffer) for p in parts
            ]
            assert not any(fence.done for fence in fences)
        fences[-1].wait(20)
        assert (np.asarray(out)[:1000] == 19).all()
        for part in parts:
            part.close()


def test_two_openings_of_one_card_are_peers():
    with Machine(["gfx1100"]) as machine:
        cards = [emu.open_card(machine, 0, f"emu:{at}") for at in range(2)]
        with (
            Device("emu:0", cards[0]) as a,
            Device("emu:1", cards[1]) as b,
            a.array(DATA) as x,
            b.empty(DATA.shape, DATA.dtype) as y,
        ):
            b.default_queue.copy_peer(y.buffer, x.buffer).wait(10)
            assert (np.asarray(y) == DATA).all()
        assert leaks(machine) == {}


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
                for _ in range(700):
                    queue.submit(sp.Commands().fill(out.buffer.view(0, 64), 1)).wait(20)
        finally:
            done.append(True)
            for thread in threads:
                thread.join()
