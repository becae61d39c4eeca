"""Each thing that a wave may not do is a fault that names instruction, place and reason.

When this fails, a kernel that would fault on hardware passes on the emulator.
"""

from __future__ import annotations

import numpy as np
import pytest
from wavekit import GFX, asm, float_mode, run_lanes

from sparkle_drv.amd.isa.assembly import assemble
from sparkle_drv.testing import emulated_dispatch
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

A = np.arange(32, dtype=np.uint32)

FAULTS = {
    "a VGPR never written": ("v_cmp_eq_u32 vcc_lo, v7, v1", "uninitialised", "v7"),
    "an SGPR never written": ("v_cmp_eq_u32 vcc_lo, s25, v1", "uninitialised", "s25"),
    "VCC never written": ("v_cndmask_b32 v10, v1, v2, vcc_lo", "uninitialised", "vcc_lo"),
    "a sum of undefined scalars as address": (
        "s_add_u32 s10, s25, 4\ns_mov_b32 s11, 0\ns_load_dword s12, s[10:11], 0x0",
        "uninitialised",
        "s10",
    ),
    "a load not waited for": (
        "global_load_dword v7, v20, s[0:1]\nv_mov_b32 v10, v7",
        "uninitialised",
        "s_waitcnt",
    ),
    "one of two loads waited for": (
        "global_load_dword v7, v20, s[0:1]\nglobal_load_dword v8, v20, s[0:1]\n"
        "s_waitcnt vmcnt(1)\nv_mov_b32 v10, v8",
        "uninitialised",
        "v8",
    ),
    "a scalar load waited for with 1": (
        "s_load_dword s10, s[0:1], 0x0\ns_load_dword s11, s[0:1], 0x4\n"
        "s_waitcnt lgkmcnt(1)\ns_mov_b32 s12, s10",
        "uninitialised",
        "s10",
    ),
    "a result that a load will overwrite": (
        "global_load_dword v7, v20, s[0:1]\nv_mov_b32 v7, 1",
        "uninitialised",
        "writes v7",
    ),
    "an LDS load not waited for": (
        "ds_write_b32 v20, v1\nds_read_b32 v7, v20\nv_mov_b32 v10, v7",
        "uninitialised",
        "v7",
    ),
    "an LDS load waited for with a later one open": (
        "ds_write_b32 v20, v1\nds_add_u32 v20, v1\nds_read_b32 v7, v20\nv_mov_b32 v8, v1\n"
        "s_waitcnt lgkmcnt(1)\nv_mov_b32 v10, v7",
        "uninitialised",
        "v7",
    ),
    "LDS never written": (
        "ds_read_b32 v7, v20\ns_waitcnt lgkmcnt(0)\nv_cmp_eq_u32 vcc_lo, v7, v1",
        "uninitialised",
        "from LDS 0x0",
    ),
    "LDS beyond the group's": ("ds_write_b32 v20, v1 offset:2044", "lds", "the group has 512"),
    "an atomic across its alignment": (
        "global_atomic_add v20, v1, s[2:3] offset:2",
        "alignment",
        "not a multiple of 4",
    ),
    "memory that is not mapped": (
        "s_mov_b32 s10, 0x4000\ns_mov_b32 s11, 0x7000\nglobal_load_dword v10, v20, s[10:11]",
        "unmapped",
        "",
    ),
    "a store to what may be read only": ("global_store_dword v20, v1, s[0:1]", "rights", ""),
    "scratch that the wave has not": ("scratch_load_dword v10, v1, off", "unmapped", "scratch"),
    "s_trap": ("s_trap 2", "trap", "2"),
    "a VGPR beyond the allocation": ("v_mov_b32 v200, v1", "operand", "v200"),
    "a jump to nowhere": ("s_mov_b64 s[10:11], 0\ns_setpc_b64 s[10:11]", "unmapped", ""),
    "an instruction that is not modelled": (".long 0xf8000000\n.long 0", "opcode", "lacks exp"),
}


# The second dword is written anew, since assemblers refuse what these read: SRC0, SRC1, SRC2.
TOO_MANY = {
    "three SGPRs": ("v_fma_f32 v10, v1, v1, v1", (4, 5, 6), "v_fma_f32 reads 3 scalars"),
    "a literal beside two": ("v_fma_f32 v10, v1, v1, 0x1234567", (4, 5, 255), "reads 3 scalars"),
    "long shifts": ("v_lshlrev_b64 v[10:11], 1, v[1:2]", (4, 6, 0), "expected at most 1"),
    "VCC, implied": ("v_div_fmas_f32 v10, v1, v1, v1", (4, 5, 257), "reads 3 scalars"),
}


@pytest.mark.parametrize("what", TOO_MANY)
def test_more_scalars_than_an_instruction_can_read(card, what):
    chip, gpu = card
    text, (src0, src1, src2), said = TOO_MANY[what]
    words = assemble(text, chip)
    words[1] = src0 | src1 << 9 | src2 << 18
    with pytest.raises(OSError, match="last fault"):
        run_lanes(gpu, chip, "\n".join(f".long {word:#x}" for word in words), [A, A])
    fault = gpu.node.machine.fault()
    assert fault.kind == "operand"
    assert said in fault.text.lower()


@pytest.mark.parametrize("what", FAULTS)
def test_fault(card, what):
    chip, gpu = card
    body, kind, text = FAULTS[what]
    with pytest.raises(OSError, match="last fault"):
        run_lanes(gpu, chip, body, [A, A], lds=512)
    fault = gpu.node.machine.fault()
    assert (fault.kind, fault.wave, fault.group) == (kind, 0, (0, 0, 0))
    assert text in fault.text
    assert fault.pc > 0 or "setpc" in body


def test_lds_stores_count_as_what_follows_a_load(card):
    """LGKM_CNT is 1 when the store alone is under way: LDS returns in order."""
    chip, gpu = card
    body = (
        "ds_write_b32 v20, v1\ns_waitcnt lgkmcnt(0)\nds_read_b32 v10, v20\n"
        "ds_write_b32 v20, v2\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v11, v10\n"
        "ds_read_b32 v12, v20\nds_add_u32 v20, v1\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v13, v12"
    )
    out = run_lanes(gpu, chip, body, [A, A + 1], lds=512)
    np.testing.assert_array_equal(out[1], A)
    np.testing.assert_array_equal(out[3], A + 1)


def test_fault_names_lane_and_address(card):
    chip, gpu = card
    body = "v_lshlrev_b32 v7, 12, v1\nglobal_load_dword v10, v7, s[0:1]"
    with pytest.raises(OSError, match="unmapped"):
        run_lanes(gpu, chip, body, [np.where(A == 5, 77, 0).astype(np.uint32)])
    fault = gpu.node.machine.fault()
    assert fault.lane == 5
    assert fault.va % 4096 == 20 * 0


def test_lenient_machine_reads_zeros():
    with (
        Machine(["gfx1100"], lenient=["uninitialised"]) as machine,
        machine.open() as node,
        EmulatedGpu(node) as gpu,
    ):
        body = "v_add_nc_u32 v10, s25, v7\nds_read_b32 v11, v20\ns_waitcnt lgkmcnt(0)"
        sums, shared, *_ = run_lanes(gpu, "gfx1100", body, [A], lds=512)
        assert not sums.any()
        assert not shared.any()


COPIES = {  # what reads s25 or v7, which nobody wrote, and copies it to s26 or v9
    "v_mov of a VGPR": "v_mov_b32 v9, v7",
    "v_mov of an SGPR": "v_mov_b32 v9, s25",
    "v_swap": "v_mov_b32 v9, 1\nv_swap_b32 v9, v7",
    "v_cndmask": "s_mov_b32 vcc_lo, -1\nv_cndmask_b32 v9, v1, v7, vcc_lo",
    "v_cndmask of an SGPR": "s_mov_b32 vcc_lo, 0\nv_cndmask_b32 v9, s25, v1, vcc_lo",
    "v_readfirstlane": "v_readfirstlane_b32 s26, v7\nv_mov_b32 v9, s26",
    "lanes": "v_writelane_b32 v8, s25, 3\nv_readlane_b32 s26, v8, 3\nv_mov_b32 v9, s26",
    "s_mov": "s_mov_b32 s27, s25\ns_mov_b64 s[28:29], s[26:27]\nv_mov_b32 v9, s29",
    "s_cmov": "s_cmp_eq_u32 s0, s0\ns_cmov_b32 s26, s25\nv_mov_b32 v9, s26",
    "s_cselect": "s_cmp_eq_u32 s0, s0\ns_cselect_b32 s26, s25, 0\nv_mov_b32 v9, s26",
    "m0": "s_mov_b32 m0, s25\ns_mov_b32 s26, m0\nv_mov_b32 v9, s26",
}


@pytest.mark.parametrize("what", COPIES)
def test_undefined_values_may_be_copied_and_stored(warm, what):
    """Compilers save registers that nobody wrote and fill elements of vectors that nobody reads."""
    chip, gpu = warm
    body = f"{COPIES[what]}\nglobal_store_dword v20, v9, s[2:3]\nv_mov_b32 v10, 5"
    five, *_ = run_lanes(gpu, chip, body, [A])
    assert set(five) == {5}


@pytest.mark.parametrize("what", COPIES)
def test_the_copy_of_an_undefined_value_may_not_be_used(card, what):
    chip, gpu = card
    with pytest.raises(OSError, match=r"v9, which \w+ at pc .* that was never written"):
        run_lanes(gpu, chip, f"{COPIES[what]}\nv_cmp_eq_u32 vcc_lo, v9, v1", [A])


@pytest.mark.parametrize(
    "line",
    [
        "s_cselect_b32 s26, 7, s25",
        "s_cselect_b32 s26, s27, 7\ns_mov_b32 s26, 7",
        "s_mov_b32 vcc_lo, 0\nv_cndmask_b32 v9, 7, v7, vcc_lo\nv_readfirstlane_b32 s26, v9",
    ],
)
def test_what_was_not_chosen_may_be_undefined(warm, line):
    chip, gpu = warm
    seven, *_ = run_lanes(gpu, chip, f"s_cmp_eq_u32 s0, s0\n{line}\nv_mov_b32 v10, s26", [A])
    assert set(seven) == {7}


@pytest.mark.parametrize("line", ["s_mov_b64 s[10:11], null", "s_or_b64 s[10:11], 0, null"])
def test_a_pair_from_null_is_defined_though_m0_is_not(warm, line):
    chip, gpu = warm
    words = assemble(line, chip) + assemble("v_add_nc_u32 v10, s11, v1", chip)
    same, *_ = run_lanes(gpu, chip, "\n".join(f".long {word:#x}" for word in words), [A])
    np.testing.assert_array_equal(same, A)


STORES = {
    "two of four elements": """
        v_lshlrev_b32 v11, 4, v0
        global_store_dwordx4 v11, v[7:10], s[2:3] offset:1024
    """,
    "by buffer": """
        s_mov_b32 s12, s2
        s_and_b32 s13, s3, 0xffff
        s_movk_i32 s14, 0x800
        s_mov_b32 s15, {word3}
        v_mov_b32 v11, 64
        buffer_store_dwordx2 v[7:8], v11, s[12:15], 0 offen
    """,
    "to LDS": "v_lshlrev_b32 v11, 3, v0\nds_write_b64 v11, v[7:8]",
    "to LDS twice": "v_lshlrev_b32 v11, 3, v0\nds_write2_b32 v11, v1, v7 offset1:1",
}


@pytest.mark.parametrize("what", STORES)
def test_undefined_elements_may_be_stored(warm, what):
    chip, gpu = warm
    body = STORES[what].format(word3="0x31016fac" if chip == "gfx1100" else "0x31014fac")
    one, *_ = run_lanes(gpu, chip, f"v_mov_b32 v8, 1\n{body}\nv_mov_b32 v10, 1", [A], lds=512)
    assert set(one) == {1}


DECISIONS = {
    "a branch": ("s_cmp_eq_u32 s25, 0", "s25"),
    "EXEC": ("s_mov_b32 exec_lo, s25", "s25"),
    "EXEC of two": ("s_mov_b64 exec, s[24:25]", "s24"),
    "EXEC, chosen": ("s_cmp_eq_u32 s0, s0\ns_cselect_b32 exec_lo, s25, 0", "s25"),
    "a mask": ("v_cndmask_b32 v10, v1, v2, s25", "s25"),
    "a compare": ("v_cmp_eq_u32 vcc_lo, v7, v1", "v7"),
    "an address": ("global_load_dword v10, v7, s[2:3]", "v7"),
    "an address of a store": ("global_store_dword v7, v1, s[2:3]", "v7"),
    "an atomic": ("global_atomic_add v20, v7, s[2:3]", "v7"),
    "a lane": ("v_readlane_b32 s26, v1, s25", "s25"),
    "MODE": ("s_setreg_b32 hwreg(HW_REG_MODE), s25", "s25"),
}


@pytest.mark.parametrize("what", DECISIONS)
def test_undefined_values_may_not_decide(card, what):
    chip, gpu = card
    body, name = DECISIONS[what]
    with pytest.raises(OSError, match=f"{name}, which .*was never written"):
        run_lanes(gpu, chip, body, [A])


SET_SCRATCH = "s_setreg_b32 hwreg(HW_REG_FLAT_SCR_LO), s25"


def test_scratch_that_nobody_uses_may_be_undefined(gfx10):
    """LLVM's prologue for gfx10 sets FLAT_SCRATCH from registers that a launch may not fill."""
    body = f"{SET_SCRATCH}\ns_getreg_b32 s26, hwreg(HW_REG_FLAT_SCR_LO)\nv_mov_b32 v10, 5"
    five, *_ = run_lanes(gfx10, "gfx1036", body, [A])
    assert set(five) == {5}


def test_undefined_scratch_may_not_be_used(gfx10):
    with pytest.raises(OSError, match="FLAT_SCRATCH, which was never written"):
        run_lanes(gfx10, "gfx1036", f"{SET_SCRATCH}\nscratch_load_dword v10, v1, off", [A])


HALVES = {
    "of an addend": (
        "v_mov_b32 v8, 7\nv_mad_u64_u32 v[10:11], null, v1, 3, v[8:9]",
        A * np.uint32(3) + np.uint32(7),
    ),
    "of a scalar addend": (
        "s_movk_i32 s24, 7\nv_mad_u64_u32 v[10:11], null, v1, 3, s[24:25]",
        A * np.uint32(3) + np.uint32(7),
    ),
    "of a shifted pair": (
        "s_movk_i32 s24, 7\ns_lshl_b64 s[26:27], s[24:25], 2\n"
        "v_mov_b32 v10, s26\nv_mov_b32 v11, s27",
        np.full_like(A, 28),
    ),
}


@pytest.mark.parametrize("what", HALVES)
def test_the_high_half_may_be_undefined(card, what):
    """Compilers that want the low half of a result alone leave the high one as it is."""
    chip, gpu = card
    body, want = HALVES[what]
    low, *_ = run_lanes(gpu, chip, f"{body}\nv_mov_b32 v11, 0", [A])
    np.testing.assert_array_equal(low, want)


@pytest.mark.parametrize("what", HALVES)
def test_the_undefined_half_of_a_result_stays_undefined(card, what):
    chip, gpu = card
    with pytest.raises(OSError, match=r"v11, which \w+ at pc .* that was never written"):
        run_lanes(gpu, chip, f"{HALVES[what][0]}\nv_cmp_eq_u32 vcc_lo, v11, v1", [A])


def test_an_undefined_half_that_is_shifted_into_the_low_one(card):
    chip, gpu = card
    body = "s_movk_i32 s24, 7\ns_lshr_b64 s[26:27], s[24:25], 2\ns_add_u32 s26, s26, s26\n"
    with pytest.raises(OSError, match=r"v10, which s_lshr_b64 at pc .* computed from s25"):
        run_lanes(gpu, chip, f"{body}v_mov_b32 v10, s26\nv_cmp_eq_u32 vcc_lo, v10, v10", [A])


def test_endless_loop_meets_the_job_limit():
    with (
        Machine(["gfx1036"], job_limit_s=0.2) as machine,
        machine.open() as node,
        EmulatedGpu(node) as gpu,
    ):
        with pytest.raises(OSError, match="timeout"):
            run_lanes(gpu, "gfx1036", "s_branch 0xffff", [A])
        assert machine.fault().kind == "timeout"


def launch(gpu, chip, text, *, out_nbytes=4096, wave=32, rsrc2=0, lds=0, user=(), **more):
    """Runs a whole program with s[0:1] = output; returns it as dwords."""
    with_code, sink = gpu.buffer(4096, rights="rx"), gpu.buffer(out_nbytes)
    try:
        with_code.write(asm(chip, text, wave))
        ib = emulated_dispatch.launch(
            GFX[chip],
            code=with_code.va,
            rsrc1=(3 if wave == 32 else 7) | float_mode(),
            rsrc2=(2 + len(user)) << 1 | rsrc2 | -(-lds // 512) << 15,
            user=(sink.lo, sink.hi, *user),
            wave=wave,
            **more,
        )
        gpu.wait(gpu.submit("compute", ib, bos=[with_code, sink]))
        return np.frombuffer(sink.map, np.uint32).copy()
    finally:
        with_code.close()
        sink.close()


IDS = """
{unpack}
s_mul_i32 s10, s4, 2
s_add_u32 s10, s10, s3
s_mul_i32 s10, s10, 2
s_add_u32 s10, s10, s2
s_lshl_b32 s10, s10, 6
v_mul_u32_u24 v5, v3, 3
v_add_nc_u32 v5, v5, v2
v_mul_u32_u24 v5, v5, 5
v_add_nc_u32 v5, v5, v1
v_add_nc_u32 v6, s10, v5
v_lshlrev_b32 v6, 2, v6
v_lshl_or_b32 v7, s5, 8, v5
global_store_dword v6, v7, s[0:1]
s_endpgm
"""
UNPACK = {
    "gfx1100": "v_and_b32 v1, 0x3ff, v0\nv_bfe_u32 v2, v0, 10, 10\nv_bfe_u32 v3, v0, 20, 10",
    "gfx1036": "v_mov_b32 v3, v2\nv_mov_b32 v2, v1\nv_mov_b32 v1, v0",
}


@pytest.mark.parametrize("wave", [32, 64])
def test_ids_of_groups_waves_and_threads(warm, wave):
    """5 x 3 x 3 threads in a 2 x 2 x 2 grid; TG_SIZE has the waves and the wave's number."""
    chip, gpu = warm
    rsrc2 = 7 << 7 | 1 << 10 | 2 << 11
    out = launch(
        gpu,
        chip,
        IDS.format(unpack=UNPACK[chip]),
        wave=wave,
        rsrc2=rsrc2,
        groups=(2, 2, 2),
        size=(5, 3, 3),
    )
    waves = -(-45 // wave)
    for group in range(8):
        words = out[64 * group : 64 * group + 45]
        np.testing.assert_array_equal(words & 0xFF, np.arange(45))
        number = np.arange(45) // wave
        np.testing.assert_array_equal(words >> 8 & 63, waves)
        np.testing.assert_array_equal(words >> 14 & 63, number)
        assert not out[64 * group + 45 : 64 * group + 64].any()


def test_partial_groups_and_start(warm):
    chip, gpu = warm
    text = """
    s_lshl_b32 s10, s2, 5
    v_add_nc_u32 v1, s10, v0
    v_lshlrev_b32 v2, 2, v1
    v_add_nc_u32 v1, 1, v1
    global_store_dword v2, v1, s[0:1]
    s_endpgm
    """
    out = launch(
        gpu,
        chip,
        text,
        rsrc2=1 << 7,
        groups=(4, 1, 1),
        start=(1, 0, 0),
        partial=(7, 1, 1),
        size=(32, 1, 1),
    )
    want = np.arange(1, 4 * 32 + 1)
    want[:32] = 0
    want[96 + 7 :] = 0
    np.testing.assert_array_equal(out[:128], want)


def test_barrier_counts_only_waves_that_live(warm):
    """Wave 0 ends early; the three others meet, and see what each wrote before."""
    chip, gpu = warm
    text = """
    v_lshlrev_b32 v1, 2, v0
    v_readfirstlane_b32 s10, v0
    s_cmp_eq_u32 s10, 0
    s_cbranch_scc1 12
    v_add_nc_u32 v2, 7, v0
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_sub_nc_u32 v3, 0x27c, v1
    ds_read_b32 v4, v3
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v4, s[0:1]
    s_endpgm
    """
    out = launch(gpu, chip, text, size=(128, 1, 1), lds=512)
    threads = np.arange(32, 128)
    np.testing.assert_array_equal(out[32:128], 159 - threads + 7)
    assert not out[:32].any()


def test_threads_of_the_host_give_the_same(warm):
    chip, _ = warm
    text = """
    s_lshl_b32 s10, s2, 5
    v_add_nc_u32 v1, s10, v0
    v_mov_b32 v3, 0
    v_lshlrev_b32 v2, 2, v1
    global_store_dword v2, v1, s[0:1] offset:4
    v_mov_b32 v4, 1
    global_atomic_add v3, v4, s[0:1]
    s_endpgm
    """
    with Machine([chip], threads=2) as machine, machine.open() as node, EmulatedGpu(node) as gpu:
        out = launch(gpu, chip, text, rsrc2=1 << 7, groups=(60, 1, 1), out_nbytes=8192)
    assert out[0] == 60 * 32
    np.testing.assert_array_equal(out[1 : 60 * 32 + 1], np.arange(60 * 32))
