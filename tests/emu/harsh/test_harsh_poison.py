"""Poison in caches: they hold it as any other dword, and a read finds it in what it was given.

When this fails, uninitialised data in a cache is taken for a value.
"""

from __future__ import annotations

import pytest
from cachekit import (
    CHIPS,
    EVERYTHING,
    LOAD,
    NEW,
    OLD,
    SCALARS,
    WAVES,
    acquire,
    code,
    run,
)

from sparkle_drv.lowlevel import pm4

pytestmark = pytest.mark.parametrize("chip", CHIPS)

COPY = """
v_mov_b32 v1, 0
global_load_dword v2, v1, s[0:1]
s_waitcnt vmcnt(0)
global_store_dword v1, v2, s[2:3] offset:4
s_endpgm
"""
ADD = """
v_mov_b32 v1, 0
global_load_dword v2, v1, s[0:1] {}
s_waitcnt vmcnt(0)
v_add_nc_u32 v2, 1, v2
v_cmp_eq_u32 vcc_lo, v2, v2
global_store_dword v1, v2, s[2:3]
s_endpgm
"""
SCALAR_ADD = """
s_load_dword s4, s[0:1], 0
s_waitcnt lgkmcnt(0)
s_add_u32 s4, s4, 1
v_mov_b32 v1, 0
v_add_nc_u32 v2, s4, v1
v_cmp_eq_u32 vcc_lo, v2, v2
global_store_dword v1, v2, s[2:3]
s_endpgm
"""
ATOMIC = """
v_mov_b32 v1, 0
global_atomic_add v1, v1, s[0:1]
s_endpgm
"""


@pytest.fixture
def new(rig):
    """A page of VRAM that nobody has written."""
    made = rig.gpu.create(4096, "vram")
    made.va = rig.gpu.take_va(4096)
    rig.gpu.va("MAP", made, made.va, made.nbytes)
    return made


def is_poison(fault, at):
    """The fault is a use of poison that was loaded from `at`, or of that memory itself."""
    assert fault is not None
    assert fault.kind == "uninitialised", fault
    assert f"0x{at:x}" in fault.text, fault
    assert "never written" in fault.text, fault


@pytest.mark.parametrize(
    "text", [ADD.format(""), ADD.format("glc"), ADD.format("glc dlc"), SCALAR_ADD, ATOMIC]
)
def test_poison_that_only_gl2_has(rig, new, out, text):
    """Its page was no poison, and memory has not got it yet: the mark is made at the store."""
    copy, use, x = code(rig, COPY), code(rig, text), rig.buffer(4096, domain="vram")
    dwords = run(rig, copy, new.va, x.va) + acquire(rig, *WAVES, *SCALARS)
    dwords += run(rig, use, x.va + 4, out.va)
    is_poison(rig.run(dwords, copy, use, new, x, out), x.va + 4)


@pytest.mark.parametrize("actions", [(), SCALARS])
def test_a_cache_from_before_a_store_of_poison(rig, new, out, actions):
    """The scalar cache still has what was defined, until it is invalidated."""
    copy, use, x = code(rig, COPY), code(rig, SCALAR_ADD), rig.buffer(4096, domain="vram")
    x.write([0, OLD])
    look = run(rig, use, x.va + 4, out.va)
    dwords = look + run(rig, copy, new.va, x.va) + acquire(rig, *actions) + look
    fault = rig.run(dwords, copy, use, new, x, out)
    if actions:
        is_poison(fault, x.va + 4)
    else:
        assert fault is None
        assert out.words() == [OLD + 1]


@pytest.mark.parametrize("actions", [WAVES, EVERYTHING])
def test_a_cache_from_before_what_the_cpu_wrote(rig, new, out, actions):
    """It still has poison, until GL2 is invalidated."""
    first, use = code(rig, LOAD), code(rig, ADD.format(""))
    assert rig.run(run(rig, first, new.va, out.va), first, new, out) is None
    new.write([NEW])
    dwords = acquire(rig, *actions) + run(rig, use, new.va, out.va)
    fault = rig.run(dwords, use, new, out)
    if actions == WAVES:  # what is wrong is not that nobody wrote it
        assert fault is not None
        assert fault.kind == "uninitialised", fault
        old = f"loaded from 0x{new.va:x}: GL2 holds it as it was before it was written"
        assert f"{old}: expected GL2_INV" in fault.text
    else:
        assert fault is None
        assert out.words() == [NEW + 1]


def test_packets_that_the_cpu_wrote_over_poison_in_gl2(rig, new, out):
    """They are read from memory."""
    first = code(rig, LOAD)
    assert rig.run(run(rig, first, new.va, out.va), first, new, out) is None
    new.write([0xC0033700, 0x00100500, out.lo, out.hi, NEW, *[0xFFFF1000] * 3])
    jump = pm4.IndirectBuffer.encode(gfx=rig.gfx, addr=new.va, control={"ndw": 8, "valid": 1})
    assert rig.run(jump, new, out) is None
    assert out.words() == [NEW]


def test_sdma_copies_it_past_gl2(rig, new, out):
    """What GL2 held of the target is poison, too."""
    first, use = code(rig, LOAD), code(rig, ADD.format(""))
    x = rig.buffer(4096, domain="vram")
    assert rig.run(run(rig, first, x.va, out.va), first, x, out) is None
    copy = [1, 3, 0, new.lo, new.hi, x.lo, x.hi]
    assert rig.run(copy, new, x, ip="dma", sync=False) is None
    dwords = acquire(rig, *WAVES) + run(rig, use, x.va, out.va)
    is_poison(rig.run(dwords, use, x, out), x.va)


@pytest.mark.parametrize("ip", ["compute", "dma"])
def test_an_ib_that_nobody_has_written(rig, new, ip):
    with pytest.raises(OSError, match=f"the memory at {new.va:#x} was never written"):
        rig.gpu.wait(rig.gpu.submit_ib(ip, new, 8))
