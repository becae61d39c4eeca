"""A submission lists the wrapped and shared memory that it touches, and no other.

When this fails, each submission pays for all wrapped memory, or the kernel ends a job that misses
some.

For each userptr in a submission's list the kernel walks all pages; the emulated kernel counts them.
A job that touches memory which it does not list is ended, and `Machine.fault` says "unlisted".
"""

from __future__ import annotations

import ctypes
import errno
import mmap
from dataclasses import replace

import numpy as np
import pytest
from emulated_cards import own_card
from where import CODE_OBJECTS

import sparkle_drv as sp
from sparkle_drv.backends.amdgpu import loader
from sparkle_drv.lowlevel import isa

CHIPS = ["gfx1036", "gfx1100"]
PAGE, GIB = 4096, 1 << 30
N = 1024
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(params=CHIPS)
def card(request):
    with own_card(request.param) as both:
        yield both


class Host:
    """Anonymous pages as an array that can be taken away and given back under a wrap."""

    def __init__(self, nbytes: int = PAGE) -> None:
        self.memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array = np.frombuffer(self.memory, np.float32)
        self.at, self.nbytes = self.array.__array_interface__["data"][0], nbytes

    def protect(self, rights: int) -> None:
        where = ctypes.c_void_p(self.at)
        assert libc.mprotect(where, ctypes.c_size_t(self.nbytes), rights) == 0


def walked(machine, do) -> int:
    before = machine.userptr_pages()
    do()
    return machine.userptr_pages() - before


def test_a_wrapped_gibibyte_costs_nothing_to_who_does_not_touch_it(card):
    machine, dev = card
    big = np.zeros(GIB, np.uint8)
    with (
        sp.wrap(dev, big),
        dev.kernel("vecadd_f32") as k,
        dev.array(np.ones(N, np.float32)) as x,
        dev.empty(N, np.float32) as y,
        dev.queue() as q,
    ):
        commands = sp.Commands().dispatch(k, y, x, x, N, groups=N // 256).fill(x.buffer, 0)

        def unrelated():
            q.launch(k, y, x, x, N, groups=N // 256).wait()
            go = q.prepare(k, y, x, x, N, groups=N // 256)
            for _ in range(3):
                q.fence(go()).wait()
                q.submit(commands).wait()
            q.submit(sp.Commands().copy(y.buffer, x.buffer)).wait()
            x.buffer.read(np.float32, N)

        assert walked(machine, unrelated) == 0


def test_each_submission_walks_what_it_touches(card):
    """By pointer argument, by copy and by fill; the same when records come again."""
    machine, dev = card
    a, b = Host(4 * PAGE), Host(16 * PAGE)
    a.array[:] = 1
    with (
        sp.wrap(dev, a.array) as x,
        sp.wrap(dev, b.array) as z,
        dev.kernel("vecadd_f32") as k,
        dev.empty(N, np.float32) as y,
        dev.queue() as q,
    ):
        for _ in range(3):
            assert walked(machine, q.launch(k, y, x, x, N, groups=4).wait) == 0  # was submitted
            assert walked(machine, lambda: q.launch(k, y, x, x, N, groups=4).wait()) == 4
            assert walked(machine, lambda: q.launch(k, z, y, x, N, groups=4).wait()) == 20
            one = sp.Commands().copy(y.buffer, z.view(PAGE, 4 * N))
            assert walked(machine, lambda one=one: q.submit(one).wait()) == 16
            two = sp.Commands().fill(x.view(8, 8), 0)
            assert walked(machine, lambda two=two: q.submit(two).wait()) == 4
        assert (np.asarray(y)[:N] == b.array[N : 2 * N]).all()
        assert list(a.array[:5]) == [1, 1, 0, 0, 1]


def test_the_list_follows_what_comes_and_goes(card):
    """Records that are kept: their addresses are another buffer's by now."""
    machine, dev = card
    with (
        dev.kernel("vecadd_f32") as k,
        dev.array(np.ones(N, np.float32)) as x,
        dev.queue() as q,
    ):
        address = set()
        for pages in (1, 1, 2, 1):
            host = Host(pages * PAGE)
            with sp.wrap(dev, host.array) as z:
                address.add(z.address)
                go = q.prepare(k, z, x, x, N, groups=4)
                for _ in range(2):
                    assert walked(machine, lambda go=go: q.fence(go()).wait()) == pages
            assert (host.array[:N] == 2).all()
        assert len(address) < 4  # addresses were used again


@pytest.mark.parametrize("how", ["gone", "read-only"])
def test_a_wrap_that_died_is_told_by_who_touches_it_only(card, how):
    machine, dev = card
    dead, well = Host(), Host()
    with (
        sp.wrap(dev, dead.array) as x,
        sp.wrap(dev, well.array) as z,
        dev.kernel("vecadd_f32") as k,
        dev.array(np.ones(N, np.float32)) as y,
        dev.queue() as q,
    ):
        touches = sp.Commands().dispatch(k, y, x, x, N, groups=4)
        dead.protect(mmap.PROT_READ if how == "read-only" else 0)
        try:
            submitted = q.submitted
            for refused in (
                lambda: q.launch(k, y, x, x, N, groups=4),
                lambda: q.submit(touches),
                lambda: q.submit(sp.Commands().fill(x, 0)),
            ):
                with pytest.raises(sp.DriverCallError, match=f"wrapped at {dead.at:#x}") as told:
                    refused()
                assert told.value.errno == errno.EFAULT
            assert q.submitted == submitted
            q.launch(k, z, y, y, N, groups=4).wait()
            q.launch(k, y, z, z, N, groups=4).wait()
        finally:
            dead.protect(mmap.PROT_READ | mmap.PROT_WRITE)
        q.submit(touches).wait()
        assert (well.array == 2).all()
        assert (np.asarray(y) == 0).all()
        assert machine.fault() is None


def test_shared_memory_is_listed_by_who_touches_it(card):
    machine, dev = card
    with (
        dev.buffer(4 * N, memory=sp.Memory.SHARED) as a,
        dev.kernel("vecadd_f32") as k,
        dev.array(np.ones(N, np.float32)) as x,
        dev.queue() as q,
    ):
        go = q.prepare(k, a, x, x, N, groups=4)
        for _ in range(3):
            q.fence(go()).wait()
            q.submit(sp.Commands().copy(x.buffer, a)).wait()
        assert (np.asarray(x) == 8).all()
        assert machine.fault() is None


INDIRECT = """
s_load_dwordx2 s[8:9], s[{0}:{1}], null
s_waitcnt lgkmcnt(0)
s_load_dwordx2 s[8:9], s[8:9], null
s_waitcnt lgkmcnt(0)
v_mov_b32 v0, 0
v_mov_b32 v1, 7
global_store_dword v0, v1, s[8:9]
s_endpgm
"""


class Other:
    """The image of a code object with other instructions at the entry of its kernel."""

    def __init__(self, code, gfx) -> None:
        at = code.user_sgprs.first["kernarg_segment_ptr"]
        words = isa.assemble(INDIRECT.format(at, at + 1), gfx)
        self.image, self.entry = code.image, code.entry
        self.words = np.array(words, np.uint32).tobytes()

    def __getattr__(self, name):
        return getattr(self.image, name)

    def place(self, at):
        made = bytearray(self.image.place(at))
        made[self.entry : self.entry + len(self.words)] = self.words
        return made


def test_an_address_in_memory_alone_is_not_seen_by_the_driver(card, monkeypatch):
    """The kernel stores to where its first argument's memory says. The contract of sp_amdgpu.h:
    that memory must be an argument, too, as pointer or as number."""
    machine, dev = card
    gfx = 11 if machine.chips[0] == "gfx1100" else 10
    path = CODE_OBJECTS / f"features.v5.{dev.info.isa}.hsaco"
    load, host = loader.codeobject.load, Host()

    def other(*args, **given):
        code = load(*args, **{**given, "args": None})  # whose second is a pointer
        return replace(code, image=Other(code, gfx))

    monkeypatch.setattr(loader.codeobject, "load", other)
    given = {"image": path, "entry": "simple", "group_size": 64}
    with (
        sp.wrap(dev, host.array) as x,
        dev.buffer(8) as table,
        dev.kernel(args="f32* u64 i32", **given) as k,
        dev.queue() as q,
    ):
        table.write(np.array([x.address + 8], np.uint64))
        with pytest.raises(sp.KernelFault, match="simple"):
            q.launch(k, table, 0, 0, groups=1).wait()
        assert machine.fault().kind == "unlisted"
        assert f"a BO of {PAGE} bytes" in machine.fault().text
        assert not host.array.any()
        q.launch(k, table, x.address + 64, 0, groups=1).wait()
        assert list(host.array.view(np.uint32)[:4]) == [0, 0, 7, 0]
        assert machine.fault_count() == 1
