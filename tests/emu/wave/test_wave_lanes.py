"""Values that go across lanes (DPP, SDWA, permutations); scalars, LDS and memory.

When this fails, operations across lanes compute other bits than hardware.
"""

from __future__ import annotations

import numpy as np
import pytest
from wavekit import INTS, run_lanes

U32, U64, I32, I64 = np.uint32, np.uint64, np.int32, np.int64
L = np.arange(32)
SOURCE = (L * 0x01010101 + 7).astype(U32)
OLD = U32(0xDEAD0000) + L.astype(U32)

# control: lane read by each lane, -1 where there is none
DPP = {
    "quad_perm:[3,2,1,0]": (L & ~3) + (3 - (L & 3)),
    "row_shl:3": np.where(L % 16 + 3 < 16, L + 3, -1),
    "row_shr:5": np.where(L % 16 >= 5, L - 5, -1),
    "row_ror:4": (L & ~15) + ((L % 16 - 4) & 15),
    "row_mirror": (L & ~15) + 15 - L % 16,
    "row_half_mirror": L ^ 7,
    "row_share:9": (L & ~15) + 9,
    "row_xmask:6": L ^ 6,
}


@pytest.mark.parametrize("control", DPP)
def test_dpp16(warm, control):
    """Without bound_ctrl a lane that reads nothing is not written, with it it gets 0."""
    chip, gpu = warm
    whole = "row_mask:0xf bank_mask:0xf"
    lines = [
        f"v_mov_b32 D, v2\nv_mov_b32_dpp D, v1 {control} row_mask:0xf bank_mask:0xf",
        f"v_mov_b32 D, v2\nv_mov_b32_dpp D, v1 {control} row_mask:0xf bank_mask:0xf bound_ctrl:1",
        f"v_mov_b32 D, v2\nv_mov_b32_dpp D, v1 {control} row_mask:0x1 bank_mask:0x5",
        f"v_mov_b32 D, v2\nv_add_nc_u32_dpp D, v1, v2 {control} {whole} bound_ctrl:1",
    ]
    body = "\n".join(line.replace("D", f"v{10 + k}") for k, line in enumerate(lines))
    plain, zero, masked, added = run_lanes(gpu, chip, body, [SOURCE, OLD])
    lane = DPP[control]
    read = np.where(lane < 0, 0, SOURCE[lane]).astype(U32)
    np.testing.assert_array_equal(plain, np.where(lane < 0, OLD, read))
    np.testing.assert_array_equal(zero, read)
    enabled = (L < 16) & np.isin(L // 4 % 4, (0, 2)) & (lane >= 0)
    np.testing.assert_array_equal(masked, np.where(enabled, read, OLD))
    np.testing.assert_array_equal(added, read + OLD)


def test_dpp8_and_inactive_lanes(warm):
    chip, gpu = warm
    body = """
    v_mov_b32 v10, v2
    v_mov_b32 v11, v2
    v_mov_b32_dpp v10, v1 dpp8:[7,6,5,4,3,2,1,0]
    s_mov_b32 exec_lo, 0xff00fffe
    v_mov_b32_dpp v11, v1 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf
    s_mov_b32 exec_lo, -1
    """
    eight, quads, *_ = run_lanes(gpu, chip, body, [SOURCE, OLD])
    np.testing.assert_array_equal(eight, SOURCE[L ^ 7])
    active = (0xFF00FFFE >> L & 1).astype(bool)
    np.testing.assert_array_equal(quads, np.where(active & active[L & ~3], SOURCE[L & ~3], OLD))


def test_sdwa(gfx10):
    chip, gpu = "gfx1036", gfx10
    a, b, _ = INTS
    dword = "dst_sel:DWORD dst_unused:UNUSED_PAD"
    body = f"""
    v_add_nc_u32_sdwa v10, v1, v2 {dword} src0_sel:BYTE_1 src1_sel:WORD_1
    v_add_nc_u32_sdwa v11, sext(v1), sext(v2) {dword} src0_sel:BYTE_3 src1_sel:WORD_0
    v_mov_b32 v12, v1
    v_mov_b32_sdwa v12, v2 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0
    v_mov_b32_sdwa v13, v2 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:WORD_1
    """
    plain, signed, kept, sext = run_lanes(gpu, chip, body, [a, b])
    np.testing.assert_array_equal(plain, (a >> U32(8) & U32(255)) + (b >> U32(16)))
    want = a.view(np.int8)[3::4].astype(I32) + b.view(np.int16)[::2]
    np.testing.assert_array_equal(signed.view(I32), want)
    np.testing.assert_array_equal(kept, (a & U32(0xFF00FFFF)) | (b & U32(255)) << U32(16))
    np.testing.assert_array_equal(sext.view(I32), b.view(np.int16)[1::2].astype(I32))


@pytest.mark.parametrize("wave", [32, 64])
def test_permutations(warm, wave):
    chip, gpu = warm
    lanes = np.arange(wave)
    a, select = np.random.default_rng(3).integers(0, 1 << 32, (2, wave), dtype=U32)
    body = """
    v_lshlrev_b32 v7, 2, v2
    ds_bpermute_b32 v10, v7, v1
    ds_permute_b32 v11, v7, v1
    ds_swizzle_b32 v12, v1 offset:0x801b
    s_waitcnt lgkmcnt(0)
    s_mov_b32 s10, 0x89abcdef
    s_mov_b32 s11, 0x01234567
    v_permlane16_b32 v13, v1, s10, s11
    """
    order = (select % 32 + 0 * lanes).astype(U32)
    order = np.concatenate(
        [np.random.default_rng(k).permutation(32) for k in range(wave // 32)]
    ).astype(U32)
    pulled, pushed, quads, rows = run_lanes(gpu, chip, body, [a, order], wave=wave)
    half = lanes & 32
    np.testing.assert_array_equal(pulled, a[half + order])
    want = np.zeros(wave, U32)
    want[half + order] = a
    np.testing.assert_array_equal(pushed, want)
    np.testing.assert_array_equal(quads, a[lanes ^ 3])
    table = np.array([0x0123456789ABCDEF >> 4 * k & 15 for k in range(16)])
    np.testing.assert_array_equal(rows, a[(lanes & ~15) + table[lanes & 15]])


# --- scalar instructions: run for each lane's values by a loop over lanes ---
LOOP = """
s_mov_b32 s21, 0
v_readlane_b32 s10, v1, s21
v_readlane_b32 s11, v2, s21
v_readlane_b32 s12, v3, s21
v_readlane_b32 s13, v4, s21
s_mov_b32 s14, s10
s_cmp_lg_u32 s12, s12
{line}
s_cselect_b32 s16, 1, 0
v_writelane_b32 v10, s14, s21
v_writelane_b32 v11, s15, s21
v_writelane_b32 v12, s16, s21
s_add_u32 s21, s21, 1
s_cmp_lt_u32 s21, 32
"""


def big(*arrays):
    return [x.astype(object) for x in arrays]


def signed(x):
    return np.where(x >= 1 << 31, x - (1 << 32), x)


SCALAR = {
    "s_add_u32 s14, s10, s11": lambda a, b: (a + b, a + b >= 1 << 32),
    "s_sub_u32 s14, s10, s11": lambda a, b: (a - b, a < b),
    "s_add_i32 s14, s10, s11": lambda a, b: (a + b, abs(signed(a) + signed(b) + 0.5) > 1 << 31),
    "s_sub_i32 s14, s10, s11": lambda a, b: (a - b, abs(signed(a) - signed(b) + 0.5) > 1 << 31),
    "s_min_i32 s14, s10, s11": lambda a, b: (
        np.where(signed(a) < signed(b), a, b),
        signed(a) < signed(b),
    ),
    "s_max_u32 s14, s10, s11": lambda a, b: (np.where(a >= b, a, b), a >= b),
    "s_and_b32 s14, s10, s11": lambda a, b: (a & b, (a & b) != 0),
    "s_andn2_b32 s14, s10, s11": lambda a, b: (a & ~b, (a & ~b) & 0xFFFFFFFF != 0),
    "s_xnor_b32 s14, s10, s11": lambda a, b: (~(a ^ b), a ^ b != 0xFFFFFFFF),
    "s_lshl_b32 s14, s10, s11": lambda a, b: (a << (b & 31), (a << (b & 31)) & 0xFFFFFFFF != 0),
    "s_ashr_i32 s14, s10, s11": lambda a, b: (signed(a) >> (b & 31), signed(a) >> (b & 31) != 0),
    "s_lshl3_add_u32 s14, s10, s11": lambda a, b: ((a << 3) + b, (a << 3) + b >= 1 << 32),
    "s_absdiff_i32 s14, s10, s11": lambda a, b: (abs(signed(a) - signed(b)), a != b),
    "s_mul_i32 s14, s10, s11": lambda a, b: (a * b, None),
    "s_mul_hi_i32 s14, s10, s11": lambda a, b: (signed(a) * signed(b) >> 32, None),
    "s_pack_lh_b32_b16 s14, s10, s11": lambda a, b: ((a & 0xFFFF) | (b & 0xFFFF0000), None),
    "s_bfe_u32 s14, s10, 0x80004": lambda a, b: (a >> 4 & 255, (a >> 4 & 255) != 0),
    "s_bfe_i32 s14, s10, 0x80004": lambda a, b: (((a >> 4 & 255) ^ 128) - 128, (a >> 4 & 255) != 0),
    "s_bcnt1_i32_b32 s14, s10": lambda a, b: (
        np.array([int(x).bit_count() for x in a], object),
        a != 0,
    ),
    "s_flbit_i32_b32 s14, s10": lambda a, b: (
        np.array([32 - int(x).bit_length() if x else -1 for x in a], object),
        None,
    ),
    "s_ff1_i32_b32 s14, s10": lambda a, b: (
        np.array([(int(x) & -int(x)).bit_length() - 1 for x in a], object),
        None,
    ),
    "s_not_b32 s14, s10": lambda a, b: (~a, a != 0xFFFFFFFF),
    "s_sext_i32_i8 s14, s10": lambda a, b: (((a & 255) ^ 128) - 128, None),
    "s_brev_b32 s14, s10": lambda a, b: (
        np.array([int(f"{x:032b}"[::-1], 2) for x in a], object),
        None,
    ),
    "s_abs_i32 s14, s10": lambda a, b: (abs(signed(a)), a != 0),
    "s_bitset1_b32 s14, s11": lambda a, b: (a | 1 << (b & 31), None),
    "s_addk_i32 s14, 0x8001": lambda a, b: (a - 0x7FFF, abs(signed(a) - 0x7FFF + 0.5) > 1 << 31),
    "s_movk_i32 s14, 0x8000": lambda a, b: (a * 0 - 0x8000, None),
    "s_cmp_lt_i32 s10, s11": lambda a, b: (a, signed(a) < signed(b)),
    "s_cmp_ge_u32 s10, s11": lambda a, b: (a, a >= b),
    "s_bitcmp1_b32 s10, s11": lambda a, b: (a, a >> (b & 31) & 1 == 1),
    "s_cmpk_gt_u32 s10, 0xffff": lambda a, b: (a, a > 0xFFFF),
}


def scalar_cases():
    return [x[np.r_[0:16, 40:56]] for x in INTS]


@pytest.mark.parametrize("line", SCALAR)
def test_scalar_instruction(warm, line):
    chip, gpu = warm
    a, b, c = scalar_cases()
    body = (
        LOOP.format(line=line).replace("v_writelane_b32 v11, s15, s21\n", "") + "s_cbranch_scc1 %d"
    )
    from wavekit import asm

    back = len(asm(chip, LOOP.format(line=line).replace("v_writelane_b32 v11, s15, s21\n", ""))) - 1
    got, _, scc, _ = run_lanes(gpu, chip, body % (-(back + 1) & 0xFFFF), [a, b, c, c])
    value, flag = SCALAR[line](*big(a, b))
    np.testing.assert_array_equal(got, np.array([int(v) & 0xFFFFFFFF for v in value], U32))
    np.testing.assert_array_equal(scc, 0 if flag is None else np.asarray(flag, bool))


SCALAR64 = {
    "s_lshl_b64 s[14:15], s[10:11], s12": lambda x, y, c: x << (c & 63),
    "s_lshr_b64 s[14:15], s[10:11], s12": lambda x, y, c: x >> (c & 63),
    "s_ashr_i64 s[14:15], s[10:11], s12": lambda x, y, c: (
        np.where(x >> 63, x - (1 << 64), x) >> (c & 63)
    ),
    "s_xor_b64 s[14:15], s[10:11], s[12:13]": lambda x, y, c: x ^ y,
    "s_orn2_b64 s[14:15], s[10:11], s[12:13]": lambda x, y, c: x | ~y,
    "s_not_b64 s[14:15], s[10:11]": lambda x, y, c: ~x,
    "s_brev_b64 s[14:15], s[10:11]": lambda x, y, c: np.array(
        [int(f"{v:064b}"[::-1], 2) for v in x], object
    ),
    "s_bfe_u64 s[14:15], s[10:11], 0x200010": lambda x, y, c: x >> 16 & 0xFFFFFFFF,
}


@pytest.mark.parametrize("line", SCALAR64)
def test_scalar_instruction_of_64_bits(warm, line):
    from wavekit import asm

    chip, gpu = warm
    a, b, c = scalar_cases()
    body = LOOP.format(line=line)
    back = len(asm(chip, body)) - 1
    low, high, _, _ = run_lanes(
        gpu, chip, body + f"s_cbranch_scc1 {-(back + 1) & 0xFFFF}", [a, b, c, c]
    )
    x = big(a)[0] | big(b)[0] << 32
    want = SCALAR64[line](x, big(c)[0] | big(c)[0] << 32, big(c)[0])
    np.testing.assert_array_equal(
        low.astype(U64) | high.astype(U64) << U64(32), [int(v) % (1 << 64) for v in want]
    )


# --- LDS ---
LDS_ATOMICS = {
    "add_rtn_u32": lambda m, v: m + v,
    "sub_rtn_u32": lambda m, v: m - v,
    "min_rtn_i32": lambda m, v: np.minimum(m.view(I32), v.view(I32)).view(U32),
    "max_rtn_u32": np.maximum,
    "and_rtn_b32": lambda m, v: m & v,
    "xor_rtn_b32": lambda m, v: m ^ v,
    "inc_rtn_u32": lambda m, v: np.where(m >= v, 0, m + U32(1)).astype(U32),
    "dec_rtn_u32": lambda m, v: np.where((m == 0) | (m > v), v, m - U32(1)),
    "wrxchg_rtn_b32": lambda m, v: v,
}


@pytest.mark.parametrize("name", LDS_ATOMICS)
def test_lds_atomics(warm, name):
    chip, gpu = warm
    a, b, _ = INTS
    body = f"""
    ds_write_b32 v20, v1 offset:64
    s_waitcnt lgkmcnt(0)
    ds_{name} v10, v20, v2 offset:64
    ds_read_b32 v11, v20 offset:64
    s_waitcnt lgkmcnt(0)
    """
    old, new, *_ = run_lanes(gpu, chip, body, [a, b], lds=512)
    np.testing.assert_array_equal(old, a)
    np.testing.assert_array_equal(new, LDS_ATOMICS[name](a, b))


def test_lds_compare_and_swap_has_its_generations_order(warm):
    chip, gpu = warm
    a, b, c = INTS
    swap = (
        "ds_cmpst_rtn_b32 v10, v20, v2, v3"
        if chip == "gfx1036"
        else "ds_cmpstore_rtn_b32 v10, v20, v3, v2"
    )
    body = f"ds_write_b32 v20, v1\n{swap}\nds_read_b32 v11, v20\ns_waitcnt lgkmcnt(0)"
    old, new, *_ = run_lanes(gpu, chip, body, [a, b, c], lds=512)
    np.testing.assert_array_equal(old, a)
    np.testing.assert_array_equal(new, np.where(a == b, c, a))


@pytest.mark.parametrize("to", [0, 1])
@pytest.mark.parametrize("of", [0, 1])
@pytest.mark.parametrize("registers", [(10, 11), (10, 10)])
def test_halves_of_registers_are_swapped(warm, registers, to, of):
    """V_SWAP_B16 (RDNA3 ISA document, VOP1 opcode 102), in words: llvm-mc 19 does not know it."""
    chip, gpu = warm
    if chip != "gfx1100":
        pytest.skip("gfx10 has no V_SWAP_B16")
    word = 0x7E000000 | (registers[0] | to << 7) << 17 | 0x66 << 9 | 256 | registers[1] | of << 7
    a, b = (x[:32] for x in INTS[:2])
    halves = {10: a.view(np.uint16).reshape(32, 2).copy(), 11: b.view(np.uint16).reshape(32, 2)}
    halves[11] = halves[11].copy()
    first, second = halves[registers[0]][:, to].copy(), halves[registers[1]][:, of].copy()
    halves[registers[0]][:, to], halves[registers[1]][:, of] = second, first
    body = f"v_mov_b32 v10, v1\nv_mov_b32 v11, v2\n.long {word:#x}"
    for got, want in zip(run_lanes(gpu, chip, body, [a, b]), halves.values(), strict=False):
        np.testing.assert_array_equal(got, want.reshape(-1).view(U32))


def test_lds_two_addresses_and_halves(warm):
    chip, gpu = warm
    a, b, c = (x[:32] for x in INTS)
    body = """
    ds_write2_b32 v20, v1, v2 offset0:1 offset1:64
    ds_write2st64_b32 v20, v3, v1 offset0:2 offset1:3
    ds_read2_b32 v[10:11], v20 offset0:64 offset1:1
    ds_read_u16_d16 v12, v20 offset:512
    ds_read_u16_d16_hi v12, v20 offset:4
    ds_read_i8 v13, v20 offset:258
    s_waitcnt lgkmcnt(0)
    """
    first, second, both, byte = run_lanes(gpu, chip, body, [a, b, c], lds=2048)
    np.testing.assert_array_equal(first, b)
    np.testing.assert_array_equal(second, a)
    np.testing.assert_array_equal(both, (c & U32(0xFFFF)) | (a & U32(0xFFFF)) << U32(16))
    np.testing.assert_array_equal(byte.view(I32), b.view(np.int8)[2::4])


# --- global memory ---
def test_global_memory_of_every_width(warm):
    """Loads at odd places, signs, halves; the inputs' own memory is read again."""
    chip, gpu = warm
    a, b, c = (x[:32] for x in INTS)
    body = """
    global_load_dwordx3 v[7:9], v20, s[0:1] offset:1
    global_load_sbyte v10, v20, s[0:1] offset:3
    global_load_short_d16 v11, v20, s[0:1]
    global_load_short_d16_hi v11, v20, s[0:1] offset:256
    s_waitcnt vmcnt(0)
    v_mov_b32 v12, v8
    v_mov_b32 v13, v9
    """
    byte, both, second, third = run_lanes(gpu, chip, body, [a, b, c])
    raw = np.concatenate([a, np.zeros(32, U32)]).view("u1")
    at = 4 * L[:, None] + 1 + np.arange(12)
    words = raw[at].copy().view(U32)
    np.testing.assert_array_equal(byte.view(I32), a.view(np.int8)[3::4])
    np.testing.assert_array_equal(both, (a & U32(0xFFFF)) | (b & U32(0xFFFF)) << U32(16))
    np.testing.assert_array_equal(second, words[:, 1])
    np.testing.assert_array_equal(third, words[:, 2])


def test_buffers_are_range_checked(warm):
    """Raw: what is beyond NUM_RECORDS reads as 0; swizzled by STRIDE and INDEX elsewhere."""
    chip, gpu = warm
    word3 = 0x31016FAC if chip == "gfx1100" else 0x31014FAC
    body = f"""
    s_mov_b32 s12, s0
    s_and_b32 s13, s1, 0xffff
    s_movk_i32 s14, 100
    s_mov_b32 s15, {word3:#x}
    buffer_load_dword v10, v20, s[12:15], 0 offen
    s_or_b32 s13, s13, 0x80000
    s_movk_i32 s14, 20
    s_and_b32 s15, s15, 0xcfffffff
    buffer_load_dword v11, v3, s[12:15], 0 idxen
    s_waitcnt vmcnt(0)
    """
    a = INTS[0][60:92]
    index = (31 - L).astype(U32)
    raw, records, *_ = run_lanes(gpu, chip, body, [a, a, index])
    np.testing.assert_array_equal(raw, np.where(4 * L + 4 <= 100, a, 0))
    want = np.concatenate([a, np.zeros(64, U32)])[2 * (31 - L)]
    np.testing.assert_array_equal(records, np.where(31 - L < 20, want, 0))
