"""Integer and bit instructions of the vector ALU against numpy, edge values included.

When this fails, integer instructions compute other bits than hardware, and kernels are judged
wrongly.
"""

from __future__ import annotations

import numpy as np
import pytest
from wavekit import INTS, run_lanes, run_lines

U32, U64, I32, I64 = np.uint32, np.uint64, np.int32, np.int64


def u(x):
    return np.asarray(x).astype(np.int64).astype(U64).astype(U32)


def s24(x):
    return (x << U32(8)).view(I32).astype(I64) >> 8


def u24(x):
    return (x & U32(0xFFFFFF)).astype(U64)


def sh(x):
    return x & U32(31)


def saturate(x):
    return np.clip(x, -(2**31), 2**31 - 1)


def i64(x):
    return x.view(I32).astype(I64)


def bits_below(n):
    return ((U64(1) << n.astype(U64)) - U64(1)).astype(U32)


def med3(a, b, c):
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def bfe_i(a, b, c):
    width, field = sh(c), (a >> sh(b)) & bits_below(sh(c))
    sign = np.where(width > 0, U32(1) << ((width - U32(1)) & U32(31)), U32(0))
    return (field ^ sign) - sign


def perm(a, b, c):
    both = (a.astype(U64) << U64(32)) | b
    result = np.zeros_like(a)
    for n in range(4):
        sel = (c >> U32(8 * n)) & U32(255)
        byte = (both >> (U64(8) * np.minimum(sel, 7))).astype(U32) & U32(255)
        word = (both >> (U64(16) * np.clip(sel.astype(I64) - 8, 0, 3).astype(U64) + U64(15))) & U64(
            1
        )
        byte = np.where(sel >= 8, np.where(word == 1, 255, 0), byte)
        byte = np.where(sel == 12, 0, np.where(sel > 12, 255, byte)).astype(U32)
        result |= byte << U32(8 * n)
    return result


def clz(x):
    return np.array([32 - int(v).bit_length() if v else 0xFFFFFFFF for v in x], U32)


def reversed_bits(x):
    return np.array([int(f"{v:032b}"[::-1], 2) for v in x], U32)


TWO = {
    "v_add_nc_u32 D, v1, v2": lambda a, b: a + b,
    "v_sub_nc_u32 D, v1, v2": lambda a, b: a - b,
    "v_subrev_nc_u32 D, v1, v2": lambda a, b: b - a,
    "v_add_nc_u32 D, v1, v2 clamp": lambda a, b: np.minimum(a.astype(U64) + b, 0xFFFFFFFF).astype(
        U32
    ),
    "v_sub_nc_u32 D, v1, v2 clamp": lambda a, b: np.where(a < b, 0, a - b).astype(U32),
    "v_add_nc_i32 D, v1, v2 clamp": lambda a, b: u(saturate(i64(a) + i64(b))),
    "v_sub_nc_i32 D, v1, v2 clamp": lambda a, b: u(saturate(i64(a) - i64(b))),
    "v_mul_lo_u32 D, v1, v2": lambda a, b: a * b,
    "v_mul_hi_u32 D, v1, v2": lambda a, b: (a.astype(U64) * b >> U64(32)).astype(U32),
    "v_mul_hi_i32 D, v1, v2": lambda a, b: u(i64(a) * i64(b) >> 32),
    "v_mul_u32_u24 D, v1, v2": lambda a, b: (u24(a) * u24(b)).astype(U32),
    "v_mul_hi_u32_u24 D, v1, v2": lambda a, b: (u24(a) * u24(b) >> U64(32)).astype(U32),
    "v_mul_i32_i24 D, v1, v2": lambda a, b: u(s24(a) * s24(b)),
    "v_mul_hi_i32_i24 D, v1, v2": lambda a, b: u(s24(a) * s24(b) >> 32),
    "v_min_i32 D, v1, v2": lambda a, b: np.minimum(a.view(I32), b.view(I32)).view(U32),
    "v_max_i32 D, v1, v2": lambda a, b: np.maximum(a.view(I32), b.view(I32)).view(U32),
    "v_min_u32 D, v1, v2": np.minimum,
    "v_max_u32 D, v1, v2": np.maximum,
    "v_lshlrev_b32 D, v1, v2": lambda a, b: b << sh(a),
    "v_lshrrev_b32 D, v1, v2": lambda a, b: b >> sh(a),
    "v_ashrrev_i32 D, v1, v2": lambda a, b: (b.view(I32) >> sh(a).view(I32)).view(U32),
    "v_and_b32 D, v1, v2": lambda a, b: a & b,
    "v_or_b32 D, v1, v2": lambda a, b: a | b,
    "v_xor_b32 D, v1, v2": lambda a, b: a ^ b,
    "v_xnor_b32 D, v1, v2": lambda a, b: ~(a ^ b),
    "v_bfm_b32 D, v1, v2": lambda a, b: bits_below(sh(a)) << sh(b),
    "v_bcnt_u32_b32 D, v1, v2": lambda a, b: np.bitwise_count(a).astype(U32) + b,
    "v_cvt_pk_u16_u32 D, v1, v2": lambda a, b: (
        np.minimum(a, 0xFFFF) | np.minimum(b, 0xFFFF) << U32(16)
    ),
    "v_not_b32 D, v1": lambda a, b: ~a,
    "v_bfrev_b32 D, v1": lambda a, b: reversed_bits(a),
    "v_ffbh_u32 D, v1": lambda a, b: clz(a),
    "v_ffbl_b32 D, v1": lambda a, b: clz(reversed_bits(a)),
    "v_ffbh_i32 D, v1": lambda a, b: clz(a ^ (a.view(I32) >> 31).view(U32)),
    "v_add_nc_u32 D, 0x12345678, v2": lambda a, b: b + U32(0x12345678),
    "v_sub_nc_u32 D, -16, v2": lambda a, b: U32(0xFFFFFFF0) - b,
    "v_and_b32 D, s4, v2": lambda a, b: b & U32(0xF0F0F0F0),
}
THREE = {
    "v_mad_u32_u24 D, v1, v2, v3": lambda a, b, c: (u24(a) * u24(b)).astype(U32) + c,
    "v_mad_i32_i24 D, v1, v2, v3": lambda a, b, c: u(s24(a) * s24(b)) + c,
    "v_bfe_u32 D, v1, v2, v3": lambda a, b, c: (a >> sh(b)) & bits_below(sh(c)),
    "v_bfe_i32 D, v1, v2, v3": bfe_i,
    "v_bfi_b32 D, v1, v2, v3": lambda a, b, c: (a & b) | (~a & c),
    "v_alignbit_b32 D, v1, v2, v3": lambda a, b, c: (
        (a.astype(U64) << U64(32) | b) >> sh(c).astype(U64)
    ).astype(U32),
    "v_alignbyte_b32 D, v1, v2, v3": lambda a, b, c: (
        (a.astype(U64) << U64(32) | b) >> (U64(8) * (c & U32(3)).astype(U64))
    ).astype(U32),
    "v_perm_b32 D, v1, v2, v3": perm,
    "v_min3_i32 D, v1, v2, v3": lambda a, b, c: np.minimum(
        np.minimum(a.view(I32), b.view(I32)), c.view(I32)
    ).view(U32),
    "v_max3_u32 D, v1, v2, v3": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "v_med3_i32 D, v1, v2, v3": lambda a, b, c: med3(a.view(I32), b.view(I32), c.view(I32)).view(
        U32
    ),
    "v_med3_u32 D, v1, v2, v3": med3,
    "v_sad_u32 D, v1, v2, v3": lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c,
    "v_sad_u8 D, v1, v2, v3": lambda a, b, c: (
        np.abs(a.view("u1").astype(int) - b.view("u1")).reshape(-1, 4).sum(1).astype(U32) + c
    ),
    "v_add3_u32 D, v1, v2, v3": lambda a, b, c: a + b + c,
    "v_lshl_add_u32 D, v1, v2, v3": lambda a, b, c: (a << sh(b)) + c,
    "v_add_lshl_u32 D, v1, v2, v3": lambda a, b, c: (a + b) << sh(c),
    "v_xad_u32 D, v1, v2, v3": lambda a, b, c: (a ^ b) + c,
    "v_lshl_or_b32 D, v1, v2, v3": lambda a, b, c: (a << sh(b)) | c,
    "v_and_or_b32 D, v1, v2, v3": lambda a, b, c: (a & b) | c,
    "v_or3_b32 D, v1, v2, v3": lambda a, b, c: a | b | c,
    "v_lerp_u8 D, v1, v2, v3": lambda a, b, c: (
        ((a.view("u1").astype(int) + b.view("u1") + (c.view("u1") & 1)) >> 1).astype("u1").view(U32)
    ),
}
ONLY_GFX11 = {
    "v_xor3_b32 D, v1, v2, v3": lambda a, b, c: a ^ b ^ c,
    "v_maxmin_i32 D, v1, v2, v3": lambda a, b, c: np.minimum(
        np.maximum(a.view(I32), b.view(I32)), c.view(I32)
    ).view(U32),
    "v_minmax_u32 D, v1, v2, v3": lambda a, b, c: np.maximum(np.minimum(a, b), c),
}


@pytest.mark.parametrize("wave", [32, 64])
def test_two_sources(warm, wave):
    chip, gpu = warm
    a, b, _ = INTS
    for (line, oracle), got in zip(
        TWO.items(),
        run_lines(gpu, chip, list(TWO), [a, b], wave=wave, user=(0xF0F0F0F0, 0, 0, 0)),
        strict=True,
    ):
        np.testing.assert_array_equal(got, oracle(a, b), err_msg=line)


@pytest.mark.parametrize("wave", [32, 64])
def test_three_sources(warm, wave):
    chip, gpu = warm
    table = THREE | (ONLY_GFX11 if chip == "gfx1100" else {})
    for (line, oracle), got in zip(
        table.items(), run_lines(gpu, chip, list(table), INTS, wave=wave), strict=True
    ):
        np.testing.assert_array_equal(got, oracle(*INTS), err_msg=line)


def wide(low, high):
    return low.astype(U64) | high.astype(U64) << U64(32)


@pytest.mark.parametrize(
    ("line", "oracle"),
    [
        ("v_lshlrev_b64 v[10:11], v3, v[1:2]", lambda x, c: x << (c.astype(U64) & U64(63))),
        ("v_lshrrev_b64 v[10:11], v3, v[1:2]", lambda x, c: x >> (c.astype(U64) & U64(63))),
        (
            "v_ashrrev_i64 v[10:11], v3, v[1:2]",
            lambda x, c: (x.view(I64) >> (c & U32(63)).astype(I64)).view(U64),
        ),
    ],
)
def test_shifts_of_64_bits(warm, line, oracle):
    chip, gpu = warm
    a, b, c = INTS
    low, high, *_ = run_lanes(gpu, chip, line, INTS)
    np.testing.assert_array_equal(wide(low, high), oracle(wide(a, b), c))


@pytest.mark.parametrize("wave", [32, 64])
def test_products_and_carries_of_64_bits(warm, wave):
    chip, gpu = warm
    a, b, c = INTS
    vcc = "vcc" if wave == 64 else "vcc_lo"
    s = "s[10:11]" if wave == 64 else "s10"
    body = f"""
    v_mad_u64_u32 v[10:11], {s}, v1, v2, v[2:3]
    v_add_co_u32 v12, {s}, v1, v2
    v_add_co_ci_u32 v13, {s}, v2, v3, {s}
    """
    low, high, total, top = run_lanes(gpu, chip, body, INTS, wave=wave)
    np.testing.assert_array_equal(wide(low, high), a.astype(U64) * b + wide(b, c))
    np.testing.assert_array_equal(wide(total, top), wide(a, b) + wide(b, c))
    body = f"""
    v_sub_co_u32 v10, {vcc}, v1, v2
    v_sub_co_ci_u32 v11, {vcc}, v2, v3, {vcc}
    v_mad_i64_i32 v[12:13], {s}, v1, v2, v[2:3]
    """
    low, high, total, top = run_lanes(gpu, chip, body, INTS, wave=wave)
    np.testing.assert_array_equal(wide(low, high), wide(a, b) - wide(b, c))
    np.testing.assert_array_equal(wide(total, top), (i64(a) * i64(b)).view(U64) + wide(b, c))


@pytest.mark.parametrize("wave", [32, 64])
def test_masked_lanes_keep_their_values(warm, wave):
    """Only active lanes are written; a mask of none does nothing at all."""
    chip, gpu = warm
    a, b, _ = INTS
    exec_, save = ("exec", "s[10:11]") if wave == 64 else ("exec_lo", "s10")
    mov = "s_mov_b64" if wave == 64 else "s_mov_b32"
    both = "s_and_saveexec_b64" if wave == 64 else "s_and_saveexec_b32"
    vcc = "vcc" if wave == 64 else "vcc_lo"
    body = f"""
    v_mov_b32 v10, v1
    v_mov_b32 v11, v2
    v_cmp_lt_u32 {vcc}, v1, v2
    {both} {save}, {vcc}
    v_add_nc_u32 v10, v1, v2
    {mov} {exec_}, 0
    v_add_nc_u32 v11, v1, v2
    {mov} {exec_}, {save}
    v_mbcnt_lo_u32_b32 v12, {vcc if wave == 32 else "vcc_lo"}, 0
    v_mbcnt_hi_u32_b32 v12, {"0" if wave == 32 else "vcc_hi"}, v12
    """
    one, two, below, _ = run_lanes(gpu, chip, body, [a, b], wave=wave)
    np.testing.assert_array_equal(one, np.where(a < b, a + b, a))
    np.testing.assert_array_equal(two, b)
    whole = len(a) // wave * wave
    flags = (a < b)[:whole].reshape(-1, wave)
    np.testing.assert_array_equal(below[:whole].reshape(-1, wave), flags.cumsum(1) - flags)


TYPES = {
    "i32": lambda x: x.view(I32),
    "u32": lambda x: x,
    "i16": lambda x: x.astype(np.uint16).view(np.int16),
    "u16": lambda x: x.astype(np.uint16),
}
ORDERS = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ne": np.not_equal,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize("kind", TYPES)
def test_compares(warm, kind, wave):
    chip, gpu = warm
    a, b, _ = INTS
    to = "s[10:11]" if wave == 64 else "s10"
    lines = [f"v_cmp_{order}_{kind} {to}, v1, v2\nv_cndmask_b32 D, 0, 1, {to}" for order in ORDERS]
    for (order, oracle), got in zip(
        ORDERS.items(), run_lines(gpu, chip, lines, [a, b], wave=wave), strict=True
    ):
        np.testing.assert_array_equal(got, oracle(TYPES[kind](a), TYPES[kind](b)), err_msg=order)


@pytest.mark.parametrize("kind", ["i64", "u64"])
def test_compares_of_64_bits(warm, kind):
    chip, gpu = warm
    a, b, c = INTS
    x, y = (
        (wide(a, b), wide(c, b)) if kind == "u64" else (wide(a, b).view(I64), wide(c, b).view(I64))
    )
    lines = [
        f"v_cmp_{order}_{kind} s10, v[1:2], v[4:5]\nv_cndmask_b32 D, 0, 1, s10" for order in ORDERS
    ]
    for (order, oracle), got in zip(
        ORDERS.items(), run_lines(gpu, chip, lines, [a, b, c, c, b]), strict=True
    ):
        np.testing.assert_array_equal(got, oracle(x, y), err_msg=order)


def test_cmpx_writes_exec_alone(warm):
    chip, gpu = warm
    a, b, _ = INTS
    body = """
    s_mov_b32 s10, exec_lo
    s_mov_b32 vcc_lo, 0x1234
    v_cmpx_gt_i32 v1, v2
    v_mov_b32 v10, 1
    s_mov_b32 exec_lo, s10
    v_mov_b32 v11, vcc_lo
    """
    got, vcc, *_ = run_lanes(gpu, chip, body, [a, b])
    np.testing.assert_array_equal(got, a.view(I32) > b.view(I32))
    assert set(vcc) == {0x1234}
