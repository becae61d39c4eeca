"""Poison: what nobody has written, and registers before the wait for their load. It may be copied
and stored, but not decide. Each fault names instruction, pc, register, and whence the poison came.

When this fails, a kernel that uses an unwritten register passes on the emulator.

A program finds its output at s[0:1] and memory that was written at s[2:3]. Unwritten VRAM is at
s[4:5], and v1 has 4 times its number. `>` stands before the line that is the fault.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from sparkle_drv._native import lib
from wavekit import GFX, float_mode

from sparkle_drv.amd.isa.assembly import assemble
from sparkle_drv.lowlevel import pm4
from sparkle_drv.testing.emulated_dispatch import launch
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

PAGE, LANES = 4096, 32
POISON = 0xFFAB5EED  # SP_POISON of native/emu/memory/vm.h
WAVE_NBYTES = 2048  # 64 bytes a lane
UNWRITTEN = r"0x\w+ that was never written"


def fresh(gpu, nbytes=PAGE):
    """VRAM that nobody has written: without the flag that has it cleared."""
    made = gpu.create(nbytes, "vram")
    made.va = gpu.take_va(nbytes)
    gpu.va("MAP", made, made.va, nbytes)
    return made


def prologue(chip, text):
    """Has FLAT_SCRATCH lead to the wave's slot, where `text` uses it: on gfx10 that is its work."""
    if GFX[chip] == 11 or "scratch" not in text:
        return ""
    return (
        "s_add_u32 s12, s6, s8\ns_addc_u32 s13, s7, 0\n"
        "s_setreg_b32 hwreg(HW_REG_FLAT_SCR_LO), s12\ns_setreg_b32 hwreg(HW_REG_FLAT_SCR_HI), s13\n"
    )


class Bench:
    """The buffers of these programs on one card."""

    def __init__(self, chip, gpu):
        self.chip, self.gpu = chip, gpu
        self.out, self.source = gpu.buffer(PAGE), gpu.buffer(PAGE, domain="vram")
        self.code = gpu.buffer(PAGE, rights="rx")
        self.new, self.scratch = fresh(gpu), gpu.buffer(6 * WAVE_NBYTES)
        self.buffers = [self.out, self.source, self.code, self.new, self.scratch]
        self.pc = 0

    def close(self):
        for buffer in self.buffers:
            buffer.close()

    def run(self, text):
        lines = (prologue(self.chip, text) + "v_lshlrev_b32 v1, 2, v0\n" + text).splitlines()
        words = []
        for line in map(str.strip, lines):
            if line.startswith(">"):
                self.pc = self.code.va + 4 * len(words)
            words += assemble(line.lstrip("> "), self.chip) if line else []
        self.code.write(words + assemble("s_endpgm", self.chip))
        level = GFX[self.chip]
        given = [self.out, self.source, self.new, self.scratch]
        caches = dict.fromkeys(("gli_inv", "glk_inv", "glv_inv", "gl1_inv", "gl2_inv"), 1)
        ib = pm4.AcquireMem.encode(gfx=level, gcr=caches) + launch(  # where other code was before
            level,
            code=self.code.va,
            rsrc1=3 | float_mode(),
            rsrc2=1 | 8 << 1 | 1 << 15,  # scratch, eight scalars, 512 bytes of LDS
            user=[half for buffer in given for half in (buffer.lo, buffer.hi)],
            size=(LANES, 1, 1),
            tmpring=1 | WAVE_NBYTES // (1024 if level == 10 else 256) << 12,
            scratch=self.scratch.va,
        )
        self.gpu.wait(self.gpu.submit("compute", ib, bos=self.buffers))

    def fails(self, text, said):
        with pytest.raises(OSError, match="last fault"):
            self.run(text)
        fault = self.gpu.node.machine.fault()
        assert (fault.kind, fault.pc) == ("uninitialised", self.pc), fault
        assert re.fullmatch(said, fault.text), fault.text


@pytest.fixture
def bench(card):
    made = Bench(*card)
    yield made
    made.close()


LOADED = "global_load_b32 v2, v1, s[4:5]\ns_waitcnt vmcnt(0)\n"
SCALAR = "s_load_b32 s20, s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\n"
FROM_MEMORY = rf"which global_load_b32 at pc 0x\w+ loaded from memory {UNWRITTEN}"
FROM_SCALAR = rf"which s_load_b32 at pc 0x\w+ loaded from memory {UNWRITTEN}"
FROM_LDS = r"which ds_load_b32 at pc 0x\w+ loaded from LDS 0x40 that was never written"
FROM_SCRATCH = r"which scratch_load_b32 at pc 0x\w+ loaded from scratch 0x4 that was never written"

FAULTS = {
    "no wait for a load from memory": (
        "global_load_b32 v2, v1, s[2:3]\n> v_add_nc_u32 v3, v2, v1",
        "v_add_nc_u32 reads v2 before the s_waitcnt of its load",
    ),
    "a wait for one load of two": (
        "global_load_b32 v2, v1, s[2:3]\nglobal_load_b32 v3, v1, s[2:3]\ns_waitcnt vmcnt(1)\n"
        "v_add_nc_u32 v2, v2, v1\n> v_add_nc_u32 v3, v3, v1",
        "v_add_nc_u32 reads v3 before the s_waitcnt of its load",
    ),
    "no wait for a scalar load": (
        "s_load_b32 s20, s[2:3], 0x0\n> s_add_u32 s21, s20, 1",
        "s_add_u32 reads s20 before the s_waitcnt of its load",
    ),
    "no wait for LDS": (
        "ds_store_b32 v1, v1\nds_load_b32 v2, v1\n> v_add_nc_u32 v3, v2, v1",
        "v_add_nc_u32 reads v2 before the s_waitcnt of its load",
    ),
    "a result that a load will overwrite": (
        "global_load_b32 v2, v1, s[2:3]\n> v_mov_b32 v2, 1",
        "v_mov_b32 writes v2 before the s_waitcnt of its load",
    ),
    "a store of what has not arrived": (
        "global_load_b32 v2, v1, s[2:3]\n> global_store_b32 v1, v2, s[0:1]",
        "global_store_b32 reads v2 before the s_waitcnt of its load",
    ),
    "an SGPR": (
        "> v_cmp_eq_u32 vcc_lo, s25, v1",
        "v_cmp_eq_u32 reads s25, which was never written",
    ),
    "a VGPR": (
        "> v_cmp_eq_u32 vcc_lo, v7, v1",
        "v_cmp_eq_u32 reads v7, which was never written",
    ),
    "LDS": (
        "ds_load_b32 v2, v1 offset:64\ns_waitcnt lgkmcnt(0)\n> v_cmp_eq_u32 vcc_lo, v2, v1",
        f"v_cmp_eq_u32 reads v2, {FROM_LDS}",
    ),
    "one of two words of LDS": (
        "ds_store_b32 v1, v1\nds_load_2addr_b32 v[2:3], v1 offset0:0 offset1:64\n"
        "s_waitcnt lgkmcnt(0)\nv_add_nc_u32 v4, v2, v1\n> v_cmp_eq_u32 vcc_lo, v3, v1",
        rf"v_cmp_eq_u32 reads v3, which ds_load_2addr_b32 at pc 0x\w+ loaded from LDS {UNWRITTEN}",
    ),
    "an atomic on LDS": (
        "> ds_add_u32 v1, v1",
        "ds_add_u32 reads LDS 0x0, which was never written",
    ),
    "scratch": (
        "scratch_load_b32 v2, off, off offset:4\ns_waitcnt vmcnt(0)\n> v_cmp_eq_u32 vcc_lo, v2, v1",
        f"v_cmp_eq_u32 reads v2, {FROM_SCRATCH}",
    ),
    "VRAM": (f"{LOADED}> v_cmp_eq_u32 vcc_lo, v2, v1", f"v_cmp_eq_u32 reads v2, {FROM_MEMORY}"),
    "a halfword of VRAM": (
        "global_load_u16 v2, v1, s[4:5] offset:2\ns_waitcnt vmcnt(0)\n"
        "> v_cmp_eq_u32 vcc_lo, v2, v1",
        rf"v_cmp_eq_u32 reads v2, which global_load_u16 at pc 0x\w+ loaded from memory {UNWRITTEN}",
    ),
    "an address": (
        f"{LOADED}> global_load_b32 v3, v2, s[2:3]",
        f"global_load_b32 reads v2, {FROM_MEMORY}",
    ),
    "a scalar address": (
        f"{SCALAR}s_mov_b32 s21, 0\n> s_load_b32 s22, s[20:21], 0x0",
        f"s_load_b32 reads s20, {FROM_SCALAR}",
    ),
    "an address in LDS": (
        f"{LOADED}> ds_store_b32 v2, v1",
        f"ds_store_b32 reads v2, {FROM_MEMORY}",
    ),
    "a compare": (
        f"{LOADED}> v_cmp_eq_u32 vcc_lo, v2, v1",
        f"v_cmp_eq_u32 reads v2, {FROM_MEMORY}",
    ),
    "a scalar compare": (
        f"{SCALAR}> s_cmp_eq_u32 s20, 0",
        f"s_cmp_eq_u32 reads s20, {FROM_SCALAR}",
    ),
    "a branch on SCC": (
        f"{SCALAR}s_add_u32 s21, s20, s20\n> s_cbranch_scc1 0",
        "s_cbranch_scc1 reads scc, which no defined value has set",
    ),
    "a branch on SCC that nobody has set": (
        "> s_cbranch_scc0 0",
        "s_cbranch_scc0 reads scc, which no defined value has set",
    ),
    "a branch on VCC": (
        f"{SCALAR}s_mov_b32 vcc_lo, s20\n> s_cbranch_vccnz 0",
        f"s_cbranch_vccnz reads vcc_lo, {FROM_SCALAR}",
    ),
    "a jump": (
        f"{SCALAR}s_mov_b32 s21, 0\n> s_setpc_b64 s[20:21]",
        f"s_setpc_b64 reads s20, {FROM_SCALAR}",
    ),
    "EXEC": (
        f"{SCALAR}> s_mov_b32 exec_lo, s20",
        f"s_mov_b32 reads s20, {FROM_SCALAR}",
    ),
    "EXEC from lanes": (
        f"{LOADED}> v_readfirstlane_b32 exec_lo, v2",
        f"v_readfirstlane_b32 reads v2, {FROM_MEMORY}",
    ),
    "EXEC, joined with a mask": (
        "s_mov_b32 exec_lo, 0x0f\n> s_or_b32 exec_lo, exec_lo, s25",
        "s_or_b32 reads s25, which was never written",
    ),
    "EXEC, without a mask": (
        "> s_and_not1_b32 exec_lo, exec_lo, s25",
        "s_and_not1_b32 reads s25, which was never written",
    ),
    "a choice by SCC": (
        f"{SCALAR}s_sub_u32 s21, 1, s20\ns_cselect_b32 s22, 1, 2\n> s_cmp_eq_u32 s22, 1",
        r"s_cmp_eq_u32 reads s22, which s_cselect_b32 at pc 0x\w+ computed from scc "
        "that was never written",
    ),
    "an atomic on memory": (
        "> global_atomic_add_u32 v1, v1, s[4:5]",
        r"global_atomic_add_u32 works on memory at 0x\w+, which was never written",
    ),
    "a copy of a copy": (
        f"{LOADED}v_mov_b32 v3, v2\nv_readfirstlane_b32 s20, v3\ns_mov_b32 s21, s20\n"
        "> s_cmp_eq_u32 s21, 0",
        f"s_cmp_eq_u32 reads s21, {FROM_MEMORY}",
    ),
    "through LDS": (
        f"{LOADED}ds_store_b32 v1, v2 offset:64\nds_load_b32 v3, v1 offset:64\n"
        "s_waitcnt lgkmcnt(0)\n> v_cmp_eq_u32 vcc_lo, v3, v1",
        f"v_cmp_eq_u32 reads v3, {FROM_LDS}",
    ),
    "through scratch": (
        f"{LOADED}scratch_store_b32 off, v2, off offset:4\n"
        "scratch_load_b32 v3, off, off offset:4\ns_waitcnt vmcnt(0)\n> v_cmp_eq_u32 vcc_lo, v3, v1",
        f"v_cmp_eq_u32 reads v3, {FROM_SCRATCH}",
    ),
    "through memory": (
        f"{LOADED}global_store_b32 v1, v2, s[0:1]\nglobal_load_b32 v3, v1, s[0:1]\n"
        "s_waitcnt vmcnt(0)\n> v_cmp_eq_u32 vcc_lo, v3, v1",
        f"v_cmp_eq_u32 reads v3, {FROM_MEMORY}",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_fault(bench, what):
    bench.fails(*FAULTS[what])


def test_poison_in_one_lane_is_found_among_others(bench):
    """What was never written in some lanes may be a merge; what was loaded somebody wanted."""
    bench.new.write([7] * (LANES - 1))
    bench.fails(f"{LOADED}> v_cmp_eq_u32 vcc_lo, v2, v1", f"v_cmp_eq_u32 reads v2, {FROM_MEMORY}")


def test_scratch_by_a_descriptor():
    """As clang for gfx10.3 and RADV reach it."""
    rsrc = "s_add_u32 s16, s6, s8\ns_addc_u32 s17, s7, 0x80000000\ns_mov_b32 s18, -1\n"
    rsrc += "s_mov_b32 s19, 0x21c14fac\nbuffer_store_b32 v1, off, s[16:19], 0 offset:8\n"
    load = "buffer_load_b32 v2, off, s[16:19], 0 offset:{}\ns_waitcnt vmcnt(0)\n"
    add = "v_add_nc_u32 v3, v2, v1\n"
    with Machine(["gfx1036"]) as machine, machine.open() as node:
        bench = Bench("gfx1036", EmulatedGpu(node))
        bench.run(f"{rsrc}{load.format(8)}{add}global_store_b32 v1, v3, s[0:1]")
        np.testing.assert_array_equal(bench.out.words(0, LANES), 8 * np.arange(LANES))
        why = rf"which buffer_load_b32 at pc 0x\w+ loaded from scratch {UNWRITTEN}"
        compare = "v_cmp_eq_u32 vcc_lo, v3, v1"
        bench.fails(f"{rsrc}{load.format(4)}{add}> {compare}", f"v_cmp_eq_u32 reads v3, {why}")


@pytest.mark.parametrize(
    "text",
    [
        f"{LOADED}v_mov_b32 v3, v2\nglobal_store_b32 v1, v3, s[0:1]",
        f"{SCALAR}v_mov_b32 v3, s20\nglobal_store_b32 v1, v3, s[0:1]",
        f"{LOADED}v_readfirstlane_b32 s20, v2\nv_mov_b32 v3, s20\nglobal_store_b32 v1, v3, s[0:1]",
        "ds_load_b32 v3, v1\ns_waitcnt lgkmcnt(0)\nglobal_store_b32 v1, v3, s[0:1]",
        "scratch_load_b32 v3, off, off\ns_waitcnt vmcnt(0)\nglobal_store_b32 v1, v3, s[0:1]",
        "global_store_b32 v1, v7, s[0:1]",
    ],
)
def test_poison_may_be_copied_and_stored(bench, text):
    bench.run(text)
    assert set(bench.out.words(0, LANES)) == {POISON}


@pytest.mark.parametrize(
    "merge", ["s_or_b32 s20, s25, exec_lo", "s_and_not1_b32 s20, s25, exec_lo"]
)
def test_lanes_of_a_mask_may_be_merged_one_by_one(bench, merge):
    """LLVM's loops begin with a mask that nobody wrote; through scratch, too, at -O0."""
    bench.run(
        f"s_mov_b32 exec_lo, 0x0f\n{merge}\nv_writelane_b32 v2, s25, 1\n"
        "v_writelane_b32 v2, s20, 2\ns_mov_b32 exec_lo, -1\n"
        "scratch_store_b32 off, v2, off\nscratch_load_b32 v2, off, off\n"
        "s_waitcnt vmcnt(0)\nv_readlane_b32 s21, v2, 2\ns_mov_b32 exec_lo, 0x0f\n"
        "s_and_b32 s21, s21, exec_lo\nv_mov_b32 v3, s21\nglobal_store_b32 v1, v3, s[0:1]"
    )
    assert set(bench.out.words(0, 4)) == {0x0F if "or" in merge else 0}


def test_a_register_that_nobody_has_written_may_be_spilled(bench):
    """Compilers compute with what comes back, and use no bit of it."""
    bench.run(
        "scratch_store_b64 off, v[1:2], off\nscratch_load_b64 v[3:4], off, off\n"
        "s_waitcnt vmcnt(0)\nv_lshlrev_b64 v[5:6], 2, v[3:4]\nv_or_b32 v6, v6, v4\n"
        "global_store_b32 v1, v5, s[0:1]"
    )
    np.testing.assert_array_equal(bench.out.words(0, LANES), 16 * np.arange(LANES))


def test_words_beside_poison_are_what_they_were(bench):
    """Of a wide load, those that the CPU or a store has written count."""
    bench.new.write([5, 6], 1)
    bench.run(
        "s_load_b128 s[20:23], s[4:5], 0x0\ns_waitcnt lgkmcnt(0)\ns_add_u32 s24, s21, s22\n"
        "v_mov_b32 v2, s24\nglobal_store_b32 v1, v2, s[4:5] offset:256\n"
        "global_load_b32 v3, v1, s[4:5] offset:256\ns_waitcnt vmcnt(0)\n"
        "v_add_nc_u32 v3, v3, v1\nglobal_store_b32 v1, v3, s[0:1]"
    )
    np.testing.assert_array_equal(bench.out.words(0, LANES), 11 + 4 * np.arange(LANES))


def test_a_value_that_looks_like_poison_is_none(bench):
    bench.source.write([POISON] * LANES)
    bench.run(
        "global_load_b32 v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\nv_add_nc_u32 v3, 1, v2\n"
        "global_store_b32 v1, v3, s[0:1]"
    )
    assert set(bench.out.words(0, LANES)) == {POISON + 1}


def test_copies_of_poison_are_poison(bench):
    """By SDMA, from VRAM to where a program looks."""
    src, dst = bench.new, bench.source
    copy = [1, LANES * 4 - 1, 0, src.lo, src.hi, dst.lo, dst.hi]
    bench.gpu.wait(bench.gpu.submit("dma", copy, bos=bench.buffers))
    bench.fails(
        "global_load_b32 v2, v1, s[2:3]\ns_waitcnt vmcnt(0)\n> v_cmp_eq_u32 vcc_lo, v2, v1",
        f"v_cmp_eq_u32 reads v2, {FROM_MEMORY}",
    )


@pytest.mark.parametrize(
    ("kms_minor", "flags", "word"),
    [
        (54, 0, POISON),
        (54, lib.AMDGPU_GEM_CREATE_VRAM_CLEARED, 0),
        (58, 0, POISON),
        (59, 0, 0),
    ],
)
def test_new_vram_is_what_its_kernel_leaves_there(kms_minor, flags, word):
    """Linux clears all of it from 6.11 on, before that what asks for it."""
    with Machine(["gfx1100"], kms_minor=kms_minor) as machine, machine.open() as node:
        gpu = EmulatedGpu(node)
        for domain, expected in (("vram", word), ("gtt", 0)):
            made = gpu.create(3 * PAGE, domain, flags)
            assert set(made.words(0, 3 * PAGE // 4)) == {expected}
            made.close()
        gpu.close()


def test_a_lenient_machine_reads_zeros():
    with Machine(["gfx1100"], lenient=["uninitialised"]) as machine, machine.open() as node:
        bench = Bench("gfx1100", EmulatedGpu(node))
        bench.run(
            f"{LOADED}ds_load_b32 v4, v1\ns_waitcnt lgkmcnt(0)\nv_add_nc_u32 v3, v2, v4\n"
            "s_cbranch_scc1 2\nglobal_store_b32 v1, v3, s[0:1] offset:4"
        )
        assert set(bench.out.words(0, LANES)) == {0}


DEALLOC = "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)"


class TestDealloc:
    """gfx11 gives registers and scratch back before the end (LLVM D153295, pull request 160669)."""

    @pytest.fixture
    def bench(self, gpu):
        made = Bench("gfx1100", gpu)
        yield made
        made.close()

    def test_stores_to_scratch_must_have_arrived(self, bench):
        text = "scratch_store_b32 off, v1, off offset:4\n{}\n> " + DEALLOC
        bench.run(text.format("s_waitcnt_vscnt null, 0"))
        bench.run("scratch_store_b32 off, v1, off\nglobal_store_b32 v1, v1, s[0:1]\n"
                  f"s_waitcnt_vscnt null, 1\n{DEALLOC}")  # fmt: skip
        bench.fails(
            text.format("s_waitcnt vmcnt(0)"),
            "S_SENDMSG DEALLOC_VGPRS before the s_waitcnt_vscnt of a store to scratch",
        )

    def test_registers_are_gone(self, bench):
        bench.fails(
            f"global_store_b32 v1, v1, s[0:1]\n{DEALLOC}\n> v_cmp_eq_u32 vcc_lo, v1, v1",
            "v_cmp_eq_u32 reads v1, which S_SENDMSG DEALLOC_VGPRS freed",
        )

    def test_it_can_be_let_pass(self):
        with Machine(["gfx1100"], lenient=["dealloc"]) as machine, machine.open() as node:
            Bench("gfx1100", EmulatedGpu(node)).run(f"scratch_store_b32 off, v1, off\n{DEALLOC}")


def test_code_that_nobody_has_written(bench):
    with pytest.raises(OSError, match=r"code at 0x.*, which was never written"):
        bench.run("s_setpc_b64 s[4:5]")
    assert bench.gpu.node.machine.fault().pc == bench.new.va


PACKETS = {
    "COND_EXEC": lambda at, gfx: pm4.CondExec.encode(gfx=gfx, addr=at, execute={"count": 0}),
    "WAIT_REG_MEM": lambda at, gfx: [0xC0053C00, 0x13, at & 0xFFFFFFFF, at >> 32, 1, 1, 4],
    "DISPATCH_INDIRECT": lambda at, gfx: pm4.DispatchIndirect.encode(
        gfx=gfx, addr=at, initiator=0x8005
    ),
    "INDIRECT_BUFFER": lambda at, gfx: pm4.IndirectBuffer.encode(
        gfx=gfx, addr=at, control={"ndw": 8, "valid": 1}
    ),
    "ATOMIC_MEM": lambda at, gfx: pm4.AtomicMem.encode(
        gfx=gfx, control={"op": 0x4F}, addr=at, source=1, compare=0, loop=0
    ),
}


@pytest.mark.parametrize("name", PACKETS)
def test_packets_do_not_decide_by_it(card, name):
    chip, gpu = card
    new = fresh(gpu)
    with pytest.raises(OSError, match="last fault"):
        gpu.wait(gpu.submit("compute", PACKETS[name](new.va, GFX[chip]), bos=[new]))
    fault = gpu.node.machine.fault()
    assert fault.kind == "uninitialised"
    assert f"the memory at {new.va:#x} was never written" in fault.text
    assert name in fault.text or name == "INDIRECT_BUFFER"
    new.close()
