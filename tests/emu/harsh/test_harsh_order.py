"""Packets, jobs and queues without an order between them, and the same with one.

When this fails, work that nothing orders passes on the emulator by luck.
"""

from __future__ import annotations

import contextlib
import time

import pytest
from cachekit import (
    CHIPS,
    FLUSH,
    LOAD,
    NEW,
    OLD,
    SAYS,
    SCALARS,
    UC,
    WAVES,
    acquire,
    code,
    release,
    run,
    until,
)
from ioctls import Syncobj, await_word, store

from sparkle_drv.amd.kmd.raw import lib
from sparkle_drv.lowlevel import pm4
from sparkle_drv.testing.emulator import IP, ffi

ADDS = """
v_mov_b32 v1, 0
v_mov_b32 v2, 1
global_atomic_add v1, v2, s[0:1]
s_endpgm
"""


@pytest.fixture(params=CHIPS)
def rig(request, open_rig):
    return open_rig(request.param)


@pytest.fixture
def out(rig):
    return rig.buffer(4096)


def says(rig, at, value=NEW):
    """(program, packets): a dispatch that stores a dword."""
    program = code(rig, SAYS.format(value=hex(value)))
    return program, run(rig, program, at, wait=False)


def fill(rig, at, value, nbytes=64, **more):
    """DMA_DATA of a dword, again and again."""
    return pm4.DmaData.encode(
        gfx=rig.gfx,
        control={"src_sel": 2, **{k: v for k, v in more.items() if k == "cp_sync"}},
        src=value,
        dst=at,
        command={"byte_count": nbytes, **{k: v for k, v in more.items() if k != "cp_sync"}},
    )


def unconfirmed(buffer, value):
    return [0xC0033700, 0x00000500, buffer.lo, buffer.hi, value]


def test_o1_a_dispatch_that_needs_the_one_before_it(rig, x, out):
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    second = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    fault = rig.run(first + second, writer, reader, x, out)
    assert fault.kind == "order"
    assert "DISPATCH_DIRECT at 0x" in fault.text
    assert "expected CS_PARTIAL_FLUSH" in fault.text
    assert fault.va == x.va
    assert rig.run(first + FLUSH + second, writer, reader, x, out) is None
    assert out.words() == [NEW]


def test_o1_two_writers(rig, x):
    a, first = says(rig, x.va)
    b, second = says(rig, x.va, OLD)
    fault = rig.run(first + second, a, b, x)
    assert fault.kind == "order"
    assert f"writes {x.va:#x}, which DISPATCH_DIRECT" in fault.text
    assert rig.run(first + FLUSH + second, a, b, x) is None


def test_o1_the_end_of_the_pipe_does_not_wait_by_itself(rig, x, out):
    """RELEASE_MEM is started, as a dispatch is: somebody must wait for what it writes."""
    mark = rig.buffer(4096, rights=UC)
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    second = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    bos = (writer, reader, x, out, mark)
    first += release(rig, mark.va, 1)
    assert rig.run(first + second, *bos).kind == "order"
    mark.write([0])
    assert rig.run(first + await_word(mark, 1) + second, *bos) is None
    assert out.words() == [NEW]
    fault = rig.run(first + await_word(mark, 1) + second, *bos)
    assert fault.kind == "order"  # the word was there from before


def test_o1_as_many_as_there_are(rig, out):
    """Dispatches beside one another that touch different bytes, also of one dword, are no fault."""
    bytes_of = code(rig, SAYS.replace("_dword", "_byte").format(value="s2"))
    dwords = [
        dword for i in range(40) for dword in run(rig, bytes_of, out.va + i, 0x40 + i, wait=False)
    ]
    assert rig.run(dwords, bytes_of, out) is None
    assert out.words(0, 10) == [
        int.from_bytes(bytes(range(0x40 + i, 0x44 + i)), "little") for i in range(0, 40, 4)
    ]


def test_ends_of_the_pipe_keep_their_order(rig, out):
    """Of 30 among as many dispatches, more than are under way at once, the last comes last."""
    mark = rig.buffer(4096, rights=UC)
    program, dwords = code(rig, SAYS.format(value="s2")), []
    for i in range(30):
        dwords += run(rig, program, out.va + 4 * i, i, wait=False) + release(rig, mark.va, i + 1)
    assert rig.run([*dwords, *await_word(mark, 30)], program, out, mark) is None
    assert mark.words() == [30]
    assert out.words(0, 30) == [*range(30)]


def test_o1_atomics_of_two_dispatches(rig, x):
    """They may meet one another, and nobody else."""
    adds = code(rig, ADDS)
    a, plain = says(rig, x.va)
    both = run(rig, adds, x.va, wait=False) * 2
    assert rig.run(both, adds, x) is None
    assert x.words() == [OLD + 2]
    fault = rig.run(both + plain, adds, a, x)
    assert fault.kind == "order"
    assert "by an atomic" in fault.text


@pytest.mark.parametrize("sync", [0, 1])
def test_o2_a_dispatch_that_needs_a_copy(rig, x, out, sync):
    """CP_SYNC, in the copy or in one of no bytes behind it."""
    reader = code(rig, LOAD)
    look = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    fault = rig.run(fill(rig, x.va, NEW) + look, reader, x, out)
    assert fault.kind == "order"
    assert "DMA_DATA at 0x" in fault.text
    assert "expected CP_SYNC" in fault.text
    behind = [] if sync else fill(rig, 0, 0, 0, cp_sync=1)
    assert rig.run(fill(rig, x.va, NEW, cp_sync=sync) + behind + look, reader, x, out) is None
    assert out.words() == [NEW]


def test_o2_a_copy_of_a_copy(rig, x, out):
    """RAW_WAIT lets it wait."""

    def copy(src, dst, **command):
        control = {"src_sel": 3, "dst_sel": 3}
        return pm4.DmaData.encode(
            gfx=rig.gfx, control=control, src=src, dst=dst, command={"byte_count": 64, **command}
        )

    first = copy(x.va, x.va + 1024)
    fault = rig.run(first + copy(x.va + 1024, out.va), x, out)
    assert fault.kind == "order"
    assert rig.run(first + copy(x.va + 1024, out.va, raw_wait=1), x, out) is None
    assert out.words() == [OLD]


def test_a_copy_that_overtakes_a_dispatch(rig, x):
    """CP_SYNC waits for copies, not for waves."""
    writer, first = says(rig, x.va)
    copy = fill(rig, x.va, OLD, cp_sync=1)
    assert rig.run(first + copy, writer, x).kind == "order"
    assert rig.run(first + FLUSH + copy, writer, x) is None
    assert x.words() == [OLD]


def test_a_write_that_is_not_confirmed(rig, x, out):
    """A later write that is, by the same engine, comes behind it."""
    reader = code(rig, LOAD)
    look = acquire(rig, *SCALARS, *WAVES) + run(rig, reader, x.va, out.va)
    fault = rig.run(unconfirmed(x, NEW) + look, reader, x, out)
    assert fault.kind == "order"
    assert "WRITE_DATA at 0x" in fault.text
    assert "expected WR_CONFIRM in the first" in fault.text
    for dwords in (store(x, NEW), unconfirmed(x, NEW) + store(out, 0, 64)):
        assert rig.run(dwords + look, reader, x, out) is None
        assert out.words() == [NEW]


def test_a_write_that_overtakes_a_dispatch(rig, x, out):
    """Arguments written over while the dispatch before may still read them."""
    reader = code(rig, LOAD)
    look = run(rig, reader, x.va, out.va, wait=False)
    fault = rig.run(look + store(x, NEW), reader, x, out)
    assert fault.kind == "order"
    assert "expected CS_PARTIAL_FLUSH" in fault.text
    assert rig.run(look + FLUSH + store(x, NEW), reader, x, out) is None


@pytest.mark.parametrize("chip", CHIPS)
def test_values_differ_by_seed_where_nobody_looks(open_rig, chip):
    """In UC memory, where queues talk to one another: the seed alone says who is last."""
    seen = set()
    for seed in (1, 2, 3, 4, 5, 1, 2, 3, 4, 5):
        rig = open_rig(chip, seed=seed)
        x = rig.buffer(4096, rights=UC)
        programs = [says(rig, x.va, value) for value in (1, 2, 3)]
        dwords = [dword for _, packets in programs for dword in packets]
        assert rig.run(dwords, x, *(program for program, _ in programs)) is None
        seen.add((seed, x.words()[0]))
    assert len(seen) == 5
    assert len({value for _, value in seen}) > 1


@pytest.mark.parametrize("chip", CHIPS)
def test_lenient_about_order(open_rig, chip):
    rig = open_rig(chip, lenient=["order"])
    x, out = rig.buffer(4096), rig.buffer(4096)
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    second = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    assert rig.run(first + second, writer, reader, x, out) is None
    assert out.words() == [NEW]


@pytest.mark.parametrize("waits", [False, True])
def test_o6_a_timestamp_taken_before_the_work_has_ended(rig, out, waits):
    """COPY_DATA of the clock overtakes the dispatch, RELEASE_MEM does not."""
    clock = (
        "s_memrealtime s[4:5]\ns_waitcnt lgkmcnt(0)"
        if rig.gfx == 10
        else ("s_sendmsg_rtn_b64 s[4:5], 0x83\ns_waitcnt lgkmcnt(0)")
    )
    program = code(
        rig,
        f"{clock}\nv_mov_b32 v1, 0\nv_mov_b32 v2, s4\nv_mov_b32 v3, s5\n"
        "global_store_dwordx2 v1, v[2:3], s[0:1]\ns_endpgm",
    )
    at = out.va + 64
    dwords = run(rig, program, out.va, wait=waits)
    dwords += [0xC0044000, 0x00110209, 0, 0, at & 0xFFFFFFFF, at >> 32]
    assert rig.run(dwords, program, out) is None
    work, taken = (words[0] | words[1] << 32 for words in (out.words(0, 2), out.words(16, 2)))
    assert (taken > work) == waits


def jobs(rig, *these):
    """Submits (ip, ring, dwords, bos, the number of one to wait for) one after another, so that all
    are there before one begins: None, or the first fault."""
    before, made = rig.machine.fault_count(0), []
    rig.machine.hold_jobs()
    for ip, ring, dwords, bos, after in these:
        dep = after is not None and ffi.new(
            "struct drm_amdgpu_cs_chunk_dep *",
            [IP[made[after].ip], 0, made[after].ring, rig.gpu.ctx, made[after].seq],
        )
        chunks = [(lib.AMDGPU_CHUNK_ID_DEPENDENCIES, dep)] if dep else []
        made.append(rig.gpu.submit(ip, dwords, bos=bos, ring=ring, chunks=chunks))
    rig.machine.hold_jobs(hold=False)
    for job in made:
        with contextlib.suppress(OSError):
            rig.gpu.wait(job)
    return rig.machine.fault(0) if rig.machine.fault_count(0) != before else None


def copy(src, dst, nbytes=64):
    """SDMA."""
    return [1, nbytes - 1, 0, src.lo, src.hi, dst.lo, dst.hi]


@pytest.mark.parametrize("nop", [False, True])
def test_o3_copies_that_overlap(rig, x, out, nop):
    fault = rig.run(copy(x, out) + ([0] if nop else []) + copy(out, x), x, out, ip="dma")
    assert (fault is None) == nop
    assert nop or "a NOP between them must order the two" in fault.text


@pytest.mark.parametrize("ip", ["compute", "dma"])
@pytest.mark.parametrize("after", [None, 0])
def test_o4_two_queues_without_a_dependency(rig, x, out, ip, after):
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    look = copy(x, out) if ip == "dma" else acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    bos = [writer, reader, x, out]
    fault = jobs(rig, ("compute", 1, first + FLUSH, bos, None), (ip, 0, look, bos, after))
    if after is None:
        assert fault.kind == "order"
        assert "job 1 of context" in fault.text
        assert "compute 1" in fault.text
        assert "expected the second job to wait for the first" in fault.text
        assert x.va <= fault.va < x.va + 64
    else:
        assert fault is None
        assert out.words() == [NEW]


def test_o4_one_that_waits_for_one_that_waits(rig, x, out):
    """And two that only read."""
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    look = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    bos = [writer, reader, x, out]
    middle = ("compute", 2, [0xFFFF1000] * 8, bos, 0)
    chain = [("compute", 1, first + FLUSH, bos, None), middle, ("compute", 0, look, bos, 1)]
    assert jobs(rig, *chain) is None
    assert out.words() == [NEW]
    other = rig.buffer(4096)
    again = acquire(rig, *WAVES) + run(rig, reader, x.va, other.va)
    bos.append(other)
    assert jobs(rig, ("compute", 1, again, bos, None), ("compute", 0, look, bos, None)) is None


def test_o4_the_job_behind_one_that_waits(rig, x, out):
    """What a job has waited for has ended before the next one of its queue, too."""
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    look = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    bos = [writer, reader, x, out]
    waits = ("compute", 0, [0xFFFF1000] * 8, bos, 0)
    behind = ("compute", 0, look, bos, None)
    assert jobs(rig, ("compute", 1, first + FLUSH, bos, None), waits, behind) is None
    assert out.words() == [NEW]


def test_o4_a_word_that_a_queue_waits_for_orders_it(rig, x, out):
    """WAIT_REG_MEM on what the other queue's RELEASE_MEM writes."""
    mark = rig.buffer(4096, rights=UC)
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    bos = [writer, reader, x, out, mark]
    first += release(rig, mark.va, 1, "gl2_wb")
    look = await_word(mark, 1) + acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    assert jobs(rig, ("compute", 0, look, bos, None), ("compute", 1, first, bos, None)) is None
    assert out.words() == [NEW]


def test_o5_a_job_begins_while_waves_of_the_one_before_it_run(rig, x, out):
    """Of one queue; a wait at the end of the IB orders them, or one named by a dependency."""
    writer, first = says(rig, x.va)
    reader = code(rig, LOAD)
    look = acquire(rig, *WAVES) + run(rig, reader, x.va, out.va)
    bos = [writer, reader, x, out]

    def both(first, after=None):
        return jobs(rig, ("compute", 0, first, bos, None), ("compute", 0, look, bos, after))

    for dwords, after in [(first + FLUSH, None), (first, 0)]:
        x.write([OLD])
        assert both(dwords, after) is None
        assert out.words() == [NEW]
    fault = both(first)
    assert fault.kind == "order"
    assert fault.text.count("DISPATCH_DIRECT at 0x") == 2
    assert "expected CS_PARTIAL_FLUSH" in fault.text


def test_a_word_is_there_before_its_syncobj_is(open_rig):
    """With `delay_s` each comes at a time of its own: who has seen the word has seen no signal, and
    a signal comes after all effects of the job."""
    between = 0
    rig = open_rig("gfx1100", delay_s=0.01, seed=4)
    word, out = rig.buffer(4096, rights=UC), rig.buffer(4096)
    fence = ffi.new("struct drm_amdgpu_cs_chunk_fence *", [word.handle, 0])
    for value in range(1, 9):
        sync = Syncobj(rig.node)
        told = ffi.new("struct drm_amdgpu_cs_chunk_sem *", [sync.handle])
        chunks = [(lib.AMDGPU_CHUNK_ID_FENCE, fence), (lib.AMDGPU_CHUNK_ID_SYNCOBJ_OUT, told)]
        job = rig.gpu.submit("compute", store(out, value), bos=[out, word], chunks=chunks)
        assert until(lambda seq=job.seq: word.words() == [seq])
        assert out.words() == [value]
        try:
            sync.wait()
        except OSError:
            between += 1
        rig.gpu.wait(job)
        sync.wait()
        sync.destroy()
    assert between


def test_who_submits_after_the_word_comes_after_the_job(open_rig):
    """It was seen, so nothing is a race, though the syncobj has not signalled."""
    rig = open_rig("gfx1100", delay_s=0.01, seed=4)
    word, x = rig.buffer(4096, rights=UC), rig.buffer(4096)
    fence = ffi.new("struct drm_amdgpu_cs_chunk_fence *", [word.handle, 0])
    for value in range(1, 5):
        chunks = [(lib.AMDGPU_CHUNK_ID_FENCE, fence)]
        job = rig.gpu.submit("compute", store(x, value), bos=[x, word], chunks=chunks)
        assert until(lambda seq=job.seq: word.words() == [seq])
        rig.gpu.wait(rig.gpu.submit("compute", store(x, 0), bos=[x], ring=1))
    assert rig.machine.fault() is None


def test_a_clock_that_wakes_the_card_up(open_rig):
    """GFXOFF: the answer comes late, and its clock is of some moment in between."""
    rig = open_rig("gfx1100", delay_s=0.001, seed=1)
    khz = rig.node.info("DEV_INFO", "struct drm_amdgpu_info_device").gpu_counter_freq
    places = []
    for _ in range(20):
        before = time.monotonic_ns()
        clock = rig.node.info("TIMESTAMP", "uint64_t")
        after = time.monotonic_ns()
        now = clock * 1_000_000 / khz / (1 + 40e-6)
        places.append((now - before) / (after - before))
        assert after - before > 1000
    assert min(places) < 0.5 < max(places)
    assert all(-0.1 < place < 1.1 for place in places)
