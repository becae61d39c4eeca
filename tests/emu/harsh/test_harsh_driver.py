"""Our driver on a card with strict caches: it empties a cache exactly when something wrote behind
it.

When this fails, users of AMD cards read old bytes, because the driver forgot to empty a cache.

A cache that was not emptied keeps what it holds, so whoever forgets one of these reads old bytes.
Each value that is read here was written behind L2 after a kernel had read the one before it.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from emulated_cards import own_card
from sparkle_drv._native import ffi, lib
from where import CODE_OBJECTS

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import loader
from sparkle_drv.lowlevel import isa
from sparkle_drv.testing import emu
from sparkle_drv.testing.emulator import Machine

CHIPS = ["gfx1036", "gfx1100"]
N = 64
STORE = """
s_load_dwordx2 s[8:9], s[{}:{}], 0x0
v_mov_b32 v0, 0
v_mov_b32 v1, {}
s_waitcnt lgkmcnt(0)
global_store_dword v0, v1, s[8:9]
s_endpgm
"""
ALWAYS = {"glk": 1, "glv": 1, "gl1": 1}
MIB = 1 << 20


@pytest.fixture(params=CHIPS)
def card(request):
    with own_card(request.param) as both:
        yield both


class Sums:
    """A kernel that adds `x` and zeros into memory that the CPU reads without a job."""

    def __init__(self, dev, x):
        self.queue, self.kernel = dev.default_queue, dev.kernel("vecadd_f32")
        self.zeros, self.out = dev.empty(N, np.float32), dev.buffer(4 * N, sp.Memory.HOST)
        y = self.out.array(np.float32, N)
        self.go = self.queue.prepare(self.kernel, y, x, self.zeros, N, groups=1)

    def run(self):
        self.queue.fence(self.go()).wait()

    def seen(self):
        """What the newest run saw."""
        return set(self.out.read(np.float32, N))

    def __call__(self):
        """What is in `x`, as the GPU sees it."""
        self.run()
        return self.seen()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        del self.go
        for each in (self.kernel, self.zeros, self.out):
            each.close()


class Counted:
    """What a card does within a block: invalidations, flushes, code and arguments over its bus."""

    NAMES = ("gli", "glk", "glv", "gl1", "gl2", "flushes", "bus_code", "bus_scalar")

    def __init__(self, machine):
        self.machine, self.more = machine, {}

    def __enter__(self):
        self._before = self.machine.caches()
        return self.more

    def __exit__(self, *_):
        after = self.machine.caches()
        self.more |= {
            name: after[name] - self._before[name]
            for name in self.NAMES
            if after[name] != self._before[name]
        }


def full(value):
    return np.full(N, value, np.float32)


@pytest.mark.parametrize("way", ["prepared", "launch", "list", "two records"])
def test_a_second_submission_moves_no_code_and_flushes_nothing(card, way):
    """Nor arguments, where the CPU reaches the card's memory; counted. The first one does both
    invalidations, since the kernel is new."""
    machine, dev = card
    q = dev.default_queue
    with dev.kernel("saxpy_f32") as k, dev.array(full(1)) as x, dev.empty(N, np.float32) as y:
        c = sp.Commands().dispatch(k, y, x, 1.0, N, groups=1)
        if way == "two records":
            c.dispatch(k, y, x, 1.0, N, groups=1)
        go = q.prepare(k, y, x, 1.0, N, groups=1)
        submits = {
            "prepared": lambda go=go: q.fence(go()),
            "launch": lambda: q.launch(k, y, x, 1.0, N, groups=1),
        }
        submit = submits.get(way, lambda: q.submit(c))
        between = 2 if way == "two records" else 1  # invalidations of the caches of waves
        expected = {name: between for name in ALWAYS}
        with Counted(machine) as more:
            submit().wait()
        assert more == {**expected, "gli": 1, "gl2": 1, "flushes": 1}
        for _ in range(3):
            with Counted(machine) as more:
                submit().wait()
            assert more == expected
        del go, submit, submits


def test_arguments_that_change_are_seen_and_cost_no_flush(card):
    """They come to places that L2 does not hold. Once in so many submissions it is emptied."""
    machine, dev = card
    with dev.kernel("saxpy_f32") as k, dev.array(full(1)) as x, dev.empty(N, np.float32) as y:
        q = dev.default_queue
        q.launch(k, y, x, 0.0, N, groups=1).wait()
        with Counted(machine) as more:
            for i in range(300):
                q.launch(k, y, x, float(i), N, groups=1)
            q.submit(sp.Commands()).wait()
        assert set(y.numpy()) == {sum(range(300))}
        assert 0 < more["gl2"] == more["flushes"] <= 300 // 30 + 1
        assert not {"gli", "bus_code", "bus_scalar"} & set(more)


def test_arguments_of_lists_that_are_not_kept(card):
    """Timed submissions take slots in turn."""
    machine, dev = card
    with (
        dev.kernel("saxpy_f32") as k,
        dev.array(full(1)) as x,
        dev.empty(N, np.float32) as y,
        dev.queue(timing=True) as q,
    ):
        for i in range(100):
            q.launch(k, y, x, float(i), N, groups=1).wait()
        assert set(y.numpy()) == {sum(range(100))}
    assert machine.fault() is None


def test_arguments_go_over_the_bus_once_where_the_window_is_small():
    with own_card(visible_nbytes=256 * MIB) as (machine, dev), dev.array(full(1)) as x:
        with Sums(dev, x) as sums, Counted(machine) as more:
            sums.run()
            with Counted(machine) as again:
                sums.run()
        assert more["bus_scalar"] == 1024  # what L2 takes at once
        assert again == ALWAYS


@pytest.mark.parametrize("nbytes", [4 * N, 2 * MIB], ids=["direct", "large"])
def test_what_was_written_by_a_transfer(card, nbytes):
    _, dev = card
    with dev.empty(nbytes // 4, np.float32) as x, Sums(dev, x) as sums:
        for value in (1, 2, 3):
            x.buffer.write(np.full(nbytes // 4, value, np.float32))
            assert sums() == {value}


def test_what_was_written_by_a_transfer_while_the_queue_is_busy():
    """By way of memory between, and SDMA: a copy of 2 MiB."""
    with (
        own_card(delay_s=0.002) as (_, dev),
        dev.empty(MIB // 2, np.float32) as x,
        Sums(dev, x) as sums,
    ):
        for value in (1, 2, 3):
            for _ in range(3):
                sums.go()
            dev.default_queue.write(x, np.full(MIB // 2, value, np.float32))
            assert sums() == {value}


def test_what_another_queue_copied_by_sdma(card):
    _, dev = card
    with (
        dev.queue() as other,
        dev.empty(MIB, np.float32) as x,
        dev.empty(MIB, np.float32) as z,
        Sums(dev, x) as sums,
    ):
        for value in (1, 2, 3):
            z.buffer.write(np.full(MIB, value, np.float32))
            copied = other.submit(sp.Commands().copy(x, z))
            dev.default_queue.submit(sp.Commands().wait(copied))
            assert sums() == {value}


@pytest.mark.parametrize("waits", ["cpu", "queue"])
def test_what_sdma_wrote_is_not_in_l2(waits):
    """The emulated GL2 takes it over; whether silicon's does is not established. So L2 is emptied
    after SDMA is known to have ended, and by a job that waits for another queue."""
    with (
        own_card() as (machine, dev),
        dev.empty(MIB, np.float32) as x,
        dev.empty(N, np.float32) as y,
    ):
        q = dev.default_queue
        with dev.queue() as other, dev.kernel("fill_f32") as k:
            q.launch(k, y, 1.0, N, groups=1).wait()
            with Counted(machine) as more:
                machine.hold_jobs()
                copied = other.submit(sp.Commands().fill(x, 0))
                c = sp.Commands()
                if waits == "queue":
                    c.wait(copied)
                else:
                    machine.hold_jobs(hold=False)
                    copied.wait()
                fence = q.submit(c.dispatch(k, y, 1.0, N, groups=1))
                machine.hold_jobs(hold=False)
                fence.wait()
            assert more["gl2"] == 2  # of the fill, since it is the first of its ring; of the launch


def test_a_view_is_written_at_any_time(card):
    """Each submission counts it as written while it is there, and once more when it goes."""
    machine, dev = card
    with dev.buffer(4 * N, sp.Memory.HOST) as x, Sums(dev, x.array(np.float32, N)) as sums:
        with x.map() as view:
            there = np.frombuffer(view, np.float32)
            for value in (1, 2, 3):
                there[:] = value
                assert sums() == {value}
            there[:] = 4
            del there
        assert sums() == {4}
        with Counted(machine) as more:
            sums.run()
        assert more == ALWAYS


def test_who_writes_without_a_view_is_not_seen(card):
    """So the tests here can fail: a mapping that the driver knows nothing of is its view of
    memory, which nobody else may have."""
    _, dev = card
    with dev.buffer(4 * N, sp.Memory.HOST) as x, Sums(dev, x.array(np.float32, N)) as sums:
        x.write(full(1))
        sums.run()
        out = ffi.new("void **")
        assert lib.sp_amdgpu_map(x._storage.handle.pointer, out) == 0
        there = np.frombuffer(ffi.buffer(out[0], 4 * N), np.float32)
        there[:] = 2
        sums.run()
        assert sums.seen() == {1}


def test_wrapped_memory_is_written_at_any_time(card):
    _, dev = card
    mine = full(1)
    with sp.wrap(dev, mine) as buffer, Sums(dev, buffer.array(np.float32, N)) as sums:
        for value in (1, 2, 3):
            mine[:] = value
            assert sums() == {value}


def test_memory_that_was_used_before(card):
    """Memory that is free is kept, and the CPU clears it for the next who asks."""
    _, dev = card
    q = dev.default_queue
    with (
        dev.kernel("copy_f32") as k,
        dev.kernel("fill_f32") as fill,
        dev.buffer(4 * N, sp.Memory.HOST) as out,
    ):
        y, addresses = out.array(np.float32, N), set()
        for _ in range(3):
            with dev.array(full(5)) as x:
                q.launch(fill, x, 1.0, N, groups=1)
                q.launch(k, y, x, N, groups=1).wait()
                assert set(out.read(np.float32, N)) == {1}
                addresses.add(x.buffer.address)
            with dev.empty(N, np.float32) as x:
                q.launch(k, y, x, N, groups=1).wait()
                assert set(out.read(np.float32, N)) == {0}
                addresses.add(x.buffer.address)
        assert len(addresses) == 1


@pytest.mark.parametrize("writer", ["view", "kernel"])
def test_shared_memory_that_another_device_writes(writer):
    """Both hold it in a GL2 of their own."""
    machine = Machine(["gfx1100", "gfx1100"])
    first, second = (emu.open_device(machine, i, f"emu:gfx1100#{i}") for i in range(2))
    with first as dev, second as other, dev.buffer(4 * N, memory=sp.Memory.SHARED) as mine:
        fd = mine.export()
        with (
            other.import_buffer(fd, 4 * N) as theirs,
            other.kernel("fill_f32") as fill,
            Sums(dev, mine.array(np.float32, N)) as sums,
        ):
            for value in (1, 2, 3):
                if writer == "view":
                    with theirs.map() as view:
                        np.frombuffer(view, np.float32)[:] = value
                else:
                    y = theirs.array(np.float32, N)
                    other.default_queue.launch(fill, y, float(value), N, groups=1).wait()
                assert sums() == {value}
        os.close(fd)


def test_a_copy_between_devices():
    """Chunks that both map are written by the one and read by the other, over and over."""
    machine = Machine(["gfx1100", "gfx1100"])
    first, second = (emu.open_device(machine, i, f"emu:gfx1100#{i}") for i in range(2))
    with (
        first as dev,
        second as other,
        dev.empty(N, np.float32) as x,
        other.empty(N, np.float32) as z,
        Sums(dev, x) as sums,
    ):
        for value in range(1, 10):
            z.buffer.write(full(value))
            dev.default_queue.copy_peer(x, z).wait()
            assert sums() == {value}


class Says:
    """The image of a code object with other instructions: they store a number."""

    def __init__(self, code, gfx, value) -> None:
        at = code.user_sgprs.first["kernarg_segment_ptr"]
        text = STORE.format(at, at + 1, value)
        self.image, self.entry = code.image, code.entry
        self.words = np.array(isa.assemble(text, gfx), np.uint32).tobytes()

    def __getattr__(self, name):
        return getattr(self.image, name)

    def place(self, at):
        made = bytearray(self.image.place(at))
        made[self.entry : self.entry + len(self.words)] = self.words
        return made


def test_code_where_other_code_was(card, monkeypatch):
    """On a queue that ran the other one, and on one that another queue was before."""
    machine, dev = card
    gfx, load, places = 11 if machine.chips[0] == "gfx1100" else 10, loader.codeobject.load, set()
    given = {"image": CODE_OBJECTS / f"features.v5.{dev.info.isa}.hsaco", "group_size": 64}
    with dev.buffer(4096, sp.Memory.HOST) as y, dev.queue() as first, dev.queue() as second:
        for value in range(1, 9):

            def other(*args, value=value, **more):
                code = load(*args, **more)
                return replace(code, image=Says(code, gfx, value))

            monkeypatch.setattr(loader.codeobject, "load", other)
            with dev.kernel(entry="simple", args="f32* f32* i32", **given) as k:
                out = ffi.new("struct sp_amdgpu_template *")
                kernel = ffi.cast("struct sp_amdgpu_kernel *", k._pointer)
                assert lib.sp_amdgpu_template_of(kernel, out) == 0
                places.add(tuple(out.dwords[0:4]))
                for q, emptied in ((first, 1), (second, 1), (first, 0), (second, 0)):
                    with Counted(machine) as more:
                        q.launch(k, y, y, 0, groups=1).wait()
                    assert more.get("gli", 0) == emptied
                    assert y.read(np.uint32, 1)[0] == value
    assert len(places) == 1  # they really had the same address
    assert machine.fault() is None


def test_memory_that_the_kernel_moved(card):
    """It may have come back where L2 holds what others had there."""
    machine, dev = card
    with dev.array(full(1)) as x, Sums(dev, x) as sums:
        for _ in range(2):
            sums()
        machine.evict()
        with Counted(machine) as more:
            sums.run()
        assert more == {**ALWAYS, "gl2": 1, "flushes": 1}
        with Counted(machine) as more:
            sums.run()
        assert more == ALWAYS


def test_a_kernel_that_does_not_say_what_it_moved(card):
    machine, dev = card
    with dev.array(full(1)) as x, Sums(dev, x) as sums:
        for _ in range(2):
            sums()
        machine.fail_ioctl(0x45, 22, 1)  # INFO, EINVAL
        with Counted(machine) as more:
            sums.run()
        assert more["gl2"] == 1


@pytest.mark.parametrize("recovery", ["ring", "soft", "full"])
def test_a_job_that_was_cancelled_has_emptied_nothing(recovery):
    """The job after it does what that one was to do."""
    with (
        own_card("gfx1100", job_limit_s=0.1) as (machine, dev),
        dev.array(full(1)) as x,
        Sums(dev, x) as sums,
    ):
        assert sums() == {1}
        x.buffer.write(full(2))
        machine.hang_next_job(recovery=recovery)
        with pytest.raises(sp.SparkleError):
            sums()
        with Counted(machine) as more:
            assert sums() == {2}
        assert more["gl2"] == 1


def test_an_ib_on_its_way_keeps_what_it_was_asked_for():
    """It is sent again with less to do while the first one waits its turn."""
    with (
        own_card() as (machine, dev),
        dev.array(full(1)) as x,
        Sums(dev, x) as sums,
        dev.queue() as other,
    ):
        assert sums() == {1}
        for value in range(2, 12):
            machine.hold_jobs()
            other.write(x, full(value))
            values = [sums.go() for _ in range(3)]
            machine.hold_jobs(hold=False)
            sums.queue.fence(values[-1]).wait()
            assert sums.seen() == {value}
