"""Float instructions of the vector ALU: f32, f64, f16 against numpy, with all kinds of numbers.

When this fails, float instructions compute other bits than hardware, and kernels are judged
wrongly.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from wavekit import FLOATS, INTS, run_lanes, run_lines, same_floats

F32, F64, F16, U32, U64, I32 = np.float32, np.float64, np.float16, np.uint32, np.uint64, np.int32
A, B, C = (x.view(F32) for x in FLOATS)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def flush(x):
    return np.where(np.abs(x) < np.finfo(F32).tiny, np.copysign(F32(0), x), x).astype(F32)


def fma(a, b, c):
    """Rounded once: the double sum made odd when it is not exact."""
    with np.errstate(all="ignore"):
        p = a.astype(F64) * b
        s = p + c
        back = s - p
        lost = (p - (s - back)) + (c - back)
        bits = s.view(U64).copy()
        fix = (lost != 0) & np.isfinite(s) & (bits & U64(1) == 0)
        bits[fix] += np.where((lost > 0) == (s > 0), U64(1), U64(2**64 - 1))[fix]
        return bits.view(F64).astype(F32)


def low(a, b):
    return np.where(np.signbit(a) & (a == b), a, np.fmin(a, b)).astype(F32)


def high(a, b):
    return np.where(~np.signbit(a) & (a == b), a, np.fmax(a, b)).astype(F32)


def clamp(x):
    return np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(F32) + F32(0)


EXACT = {
    "v_add_f32 D, v1, v2": lambda: A + B,
    "v_sub_f32 D, v1, v2": lambda: A - B,
    "v_subrev_f32 D, v1, v2": lambda: B - A,
    "v_mul_f32 D, v1, v2": lambda: A * B,
    "v_fma_f32 D, v1, v2, v3": lambda: fma(A, B, C),
    "v_fma_f32 D, -v1, |v2|, v3": lambda: fma(-A, np.abs(B), C),
    "v_add_f32 D, |v1|, -v2": lambda: np.abs(A) - B,
    "v_add_f32 D, 1.0, v2": lambda: F32(1) + B,
    "v_mul_f32 D, 0x40490fdb, v2": lambda: np.array([0x40490FDB], U32).view(F32) * B,
    "v_add_f32 D, v1, v2 clamp": lambda: clamp(A + B),
    "v_fmaak_f32 D, v1, v2, 0x3fc00000": lambda: fma(A, B, np.full_like(A, 1.5)),
    "v_fmamk_f32 D, v1, 0x3fc00000, v2": lambda: fma(A, np.full_like(A, 1.5), B),
    "v_min_f32 D, v1, v2": lambda: low(A, B),
    "v_max_f32 D, v1, v2": lambda: high(A, B),
    "v_min3_f32 D, v1, v2, v3": lambda: low(low(A, B), C),
    "v_max3_f32 D, v1, v2, v3": lambda: high(high(A, B), C),
    "v_floor_f32 D, v1": lambda: np.floor(A),
    "v_ceil_f32 D, v1": lambda: np.ceil(A),
    "v_trunc_f32 D, v1": lambda: np.trunc(A),
    "v_rndne_f32 D, v1": lambda: np.rint(A),
    "v_cvt_f32_i32 D, v1": lambda: A.view(I32).astype(F32),
    "v_cvt_f32_u32 D, v1": lambda: A.view(U32).astype(F32),
    "v_cvt_f32_ubyte1 D, v1": lambda: (A.view(U32) >> U32(8) & U32(255)).astype(F32),
    "v_ldexp_f32 D, v1, 5": lambda: np.ldexp(A, 5),
    "v_ldexp_f32 D, v1, -16": lambda: np.ldexp(A.astype(F64), -16).astype(F32),
}


@pytest.mark.parametrize("wave", [32, 64])
def test_exact_results(warm, wave):
    chip, gpu = warm
    for (line, oracle), got in zip(
        EXACT.items(), run_lines(gpu, chip, list(EXACT), FLOATS, wave=wave, ieee=False), strict=True
    ):
        same_floats(got, oracle(), line)


def test_denormals_flushed_as_mode_says(warm):
    """RADV's MODE, 0xC0: f32 denormals neither enter nor leave."""
    chip, gpu = warm
    lines = ["v_add_f32 D, v1, v2", "v_mul_f32 D, v1, v2", "v_max_f32 D, v1, v2"]
    a, b = flush(A), flush(B)
    add, mul, top = run_lines(gpu, chip, lines, FLOATS, wave=64, mode=0xC0, ieee=False)
    same_floats(add, flush(a + b), "add")
    same_floats(mul, flush(a * b), "mul")
    same_floats(top, high(a, b), "max")


def test_multiplier_of_the_output(warm):
    chip, gpu = warm
    lines = [f"v_add_f32 D, v1, v2 {mod}" for mod in ("mul:2", "mul:4", "div:2")]
    total = flush(flush(A) + flush(B))
    total = np.where(total == 0, F32(0), total)  # a negative zero becomes +0
    for factor, got in zip(
        (2, 4, 0.5), run_lines(gpu, chip, lines, FLOATS, mode=0xC0, ieee=False), strict=True
    ):
        same_floats(got, flush(total * F32(factor)), f"omod {factor}")


def test_signalling_nan_wins_in_ieee_mode(warm):
    chip, gpu = warm
    a, b = (
        np.array([0x7F800001, 0x3F800000, 0x7FC00000], U32),
        np.array([0x3F800000, 0xFF800123, 0x40000000], U32),
    )
    ieee, _ = run_lines(
        gpu, chip, ["v_min_f32 D, v1, v2", "v_max_f32 D, v1, v2"], [a, b], ieee=True
    )
    assert [hex(x) for x in ieee] == ["0x7fc00001", "0xffc00123", "0x40000000"]
    plain, _ = run_lines(
        gpu, chip, ["v_min_f32 D, v1, v2", "v_max_f32 D, v1, v2"], [a, b], ieee=False
    )
    assert [hex(x) for x in plain] == ["0x3f800000", "0x3f800000", "0x40000000"]


def turns(x, function):
    x = x.astype(F64)
    return function(2 * math.pi * (x - np.floor(x)))


WITHIN_ONE_ULP = {
    "v_rcp_f32 D, v1": lambda x: 1 / x,
    "v_rsq_f32 D, v1": lambda x: 1 / np.sqrt(x),
    "v_sqrt_f32 D, v1": np.sqrt,
    "v_exp_f32 D, v1": np.exp2,
    "v_log_f32 D, v1": np.log2,
    "v_sin_f32 D, v1": lambda x: turns(x, np.sin),
    "v_cos_f32 D, v1": lambda x: turns(x, np.cos),
}


def test_transcendental_functions(warm):
    """Within one step of the exact result; denormals flushed whatever MODE says."""
    chip, gpu = warm
    x = np.concatenate([A, np.linspace(-8, 8, 333, dtype=F32)])
    for (line, function), got in zip(
        WITHIN_ONE_ULP.items(), run_lines(gpu, chip, list(WITHIN_ONE_ULP), [x]), strict=True
    ):
        same_floats(got, flush(function(flush(x).astype(F64)).astype(F32)), line, ulps=1)


def saturated(x, low_, high_, dtype):
    y = np.nan_to_num(np.trunc(x.astype(F64)), nan=0.0, posinf=1e30, neginf=-1e30)
    return np.clip(y, low_, high_).astype(np.int64).astype(dtype)


def test_conversions_to_integers(warm):
    chip, gpu = warm
    lines = [
        "v_cvt_i32_f32 D, v1",
        "v_cvt_u32_f32 D, v1",
        "v_cvt_i32_f64 D, v[1:2]",
        "v_cvt_u32_f64 D, v[1:2]",
    ]
    d = (FLOATS[0].astype(U64) | FLOATS[1].astype(U64) << U64(32)).view(F64)
    i, u, di, du = run_lines(gpu, chip, lines, FLOATS)
    np.testing.assert_array_equal(i.view(I32), saturated(A, -(2**31), 2**31 - 1, I32))
    np.testing.assert_array_equal(u, saturated(A, 0, 2**32 - 1, U32))
    np.testing.assert_array_equal(di.view(I32), saturated(d, -(2**31), 2**31 - 1, I32))
    np.testing.assert_array_equal(du, saturated(d, 0, 2**32 - 1, U32))


def test_mantissa_and_exponent(warm):
    chip, gpu = warm
    mant, exp, fract, _ = run_lanes(
        gpu,
        chip,
        "v_frexp_mant_f32 v10, v1\nv_frexp_exp_i32_f32 v11, v1\nv_fract_f32 v12, v1",
        FLOATS,
    )
    m, e = np.frexp(A)
    same_floats(mant, m, "mant")
    np.testing.assert_array_equal(exp.view(I32), np.where(np.isfinite(A), e, 0))
    finite = np.isfinite(A)
    same_floats(
        fract[finite],
        np.minimum(A - np.floor(A), F32(np.nextafter(F32(1), F32(0))))[finite],
        "fract",
    )


FLOAT_ORDERS = {
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
}


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
def test_compares(warm, kind):
    chip, gpu = warm
    if kind == "f64":
        x, y = (
            ((c.astype(U64) << U64(32)) | d).view(F64)
            for c, d in ((FLOATS[0], FLOATS[2]), (FLOATS[1], FLOATS[2]))
        )
        inputs, names = [FLOATS[2], FLOATS[0], FLOATS[2], FLOATS[1]], ("v[1:2]", "v[3:4]")
    else:
        cut = (
            (lambda v: v.astype(np.uint16).view(F16)) if kind == "f16" else (lambda v: v.view(F32))
        )
        inputs, names = [FLOATS[0], FLOATS[1]], ("v1", "v2")
        if kind == "f16":
            inputs = [v >> U32(16) for v in inputs]
        x, y = cut(inputs[0]), cut(inputs[1])
    lines = [
        f"v_cmp_{o}_{kind} s10, {names[0]}, {names[1]}\nv_cndmask_b32 D, 0, 1, s10"
        for o in FLOAT_ORDERS
    ]
    for (order, oracle), got in zip(
        FLOAT_ORDERS.items(), run_lines(gpu, chip, lines, inputs), strict=True
    ):
        np.testing.assert_array_equal(got, oracle(x, y), err_msg=order)


def test_classes(warm):
    chip, gpu = warm
    values = [
        0x7F800001,
        0x7FC00000,
        0xFF800000,
        0xBF800000,
        0x80000001,
        1 << 31,
        0,
        1,
        0x3F800000,
        0x7F800000,
    ]
    x = np.array(values, U32)
    for bit in range(10):
        (got,) = run_lines(
            gpu,
            chip,
            ["v_cmp_class_f32 s10, v1, v2\nv_cndmask_b32 D, 0, 1, s10"],
            [x, np.full(10, 1 << bit, U32)],
        )
        assert list(got) == [n == bit for n in range(10)]


DOUBLES = {
    "v_add_f64 v[10:11], v[1:2], v[3:4]": lambda a, b: a + b,
    "v_mul_f64 v[10:11], v[1:2], -v[3:4]": lambda a, b: a * -b,
    "v_max_f64 v[10:11], v[1:2], v[3:4]": np.fmax,
    "v_floor_f64 v[10:11], v[1:2]": lambda a, b: np.floor(a),
    "v_rndne_f64 v[10:11], v[1:2]": lambda a, b: np.rint(a),
    "v_sqrt_f64 v[10:11], |v[1:2]|": lambda a, b: np.sqrt(np.abs(a)),
    "v_rcp_f64 v[10:11], v[1:2]": lambda a, b: 1 / a,
    "v_cvt_f64_i32 v[10:11], v1": lambda a, b: (
        (a.view(U64) & U64(0xFFFFFFFF)).astype(U32).view(I32).astype(F64)
    ),
    "v_add_f64 v[10:11], v[1:2], 0.5": lambda a, b: a + 0.5,
    "v_fma_f64 v[10:11], v[1:2], 2.0, v[1:2]": lambda a, b: a * 2 + a,
}


@pytest.mark.parametrize("line", DOUBLES)
def test_doubles(warm, line):
    chip, gpu = warm
    r = np.random.default_rng(7)
    a = (r.standard_normal(96) * 10.0 ** r.integers(-20, 20, 96)).astype(F64)
    a[:6] = [0.0, -0.0, np.inf, np.nan, 5e-324, 2.5]
    b = np.roll(a, 17)
    split = [x.view(U32)[k::2].copy() for x in (a, b) for k in (0, 1)]
    lo, hi, *_ = run_lanes(gpu, chip, line, split)
    got = (lo.astype(U64) | hi.astype(U64) << U64(32)).view(F64)
    np.testing.assert_array_equal(got, DOUBLES[line](a, b), err_msg=line)


HALVES = {
    "v_add_f16 D, v1, v2": lambda a, b, c: (a + b).astype(F16),
    "v_sub_f16 D, v1, v2": lambda a, b, c: (a - b).astype(F16),
    "v_mul_f16 D, v1, v2": lambda a, b, c: (a * b).astype(F16),
    "v_fma_f16 D, v1, v2, v3": lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(F16),
    "v_sqrt_f16 D, v1": lambda a, b, c: np.sqrt(a).astype(F16),
    "v_rcp_f16 D, v1": lambda a, b, c: (1 / a).astype(F16),
    "v_cvt_f16_f32 D, v4": lambda a, b, c: A.astype(F16),
    "v_floor_f16 D, v1": lambda a, b, c: np.floor(a).astype(F16),
}


def test_halves_keep_the_upper_half(warm):
    chip, gpu = warm
    h = [v >> U32(16) for v in FLOATS]
    a, b, c = (v.astype(np.uint16).view(F16).astype(F64) for v in h)
    lines = [f"v_mov_b32 D, 0x1234abcd\n{line}" for line in HALVES]
    for at in range(0, len(lines), 4):
        body = "\n".join(
            line.replace("D", f"v{10 + k}") for k, line in enumerate(lines[at : at + 4])
        )
        for (line, oracle), got in zip(
            list(HALVES.items())[at : at + 4], run_lanes(gpu, chip, body, [*h, A]), strict=True
        ):
            want = oracle(a, b, c)
            low16 = (got & U32(0xFFFF)).astype(np.uint16).view(F16)
            assert set(got >> U32(16)) == {0x1234}, line
            np.testing.assert_array_equal(low16, want, err_msg=line)


def test_packed_halves_and_integers(warm):
    chip, gpu = warm
    a, b = INTS[0], INTS[1]
    x, y = (v.view(np.uint16).reshape(-1, 2) for v in (a, b))
    lines = [
        "v_pk_add_u16 D, v1, v2",
        "v_pk_mul_lo_u16 D, v1, v2",
        "v_pk_max_i16 D, v1, v2",
        "v_pk_lshlrev_b16 D, 3, v2 op_sel_hi:[0,1]",
    ]
    add, mul, top, shift = run_lines(gpu, chip, lines, [a, b])
    np.testing.assert_array_equal(add.view(np.uint16).reshape(-1, 2), x + y)
    np.testing.assert_array_equal(mul.view(np.uint16).reshape(-1, 2), x * y)
    np.testing.assert_array_equal(
        top.view(np.int16).reshape(-1, 2), np.maximum(x.view(np.int16), y.view(np.int16))
    )
    np.testing.assert_array_equal(shift.view(np.uint16).reshape(-1, 2), y << np.uint16(3))
    lines = [
        "v_pk_add_f16 D, v1, v2",
        "v_pk_mul_f16 D, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]",
        "v_pk_fma_f16 D, v1, 1.0, v2 op_sel_hi:[1,0,1]",
    ]
    (
        add,
        mul,
        one,
    ) = run_lines(gpu, chip, lines, [a, b])
    p, q = x.view(F16).astype(F64), y.view(F16).astype(F64)
    for got, want in ((add, p + q), (mul, p[:, ::-1] * q), (one, p + q)):
        np.testing.assert_array_equal(got.view(F16).reshape(-1, 2), want.astype(F16))


def test_mixed_precision(warm):
    chip, gpu = warm
    h = (FLOATS[0] & U32(0xFFFF0000)) | FLOATS[1] >> U32(16)
    hi = (h >> U32(16)).astype(np.uint16).view(F16).astype(F32)
    (got,) = run_lines(
        gpu, chip, ["v_fma_mix_f32 D, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]"], [h, B, C]
    )
    same_floats(got, fma(hi, B, C), "mix")


def test_rounding_modes(warm):
    """S_ROUND_MODE: toward zero, up and down, for sums of f32."""
    chip, gpu = warm
    a = np.array([1.0, -1.0, 3.0], F32)
    b = np.array([2.0**-30, -(2.0**-30), 2.0**-30], F32)
    up, step = np.nextafter(a, np.inf, dtype=F32), np.nextafter(a, -np.inf, dtype=F32)
    for mode, want in ((3, a), (1, [up[0], -1.0, up[2]]), (2, [1.0, step[1], 3.0])):
        body = f"s_round_mode {mode}\nv_add_f32 v10, v1, v2\ns_round_mode 0"
        got, *_ = run_lanes(gpu, chip, body, [a, b])
        assert list(got.view(F32)) == list(want)


def test_dual_instructions_read_before_they_write(gpu):
    chip = "gfx1100"
    body = """
    v_mov_b32 v10, v1
    v_mov_b32 v11, v2
    v_dual_mul_f32 v10, v1, v2 :: v_dual_add_f32 v11, v10, v3
    v_mov_b32 v12, v1
    v_mov_b32 v13, v2
    v_dual_mov_b32 v12, v13 :: v_dual_mov_b32 v13, v12
    """
    product, total, one, two = run_lanes(gpu, chip, body, FLOATS)
    same_floats(product, A * B, "X")
    same_floats(total, A + C, "Y")
    np.testing.assert_array_equal(one, FLOATS[1])
    np.testing.assert_array_equal(two, FLOATS[0])


def test_upper_halves_by_op_sel(warm):
    """Sources and destination may each be the upper half; the other half of the result stays."""
    chip, gpu = warm
    h = [(v & U32(0xFFFF0000)) | v >> U32(16) for v in FLOATS]
    hi = [(v >> U32(16)).astype(np.uint16).view(F16) for v in h]
    lo = [v.astype(np.uint16).view(F16) for v in h]
    body = """
    v_mov_b32 v10, v3
    v_mov_b32 v11, v3
    v_add_nc_u16 v10, v1, v2 op_sel:[1,0,1]
    v_fma_f16 v11, v1, v2, v3 op_sel:[0,1,1,0]
    """
    total, fused, *_ = run_lanes(gpu, chip, body, h)
    np.testing.assert_array_equal(total >> U32(16), (h[0] >> U32(16)) + h[1] & U32(0xFFFF))
    np.testing.assert_array_equal(total & U32(0xFFFF), h[2] & U32(0xFFFF))
    want = (lo[0].astype(np.longdouble) * hi[1] + hi[2]).astype(F16)
    np.testing.assert_array_equal(fused.astype(np.uint16).view(F16), want)
    np.testing.assert_array_equal(fused >> U32(16), h[2] >> U32(16))
