"""Which submissions go to the SDMA ring, and that a queue is one timeline over both rings.

When this fails, large copies overtake the kernels that read or write the same memory.
"""

from __future__ import annotations

import re
from contextlib import contextmanager

import numpy as np
import pytest
from ioctls import leaks
from sparkle_drv._native import ffi, lib

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import info
from sparkle_drv.core.abi import records
from sparkle_drv.core.device import Device
from sparkle_drv.lowlevel import pm4
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

CHIPS = ["gfx1036", "gfx1100"]
N = 1 << 17  # floats: 512 KiB, enough for the ring for copies
NBYTES = 4 * N
CS, ENOMEM = 0x44, 12


@contextmanager
def opened(chip, **options):
    with Machine([chip], **options) as machine:
        with Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev:
            yield machine, dev
        assert machine.fault() is None
        assert leaks(machine) == {}


@pytest.fixture(params=CHIPS)
def late(request):
    with opened(request.param, delay_s=0.003, seed=7) as (_, dev):
        yield dev


def dma_jobs(dev):
    return dev._backend.counters()["dma_jobs"]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("nbytes", [1 << 10, NBYTES - 3])
def test_what_is_large_goes_there(chip, nbytes):
    data = np.random.default_rng(1).integers(0, 255, nbytes, np.uint8)
    with opened(chip) as (_, dev), dev.buffer(nbytes) as a, dev.buffer(nbytes) as b:
        a.write(data)
        before = dma_jobs(dev)
        dev.default_queue.submit(sp.Commands().copy(b, a)).wait()
        assert dma_jobs(dev) - before == (nbytes > NBYTES // 2)
        assert (b.read(np.uint8, nbytes) == data).all()


@pytest.mark.parametrize(("chip", "packets"), [("gfx1036", 1), ("gfx1100", 33)])
def test_a_copy_on_the_compute_ring_is_cut_into_packets(chip, packets):
    """1 MiB: of 32736 bytes each from gfx11 on. The first alone waits for what it reads."""
    nbytes, sizes, waits = 1 << 20, [], []
    with opened(chip) as (_, dev), dev.buffer(nbytes) as a, dev.buffer(nbytes) as b:
        record = records.copy(b.address, a.address, nbytes)
        out = ffi.new("uint32_t[]", 8192)
        ndw = lib.sp_amdgpu_encode(dev.default_queue._handle, record, len(record), out, len(out))
        gfx = 11 if chip == "gfx1100" else 10
        for one in pm4.stream(list(out[0:ndw]), gfx, "compute"):
            if one.cls is pm4.DmaData and one.fields["command"]["byte_count"]:
                sizes.append(one.fields["command"]["byte_count"])
                waits.append(one.fields["command"]["raw_wait"])
    assert (len(sizes), sum(sizes)) == (packets, nbytes)
    assert waits == [1] + [0] * (packets - 1)
    assert max(sizes) == (32736 if gfx == 11 else nbytes)


def test_copies_and_dispatches_in_turn_keep_their_order(late):
    with (
        late.kernel("saxpy_f32") as k,
        late.array(np.ones(N, np.float32)) as x,
        late.empty(N, np.float32) as y,
        late.empty(N, np.float32) as z,
        late.queue() as q,
    ):
        before = dma_jobs(late)
        q.submit(sp.Commands().fill(y.buffer, 0))
        for _ in range(6):  # y = y + x, by way of z and back
            q.launch(k, y, x, 1.0, N, groups=N // 256)
            q.submit(sp.Commands().copy(z.buffer, y.buffer))
            q.launch(k, z, x, 1.0, N, groups=N // 256)
            q.submit(sp.Commands().copy(y.buffer, z.buffer))
        q.submit(sp.Commands()).wait()
        assert dma_jobs(late) - before == 13
        assert (np.asarray(y) == 12).all()


def test_a_list_of_copies_that_need_one_another(late):
    data = np.arange(N, dtype=np.uint32)
    with late.array(data) as x, late.buffer(NBYTES) as a, late.buffer(NBYTES + 64) as b:
        commands = sp.Commands().fill(b, 0x5A, pattern_nbytes=1)
        commands.copy(a, x.buffer).copy(b.view(5, NBYTES), a)
        commands.copy(b.view(1, NBYTES), b.view(5, NBYTES))  # the two overlap
        commands.fill(b.view(3, 7), 0xC3, pattern_nbytes=1)
        before = dma_jobs(late)
        late.default_queue.submit(commands).wait()
        assert dma_jobs(late) - before == 1
        wanted = np.full(NBYTES + 64, 0x5A, np.uint8)
        wanted[5 : 5 + NBYTES] = data.view(np.uint8)
        wanted[1 : 1 + NBYTES] = data.view(np.uint8)
        wanted[3:10] = 0xC3
        assert (b.read(np.uint8, NBYTES + 64) == wanted).all()


def test_uploads_behind_a_launch_and_downloads_behind_that(late):
    with (
        late.kernel("saxpy_f32") as k,
        late.array(np.zeros(N, np.float32)) as y,
        late.array(np.ones(N, np.float32)) as x,
    ):
        q, before = late.default_queue, dma_jobs(late)
        q.launch(k, y, x, 1.0, N, groups=N // 256)
        x.buffer.write(np.full(N, 2, np.float32))
        q.launch(k, y, x, 1.0, N, groups=N // 256)
        assert (y.buffer.read(np.float32, N) == 3).all()
        assert dma_jobs(late) > before


def test_another_queue_waits_for_a_copy(late):
    data = np.random.default_rng(2).integers(0, 2**32, N, np.uint32)
    with late.array(data) as x, late.buffer(NBYTES) as a, late.buffer(NBYTES) as b:
        with late.queue() as first, late.queue() as second:
            copied = first.submit(sp.Commands().copy(a, x.buffer))
            second.submit(sp.Commands().wait(copied).copy(b, a)).wait()
        assert (b.read(np.uint32, N) == data).all()


def test_more_copies_than_the_kernel_tracks(late):
    with late.buffer(NBYTES) as a, late.buffer(NBYTES) as b, late.queue() as q:
        for i in range(40):
            q.submit(sp.Commands().fill(a, i))
        q.submit(sp.Commands().copy(b, a)).wait()
        assert (b.read(np.uint32, N) == 39).all()


def test_two_cards_copy_by_theirs():
    data = np.arange(N, dtype=np.int32)
    with Machine(CHIPS) as machine:
        a = Device("emu:a", emu.open_card(machine, 0, "emu:a"))
        b = Device("emu:b", emu.open_card(machine, 1, "emu:b"))
        with a, b, a.array(data) as x, b.empty(data.shape, np.int32) as y:
            before = dma_jobs(a), dma_jobs(b)
            queue = b.default_queue
            value = b._backend.copy_peer(
                queue._handle, y.buffer.address, x.buffer.address, data.nbytes, a._backend
            )
            queue.fence(value).wait()
            assert (dma_jobs(a) - before[0], dma_jobs(b) - before[1]) == (1, 1)
            assert (np.asarray(y) == data).all()


def test_the_kernel_flushes_the_caches_before_a_copy():
    """The flag of the IB, on jobs of the ring for copies alone: compute has ACQUIRE_MEM."""
    with opened("gfx1100", trace=1) as (machine, dev), dev.buffer(NBYTES) as a:
        for nbytes in (64, NBYTES):
            dev.default_queue.submit(sp.Commands().fill(a.view(0, nbytes), 1)).wait()
        queued = [line for line in machine.trace if "queued on" in line]
        said = [re.search(r"ip=(\d) seq=\d+ flags=(\w+)", line).groups() for line in queued]
        assert said == [("1", "0x0"), ("2", "0x40")]  # AMDGPU_IB_FLAG_EMIT_MEM_SYNC


@pytest.mark.parametrize(("kms_minor", "jobs"), [(41, 0), (42, 1)])
def test_kernels_that_flush_nothing_copy_by_compute(kms_minor, jobs):
    with opened("gfx1036", kms_minor=kms_minor) as (_, dev), dev.buffer(NBYTES) as a:
        dev.default_queue.submit(sp.Commands().fill(a, 1)).wait()
        assert dma_jobs(dev) == jobs
        assert (a.read(np.uint32, N) == 1).all()


@pytest.mark.parametrize("chip", CHIPS)
def test_a_card_whose_ring_is_off(monkeypatch, chip):
    def ask(*args):
        facts = asked(*args)
        facts.dma.available_rings = 0
        return facts

    asked = info.ask
    monkeypatch.setattr(info, "ask", ask)
    data = np.arange(N, dtype=np.uint32)
    with opened(chip) as (_, dev), dev.array(data) as x, dev.buffer(NBYTES) as a:
        dev.default_queue.submit(sp.Commands().fill(a, 1).copy(a, x.buffer)).wait()
        assert (a.read(np.uint32, N) == data).all()
        assert dma_jobs(dev) == 0


def test_timed_submissions_stay_with_compute():
    with opened("gfx1100") as (_, dev), dev.buffer(NBYTES) as a, dev.queue(timing=True) as q:
        before = dma_jobs(dev)
        assert q.submit(sp.Commands().fill(a, 1)).wait().time_ns > 0
        assert dma_jobs(dev) == before


@pytest.mark.parametrize("recovery", ["ring", "soft", "full"])
def test_a_copy_that_never_ends(recovery):
    with opened_broken() as (machine, dev), dev.buffer(NBYTES) as a, dev.queue() as q:
        machine.hang_next_job(0, recovery)
        stuck = q.submit(sp.Commands().fill(a, 1))
        with dev.kernel("noop") as k:
            behind = q.launch(k, groups=1)
            with pytest.raises(sp.KernelFault, match="a copy or fill: it hung"):
                stuck.wait(5)
            with pytest.raises(sp.SparkleError):
                behind.wait(5)
            assert q.launch(k, groups=1).wait(5).done
        q.submit(sp.Commands().fill(a, 3)).wait(5)
        assert (a.read(np.uint32, N) == 3).all()


@contextmanager
def opened_broken():
    with (
        Machine(["gfx1100"], job_limit_s=0.3) as machine,
        Device("emu:own", emu.open_card(machine, 0, "emu:own")) as dev,
    ):
        yield machine, dev
