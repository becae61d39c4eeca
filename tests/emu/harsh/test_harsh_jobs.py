"""Caches from job to job: stale code, EMIT_MEM_SYNC, and what no cache may lose.

When this fails, a driver that forgets caches between jobs passes on the emulator.
"""

from __future__ import annotations

import pytest
from cachekit import (
    CHIPS,
    EVERYTHING,
    LOAD,
    NEW,
    OLD,
    SAYS,
    UC,
    WAVES,
    acquire,
    code,
    release,
    run,
    until,
)
from ioctls import await_word, store

from sparkle_drv.amd.kmd.raw import lib
from sparkle_drv.lowlevel import isa

pytestmark = pytest.mark.parametrize("chip", CHIPS)
SYNC = lib.AMDGPU_IB_FLAG_EMIT_MEM_SYNC


@pytest.mark.parametrize(
    ("actions", "lacks"),
    [
        ((), "GL2 holds 0x00001111, memory 0x00002222: expected GL2_INV"),
        (("gli_inv",), "GL2 holds 0x00001111, memory 0x00002222: expected GL2_INV"),
        (
            ("gl2_inv",),
            "the instruction cache holds 0x00001111, memory 0x00002222: expected GLI_INV",
        ),
        (("gli_inv", "gl2_inv"), ""),
    ],
)
def test_c6_code_that_was_written_over(rig, out, actions, lacks):
    """By the CPU. Old code is never run."""
    program = code(rig, SAYS.format(value=hex(OLD)))
    look = run(rig, program, out.va)
    assert rig.run(look, program, out) is None
    assert out.words() == [OLD]
    out.write([0])
    program.write(isa.assemble(SAYS.format(value=hex(NEW)), rig.gfx))
    fault = rig.run(acquire(rig, *actions) + look, program, out)
    if lacks:
        assert fault.kind == "stale"
        assert lacks in fault.text
        assert program.va < fault.va < program.va + 4096
        assert out.words() == [0]
    else:
        assert fault is None
        assert out.words() == [NEW]


@pytest.mark.parametrize("actions", [("gl2_inv",), ("gli_inv",)])
def test_c6_code_that_the_card_wrote_over(rig, out, actions):
    """What a packet wrote is in GL2: GLI_INV is all it needs."""
    program = code(rig, SAYS.format(value=hex(OLD)))
    old, new = (isa.assemble(SAYS.format(value=hex(value)), rig.gfx) for value in (OLD, NEW))
    look = run(rig, program, out.va)
    patch = [
        dword
        for i, word in enumerate(new)
        if word != old[i]
        for dword in store(program, word, 4 * i)
    ]
    rig.gpu.va("REPLACE", program, program.va, program.nbytes, rights="rwx")
    fault = rig.run(look + patch + acquire(rig, *actions) + look, program, out)
    assert (fault.kind if fault else "") == ("" if actions == ("gli_inv",) else "stale")
    assert out.words() == [OLD if fault else NEW]


def two_jobs(rig, x, out, second, flags, *, queued):
    """What a second job of the same queue loads, after one that has loaded x and changed it."""
    program = code(rig, LOAD)
    look = run(rig, program, x.va, out.va)
    machine, bos = rig.machine, [program, x, out]
    if queued:
        machine.hold_jobs()
    first = rig.gpu.submit("compute", look + store(x, NEW), bos=bos)
    if not queued:
        rig.gpu.wait(first)
    last = rig.gpu.submit("compute", [*second, *look], bos=bos, flags=flags)
    if queued:
        machine.hold_jobs(hold=False)
    rig.gpu.wait(last)
    return out.words()[0]


@pytest.mark.parametrize(
    ("flags", "queued", "seen"),
    [(0, False, OLD), (SYNC, False, NEW), (SYNC, True, OLD), (0, True, OLD)],
)
def test_c9_mem_sync_comes_before_the_earlier_job_has_ended(rig, x, out, flags, queued, seen):
    assert two_jobs(rig, x, out, [], flags, queued=queued) == seen


def test_c9_a_packet_of_the_job_itself_comes_in_time(rig, x, out):
    assert two_jobs(rig, x, out, acquire(rig, *WAVES), 0, queued=True) == NEW


@pytest.mark.parametrize(
    ("kms", "sync", "seen"), [("3.54", True, NEW), ("3.54", False, OLD), ("3.41", True, OLD)]
)
def test_sdma_reads_what_gl2_holds(open_rig, chip, kms, sync, seen):
    """Unless EMIT_MEM_SYNC comes before it, which SDMA rings obey since KMS 3.42."""
    rig = open_rig(f"{chip}:kms-{kms}")
    x, y, out, program = *(rig.buffer(4096) for _ in range(3)), code(rig, LOAD)
    x.write([OLD])
    assert rig.run(run(rig, program, x.va, out.va), program, x, out) is None
    x.write([NEW])
    copy = [1, 3, 0, x.lo, x.hi, y.lo, y.hi]
    assert rig.run(copy, x, y, ip="dma", sync=sync) is None
    assert y.words() == [seen]


def test_stores_of_two_queues_into_one_page_are_all_kept(rig):
    """While each writes back and fetches again what the other is writing beside it."""
    count, shared = 300, rig.buffer(4096)
    jobs = []
    for ring in range(2):
        dwords = []
        for i in range(count):
            dwords += store(shared, 2 * i + ring + 1, 4 * (2 * i + ring))
            dwords += acquire(rig, *EVERYTHING)
        jobs.append(rig.gpu.submit("compute", dwords, bos=[shared], ring=ring))
    for job in jobs:
        rig.gpu.wait(job)
    assert shared.words(0, 2 * count) == list(range(1, 2 * count + 1))


def test_a_reset_keeps_what_a_job_that_goes_on_has_stored(rig, x):
    gate, begun = (rig.buffer(4096, rights=UC) for _ in range(2))
    dwords = store(x, NEW) + store(begun, 1) + await_word(gate, 1)
    job = rig.gpu.submit("compute", dwords, bos=[x, gate, begun])
    assert until(lambda: begun.words() == [1])
    rig.machine.reset()
    gate.write([1])
    rig.gpu.wait(job)
    assert x.words() == [NEW]


@pytest.mark.parametrize("nbytes", [1, 2, 4])
def test_a_write_back_leaves_the_bytes_beside(rig, x, nbytes):
    """The CPU's, written since GL2 has fetched the page, in the same dword."""
    kind = {1: "byte", 2: "short", 4: "dword"}[nbytes]
    program = code(rig, SAYS.replace("_dword", f"_{kind}").format(value=hex(NEW)))
    assert rig.run(run(rig, program, x.va), program, x) is None
    x.write([0xAAAAAAAA, 0xBBBBBBBB])
    assert rig.run(run(rig, program, x.va), program, x) is None
    mask = (1 << 8 * nbytes) - 1
    assert x.words(0, 2) == [(0xAAAAAAAA & ~mask) | (NEW & mask), 0xBBBBBBBB]


def test_an_ib_that_is_written_again_is_read_anew(rig, x):
    """Before the acquire in it: what its memory held when packets were last read does not count."""
    ib = rig.buffer(4096)
    for value in (OLD, NEW):
        dwords = store(x, value) + store(ib, value, 2048)
        ib.write(dwords)
        rig.gpu.wait(rig.gpu.submit_ib("compute", ib, len(dwords), bos=[x]))
        assert x.words() == [value]


def test_lenient_about_caches(open_rig, chip):
    rig = open_rig(chip, lenient=["caches"])
    x, out = rig.buffer(4096), rig.buffer(4096)
    x.write([OLD])
    assert two_jobs(rig, x, out, [], 0, queued=False) == NEW
    assert not any(rig.machine.caches().values())


def test_what_is_counted(rig, x, out):
    program = code(rig, LOAD)
    before = rig.machine.caches()
    dwords = acquire(rig, *EVERYTHING) + run(rig, program, x.va, out.va) + store(x, NEW)
    assert rig.run(dwords + release(rig, x.va + 64, 1, "gl2_wb"), program, x, out) is None
    now = rig.machine.caches()
    more = {name: now[name] - before[name] for name in now}
    assert more["fetched"] >= 3 * 1024  # the IB, the code, x
    assert more["fetched_remote"] == (more["fetched"] if rig.gfx == 11 else 0)  # gfx1036 is an APU
    assert more["written_back"] == 4
    kinds = ("gli", "glk", "glv", "gl1", "gl2", "flushes", "write_backs")
    assert [more[name] for name in kinds] == [0, 1, 1, 1, 1, 2, 1]


@pytest.mark.parametrize("domain", ["vram", "gtt"])
def test_c12_a_job_that_polls_what_the_cpu_stores_through_the_bar(rig, chip, domain):
    """The HDP may keep that store until the next submission flushes it: on a card, not an APU."""
    flag = rig.buffer(4096, domain=domain, rights=UC)
    flag.write([OLD])
    job = rig.gpu.submit("compute", await_word(flag, NEW), bos=[flag])
    with pytest.raises(TimeoutError):
        rig.gpu.wait(job, 0.02)
    flag.write([NEW])
    if (chip, domain) != ("gfx1100", "vram"):
        rig.gpu.wait(job)
        return
    with pytest.raises(OSError, match="last fault"):
        rig.gpu.wait(job)
    fault = rig.gpu.node.machine.fault()
    assert fault.kind == "stale"
    said = f"the CPU wrote VRAM at 0x{flag.va:x} after this job was submitted: expected"
    assert said in fault.text


def test_c12_a_wait_that_gl2_lets_run_out_of_time(open_rig, chip):
    """The word is in cached memory, where GL2 has it from the first look on."""
    rig = open_rig(chip, job_limit_s=0.3)
    flag = rig.buffer(4096)
    flag.write([OLD])
    job = rig.gpu.submit("compute", await_word(flag, NEW), bos=[flag])
    with pytest.raises(TimeoutError):
        rig.gpu.wait(job, 0.02)
    flag.write([NEW])
    held = f"GL2 holds {flag.va:#x} as {OLD:#010x}, memory {NEW:#010x}: expected GL2_INV"
    with pytest.raises(OSError, match=f"the job's time is over; {held}"):
        rig.gpu.wait(job)


def test_c12_a_job_that_polls_what_another_ring_stores(rig):
    """What the card writes itself it sees."""
    flag = rig.buffer(4096, domain="vram", rights=UC)
    flag.write([OLD])
    job = rig.gpu.submit("compute", await_word(flag, NEW), bos=[flag])
    fence = [5 | 3 << 16, flag.lo, flag.hi, NEW]
    rig.gpu.wait(rig.gpu.submit("dma", fence, bos=[flag]))
    rig.gpu.wait(job)
