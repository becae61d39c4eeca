"""Old bytes where an invalidation or a write-back is missing, new ones where it is there.

When this fails, a driver that forgets a cache flush passes on the emulator.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from cachekit import (
    CHIPS,
    EVERYTHING,
    LOAD,
    NEW,
    OLD,
    SCALAR_LOAD,
    SCALARS,
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
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

pytestmark = pytest.mark.parametrize("chip", CHIPS)


COHERENT, UNCACHED = lib.AMDGPU_GEM_CREATE_COHERENT, lib.AMDGPU_GEM_CREATE_UNCACHED


@pytest.fixture
def rig(open_rig, chip):
    """What is planted here between groups is a race, too (test_harsh_races.py)."""
    return open_rig(chip, lenient=["races"])


OTHER_CU = """
s_cmp_eq_u32 s4, 1
s_cbranch_scc1 writes
{invalidate}
v_mov_b32 v1, 0
{load}
s_waitcnt vmcnt(0)
s_lshl_b32 s4, s4, 2
v_mov_b32 v3, s4
global_store_dword v3, v2, s[2:3]
s_endpgm
writes:
v_mov_b32 v1, 0
v_mov_b32 v2, 0x2222
global_store_dword v1, v2, s[0:1]
s_endpgm
"""
PLAIN = "global_load_dword v2, v1, s[0:1]"


def over_groups(rig, x, out, load, invalidate=""):
    """What groups 0 and 4 load, which share a CU; group 1, in another array, stores between."""
    program = code(rig, OTHER_CU.format(load=load, invalidate=invalidate))
    assert rig.run(run(rig, program, x.va, out.va, groups=5), program, x, out) is None
    return out.words(0, 5)[::4]


@pytest.mark.parametrize(
    ("invalidate", "seen"),
    [
        *(("", OLD), ("buffer_gl0_inv", OLD), ("buffer_gl1_inv", OLD)),
        ("buffer_gl0_inv\nbuffer_gl1_inv", NEW),
    ],
)
def test_c1_a_store_of_another_cu(rig, x, out, invalidate, seen):
    assert over_groups(rig, x, out, PLAIN, invalidate) == [OLD, seen]


@pytest.mark.parametrize("bits", ["glc", "glc dlc"])
def test_c1_loads_past_l0_and_gl1(rig, x, out, bits):
    """gfx10 needs GLC and DLC for the device, gfx11 GLC."""
    seen = OLD if rig.gfx == 10 and bits == "glc" else NEW
    assert over_groups(rig, x, out, f"{PLAIN} {bits}") == [OLD, seen]


def test_c1_a_load_past_l0_evicts(rig, x, out):
    """A plain load after it sees no older bytes."""
    again = f"{PLAIN} glc dlc\ns_waitcnt vmcnt(0)\n{PLAIN}"
    assert over_groups(rig, x, out, again) == [OLD, NEW]


WGP = """
v_cmp_eq_u32 vcc_lo, 32, v0
v_mov_b32 v1, 0
global_load_dword v2, v1, s[0:1]
s_waitcnt vmcnt(0)
s_barrier
s_cbranch_vccz other
v_mov_b32 v2, 0x2222
global_store_dword v1, v2, s[0:1]
s_waitcnt_vscnt null, 0
s_barrier
s_endpgm
other:
s_barrier
{invalidate}
global_load_dword v2, v1, s[0:1] {bits}
s_waitcnt vmcnt(0)
global_store_dword v1, v2, s[2:3]
s_endpgm
"""


@pytest.mark.parametrize(
    ("wgp_mode", "invalidate", "bits", "seen"),
    [(1, "", "", OLD), (1, "buffer_gl0_inv", "", NEW), (1, "", "glc", NEW), (0, "", "", NEW)],
)
def test_c1_waves_of_a_group_on_two_cus(rig, x, out, wgp_mode, invalidate, bits, seen):
    """GL1 is one for both: a store changes what its array holds."""
    program = code(rig, WGP.format(invalidate=invalidate, bits=bits))
    dwords = run(rig, program, x.va, out.va, wgp_mode=wgp_mode, size=64)
    assert rig.run(dwords, program, x, out) is None
    assert out.words() == [seen]


@pytest.mark.parametrize("actions", [(), ("glv_inv",), ("gl1_inv",), SCALARS, WAVES])
def test_c2_the_next_dispatch(rig, x, out, actions):
    program = code(rig, LOAD)
    look = [run(rig, program, x.va, out.va + 4 * i) for i in range(2)]
    dwords = look[0] + store(x, NEW) + acquire(rig, *actions) + look[1]
    assert rig.run(dwords, program, x, out) is None
    assert out.words(0, 2) == [OLD, NEW if actions == WAVES else OLD]


@pytest.mark.parametrize("actions", [(), ("glk_inv",), WAVES, SCALARS])
def test_c3_scalar_loads(rig, x, out, actions):
    program = code(rig, SCALAR_LOAD)
    look = [run(rig, program, x.va, out.va + 4 * i) for i in range(2)]
    dwords = look[0] + store(x, NEW) + acquire(rig, *actions) + look[1]
    assert rig.run(dwords, program, x, out) is None
    assert out.words(0, 2) == [OLD, NEW if actions == SCALARS else OLD]


@pytest.mark.parametrize("domain", ["gtt", "vram"])
@pytest.mark.parametrize("actions", [(), (*WAVES, "gl2_wb"), ("gl2_inv",), (*WAVES, "gl2_inv")])
def test_c4_what_the_cpu_wrote(rig, out, actions, domain):
    x, program = rig.buffer(4096, domain=domain), code(rig, LOAD)
    x.write([OLD])
    assert rig.run(run(rig, program, x.va, out.va), program, x, out) is None
    x.write([NEW])
    dwords = acquire(rig, *actions) + run(rig, program, x.va, out.va)
    assert rig.run(dwords, program, x, out) is None
    assert out.words() == [NEW if actions == (*WAVES, "gl2_inv") else OLD]


@pytest.mark.parametrize("keep_caches", [True, False])
def test_what_an_ib_invalidates(open_rig, chip, keep_caches):
    """radeonsi, si_begin_new_gfx_cs: an IB begins with empty caches above GL2, but GL2 keeps what
    it has. Our own driver does not rely on it, so its tests keep the caches."""
    rig = open_rig(chip, keep_caches=keep_caches)
    x, out = rig.buffer(4096), rig.buffer(4096, rights=UC)
    x.write([OLD])
    loads = [code(rig, text) for text in (LOAD, SCALAR_LOAD)]
    look = [run(rig, program, x.va, out.va + 4 * i) for i, program in enumerate(loads)]
    assert rig.run(look[0] + look[1], *loads, x, out) is None
    assert rig.run(store(x, NEW), x) is None  # by the command processor, so GL2 has it
    assert rig.run(look[0] + look[1], *loads, x, out) is None
    assert out.words(0, 2) == [OLD if keep_caches else NEW] * 2
    x.write([OLD])
    assert rig.run(look[0] + look[1], *loads, x, out) is None
    assert out.words(0, 2) == [OLD if keep_caches else NEW] * 2


def seen_when_told(rig, x, flag, tell):
    """What the CPU sees of a dword that a job has stored, when the job has told it so (or, when it
    is not told, after a while); the job goes on meanwhile."""
    gate = rig.buffer(4096, rights=UC)
    dwords = store(x, NEW) + tell + await_word(gate, 1)
    job = rig.gpu.submit("compute", dwords, bos=[x, flag, gate])
    told = until(lambda: flag.words() == [1], 0.3)
    seen = x.words()[0]
    gate.write([1])
    rig.gpu.wait(job)
    assert x.words() == [NEW]  # the kernel's fence writes back
    assert flag.words() == [1]
    return told, seen


@pytest.mark.parametrize(("actions", "seen"), [((), OLD), (("gl2_wb",), NEW), (("gl2_inv",), NEW)])
def test_c5_the_cpu_reads_before_a_write_back(rig, x, actions, seen):
    flag = rig.buffer(4096)
    assert seen_when_told(rig, x, flag, release(rig, flag.va, 1, *actions)) == (True, seen)


@pytest.mark.parametrize(("dst", "policy", "told"), [(0, 0, True), (1, 0, False), (1, 3, True)])
def test_c11_a_fence_word_that_stays_in_gl2(rig, x, dst, policy, told):
    flag = rig.buffer(4096)
    tell = release(rig, flag.va, 1, "gl2_wb", dst=dst, policy=policy)
    assert seen_when_told(rig, x, flag, tell) == (told, NEW)


@pytest.mark.parametrize(
    ("rights", "flags"), [("rw", 0), (UC, 0), ("rw", COHERENT), ("rw", UNCACHED)]
)
def test_c7_a_word_that_the_cpu_writes_for_a_job(open_rig, chip, rights, flags):
    """It must be uncached, by the mapping's MTYPE or the BO's flags."""
    rig = open_rig(f"{chip}:kms-3.59", job_limit_s=0.5)
    flag, done = rig.buffer(4096, rights=rights, flags=flags), rig.buffer(4096, rights=UC)
    job = rig.gpu.submit("compute", [*store(done, 1), *await_word(flag, 1)], bos=[flag, done])
    assert until(lambda: done.words() == [1])
    assert not until(lambda: rig.gpu.done(job, 0), 0.05)
    flag.write([1])
    if (rights, flags) == ("rw", 0):
        with pytest.raises(OSError, match="WAIT_REG_MEM"):
            rig.gpu.wait(job)
    else:
        rig.gpu.wait(job)


@pytest.mark.parametrize("actions", [WAVES, EVERYTHING])
def test_c8_the_gl2_of_another_card(chip, actions):
    with (
        Machine([chip, "gfx1102"], job_limit_s=5) as machine,
        machine.open() as node,
        machine.open(1) as far,
        EmulatedGpu(node) as here,
        EmulatedGpu(far) as there,
    ):
        rig = SimpleNamespace(gfx=10 if chip == "gfx1036" else 11, buffer=here.buffer)
        x, out, program = here.buffer(4096), here.buffer(4096, rights=UC), code(rig, LOAD)
        fd = node.call("PRIME_HANDLE_TO_FD", "struct drm_prime_handle", handle=x.handle).fd
        handle = far.call("PRIME_FD_TO_HANDLE", "struct drm_prime_handle", fd=fd).handle
        theirs = there.adopt(handle, 4096)
        x.write([OLD])
        look = run(rig, program, x.va, out.va)
        here.wait(here.submit("compute", look, bos=[program, x, out]))
        there.wait(there.submit("compute", store(theirs, NEW), bos=[theirs]))
        assert x.words() == [NEW]
        here.wait(here.submit("compute", acquire(rig, *actions) + look, bos=[program, x, out]))
        assert out.words() == [NEW if actions == EVERYTHING else OLD]
        os.close(fd)


@pytest.mark.parametrize("actions", [(), WAVES])
def test_c8_what_sdma_wrote_is_in_gl2_but_not_above(rig, x, out, actions):
    """And SDMA reads what only GL2 has."""
    source, program = rig.buffer(4096), code(rig, LOAD)
    look = run(rig, program, x.va, out.va)
    assert rig.run(look, program, x, out) is None
    assert rig.run(store(source, NEW), source) is None
    source.write([OLD])  # GL2 holds NEW
    copy = [1, 3, 0, source.lo, source.hi, x.lo, x.hi]
    assert rig.run(copy, source, x, ip="dma", sync=False) is None
    assert x.words() == [NEW]
    assert rig.run(acquire(rig, *actions) + look, program, x, out) is None
    assert out.words() == [NEW if actions else OLD]


OWN = """
s_load_dword s4, s[0:1], 0
v_mov_b32 v1, 0
v_mov_b32 v2, 0x2222
s_waitcnt lgkmcnt(0)
global_store_dword v1, v2, s[0:1]
s_waitcnt_vscnt null, 0
{invalidate}
s_load_dword s5, s[0:1], 0
global_load_dword v4, v1, s[0:1]
s_waitcnt vmcnt(0) lgkmcnt(0)
v_mov_b32 v3, s5
global_store_dword v1, v3, s[2:3]
global_store_dword v1, v4, s[2:3] offset:4
s_endpgm
"""


@pytest.mark.parametrize(("invalidate", "seen"), [("", OLD), ("s_dcache_inv", NEW)])
def test_c10_a_scalar_load_of_ones_own_store(rig, x, out, invalidate, seen):
    """A vector load sees it in any case."""
    program = code(rig, OWN.format(invalidate=invalidate))
    assert rig.run(run(rig, program, x.va, out.va), program, x, out) is None
    assert out.words(0, 2) == [seen, NEW]
