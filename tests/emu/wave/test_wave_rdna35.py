"""Floats of the scalar ALU, a scalar beside DPP: gfx1150 has them, gfx1100 names what it lacks.

When this fails, kernels for gfx1150 run wrongly, or run where they cannot.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wavekit import asm, run_lanes

from sparkle_drv.amd.isa.assembly import assemble
from sparkle_drv.testing.emulator import EmulatedGpu, Machine

L = np.arange(32, dtype=np.uint32)


@pytest.fixture(scope="module")
def gfx1150():
    with (
        Machine(["gfx1150"], job_limit_s=5) as machine,
        machine.open() as node,
        EmulatedGpu(node) as gpu,
    ):
        yield gpu


def f(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def h(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


A, B, D = 2.75, -1.5, 0.5
F32 = {
    "s_add_f32 s12, s10, s11": f(A + B),
    "s_sub_f32 s12, s10, s11": f(A - B),
    "s_mul_f32 s12, s10, s11": f(A * B),
    "s_min_f32 s12, s10, s11": f(B),
    "s_max_f32 s12, s10, s11": f(A),
    "s_fmac_f32 s12, s10, s11": f(A * B + D),
    "s_fmaak_f32 s12, s10, s11, 0x40400000": f(A * B + 3),
    "s_fmamk_f32 s12, s10, 0x40400000, s11": f(A * 3 + B),
    "s_add_f32 s12, s10, 1.0": f(A + 1),
    "s_ceil_f32 s12, s11": f(-1.0),
    "s_floor_f32 s12, s11": f(-2.0),
    "s_trunc_f32 s12, s10": f(2.0),
    "s_rndne_f32 s12, s10": f(3.0),
    "s_cvt_f32_i32 s12, -3": f(-3.0),
    "s_cvt_f32_u32 s12, -3": f(2.0**32),
    "s_cvt_i32_f32 s12, s11": 0xFFFFFFFF,
    "s_cvt_u32_f32 s12, s11": 0,
    "s_cvt_u32_f32 s12, s10": 2,
    "s_cvt_f16_f32 s12, s10": h(A),
    "s_cvt_pk_rtz_f16_f32 s12, s10, s11": h(A) | h(B) << 16,
}
F16 = {
    "s_add_f16 s12, s10, s11": h(A + B),
    "s_sub_f16 s12, s10, s11": h(A - B),
    "s_mul_f16 s12, s10, s11": h(A * B),
    "s_min_f16 s12, s10, s11": h(B),
    "s_max_f16 s12, s10, s11": h(A),
    "s_fmac_f16 s12, s10, s11": h(A * B + D),
    "s_ceil_f16 s12, s11": h(-1.0),
    "s_floor_f16 s12, s11": h(-2.0),
    "s_trunc_f16 s12, s10": h(2.0),
    "s_rndne_f16 s12, s10": h(3.0),
    "s_add_f16 s12, s10, 1.0": h(A + 1),
    "s_cvt_f32_f16 s12, s10": f(A),
    "s_cvt_hi_f32_f16 s12, s10": f(7.0),
}
TRUE = {
    "lt": (B, A), "eq": (A, A), "le": (B, A), "gt": (A, B), "lg": (A, B), "ge": (A, A),
    "o": (A, B), "u": (A, np.nan), "nge": (A, np.nan), "nlg": (A, np.nan), "ngt": (B, A),
    "nle": (A, B), "neq": (A, np.nan), "nlt": (A, np.nan),
}  # fmt: skip
FALSE = {
    "lt": (A, A), "eq": (A, np.nan), "le": (A, B), "gt": (A, np.nan), "lg": (A, np.nan),
    "ge": (B, A), "o": (A, np.nan), "u": (A, B), "nge": (A, A), "nlg": (A, B), "ngt": (A, B),
    "nle": (B, A), "neq": (A, A), "nlt": (B, A),
}  # fmt: skip


def scalar(gpu, line, values):
    """s12 after `line`, by its words; s10, s11 and s12 hold `values` before."""
    words = [
        word
        for k, value in enumerate(values)
        for word in assemble(f"s_mov_b32 s{10 + k}, {value:#x}", "gfx1150")
    ]
    words += assemble(line + "\nv_mov_b32 v10, s12", "gfx1150")
    body = "\n".join(f".long {word:#x}" for word in words)
    return int(run_lanes(gpu, "gfx1100", body, [L])[0][0])


@pytest.mark.parametrize("line", F32)
def test_single(gfx1150, line):
    assert scalar(gfx1150, line, [f(A), f(B), f(D)]) == F32[line]


@pytest.mark.parametrize("line", F16)
def test_half(gfx1150, line):
    got = scalar(gfx1150, line, [h(A) | h(7.0) << 16, h(B) | 0xFFFF0000, h(D)])
    assert got == F16[line]


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("name", TRUE)
def test_compare(gfx1150, name, size):
    to = h if size == 16 else f
    for (a, b), want in ((TRUE[name], 1), (FALSE[name], 0)):
        line = f"s_cmp_{name}_f{size} s10, s11\ns_cselect_b32 s12, 1, 0"
        assert scalar(gfx1150, line, [to(a), to(b), 7]) == want


def test_mode_holds(gfx1150):
    """Rounding upwards, and denormals that are flushed."""
    words = assemble("s_round_mode 0x1\ns_denorm_mode 0x0", "gfx1150")
    prepare = "\n".join(f".long {word:#x}" for word in words)
    line = assemble(
        "s_mov_b32 s10, 1\ns_add_f32 s12, s10, 1.0\ns_mov_b32 s11, 0x33000001\n"
        "s_add_f32 s13, s11, 1.0\nv_mov_b32 v10, s12\nv_mov_b32 v11, s13",
        "gfx1150",
    )
    body = prepare + "\n" + "\n".join(f".long {word:#x}" for word in line)
    out = run_lanes(gfx1150, "gfx1100", body, [L])
    assert (out[0][0], out[1][0]) == (f(1.0), f(1.0) + 1)


def test_a_scalar_beside_dpp(gfx1150):
    out = run_lanes(gfx1150, "gfx1100", scalar_dpp(), [L], user=(100, 0, 0, 0))
    np.testing.assert_array_equal(out[0], (L ^ 15) + 100)


def scalar_dpp() -> str:
    line = "v_add_nc_u32_e64_dpp v10, v1, v2 row_mirror row_mask:0xf bank_mask:0xf"
    words = asm("gfx1100", line)
    words[1] = words[1] & ~(0x1FF << 9) | 4 << 9  # src1 = s4
    return "\n".join(f".long {word:#x}" for word in words)


@pytest.fixture
def gfx1100():
    with (
        Machine(["gfx1100"], job_limit_s=5) as machine,
        machine.open() as node,
        EmulatedGpu(node) as gpu,
    ):
        yield gpu


@pytest.mark.parametrize("text", ["s_add_f32", "s_cmp_lt_f16", "s_cvt_f32_i32", "s_singleuse_vdst"])
def test_gfx1100_names_what_it_lacks(gfx1100, text):
    golden = Path(__file__).parents[2] / "golden" / "isa_gfx1150.txt"
    line = next(line for line in golden.read_text().splitlines() if f"| {text} " in line)
    words = [int(word, 16) for word in line.split(" | ")[0].split()]
    body = "\n".join(f".long {word:#x}" for word in words)
    with pytest.raises(OSError, match=f"gfx11.0 has no {text}"):
        run_lanes(gfx1100, "gfx1100", body, [L])


def test_gfx1100_takes_no_scalar_beside_dpp(gfx1100):
    with pytest.raises(OSError, match="with DPP has a scalar as src1"):
        run_lanes(gfx1100, "gfx1100", scalar_dpp(), [L])
