"""Results that somebody saw on RDNA2 or RDNA3 silicon, or that AMD or a compiler for it states.

When this fails, the emulator contradicts results seen on real cards.

Each row pins dwords taken from its source, never from the emulator. Sources:

* tinygrad: test/amd/hw of tinygrad a9069c17, whose expectations were compared with an RDNA3 card.
* rocjitsu: emulation/rocjitsu of ROCm rocm-systems, AMD's own emulator. Its headers say which cards
  a rule was captured on.
* LLVM: lib/Target/AMDGPU. * ACO: Mesa's src/amd/compiler. * RDNA3: AMD's ISA document.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from wavekit import asm, run_lanes

L = np.arange(32, dtype=np.uint32)
KEEP, FLUSH = 0xF0, 0x00  # MODE: denormals of all formats are kept, or flushed on both sides
NAN = 0xFFC00000


def f(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def d(value: float) -> tuple[int, int]:
    """Low and high half of a double."""
    return struct.unpack("<II", struct.pack("<d", value))


@dataclass(frozen=True)
class Row:
    """`body` computes v10 (and v11) from v1 and up; one tuple of inputs and outputs a lane."""

    source: str
    body: str
    lanes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]
    mode: int = KEEP
    ieee: bool = True
    wave: int = 32


SCALE32 = "v_div_scale_f32 v10, vcc_lo, v1, v2, v3\nv_cndmask_b32 v11, 0, 1, vcc_lo"
SCALE64 = (
    "v_div_scale_f64 v[10:11], vcc_lo, v[1:2], v[3:4], v[5:6]\nv_cndmask_b32 v12, 0, 1, vcc_lo"
)
BIG, ONE, TINY = f(float.fromhex("0x1.fffffep127")), f(1.0), 1


def scaled(value, denominator, numerator, result, vcc):
    return (value, denominator, numerator), (result, vcc)


def scaled64(value, denominator, numerator, result, vcc):
    return (*d(value), *d(denominator), *d(numerator)), (*result, vcc)


ADD = "v_add_f32 v10, v1, v2"
SUM = [((f(3.0), ONE), (f(4.0),))]
TWICE = [((f(3.0), ONE), (f(8.0),))]
HALF_SUM = ((0x4200, 0x3C00),)  # 3 + 1
CLAMPED = "v_add_co_u32 v10, vcc_lo, v1, v2{0}\nv_cndmask_b32 v11, 0, 1, vcc_lo"
MOST = 0xFFFFFFFF

ROWS = {
    "fract f32": Row(
        "rocjitsu fract.h (captured on gfx1201); tinygrad test_vop1: NaN for both",
        "v_fract_f32 v10, v1",
        [
            ((0x7F800000,), (NAN,)),
            ((0xFF800000,), (NAN,)),
            ((0x7FC00000,), (0x7FC00000,)),
            ((0x7F800001,), (0x7FC00001,)),
            ((0x80000000,), (0,)),
            ((f(-1.25),), (f(0.75),)),
            ((f(-(2.0**-30)),), (0x3F7FFFFF,)),
            ((f(5.0),), (0,)),
        ],
    ),
    "fract f16": Row(
        "rocjitsu fract.h",
        "v_fract_f16 v10, v1",
        [
            ((0x7C00,), (0xFE00,)),
            ((0xFC00,), (0xFE00,)),
            ((0x7E00,), (0x7E00,)),
            ((0x8001,), (0x3BFF,)),
            ((0xBD00,), (0x3A00,)),
        ],
    ),
    "fract f64": Row(
        "rocjitsu fract.h",
        "v_fract_f64 v[10:11], v[1:2]",
        [
            ((0, 0x7FF00000), (0, 0xFFF80000)),
            ((0, 0xFFF00000), (0, 0xFFF80000)),
            ((1, 0x7FF80000), (1, 0x7FF80000)),
            (d(-0.0), d(0.0)),
            (d(-1.25), d(0.75)),
            (d(-(2.0**-70)), (0xFFFFFFFF, 0x3FEFFFFF)),
        ],
    ),
    "div_scale f32": Row(
        "tinygrad test_vop3 TestDivScale; rocjitsu division.h (checked on gfx1100 and gfx1201)",
        SCALE32,
        [
            scaled(ONE, f(4.0), ONE, ONE, 0),
            scaled(ONE, 0, ONE, NAN, 1),
            scaled(0, ONE, 0, NAN, 1),
            scaled(0, 0, 0, NAN, 0),
            scaled(ONE, ONE, BIG, f(2.0**64), 1),
            scaled(BIG, ONE, BIG, BIG, 1),
            scaled(f(2.0**-126), ONE, f(2.0**-126), f(2.0**-62), 1),
            scaled(ONE, ONE, f(2.0**-126), ONE, 1),
            scaled(ONE, f(2.0**127), ONE, ONE, 1),
            scaled(f(2.0**127), f(2.0**127), ONE, f(2.0**63), 1),
            scaled(f(2.0**126), f(2.0**126), f(2.0**100), f(2.0**62), 0),
            scaled(TINY, TINY, f(2.0**-100), f(2.0**-85), 0),
            scaled(f(2.0**-100), TINY, f(2.0**-100), f(2.0**-36), 0),
            scaled(f(2.0**-103), f(2.0**-60), f(2.0**-103), f(2.0**-39), 0),
            scaled(f(2.0**-60), f(2.0**-60), f(2.0**-103), f(2.0**4), 0),
            scaled(f(2.0**-102), f(2.0**-60), f(2.0**-102), f(2.0**-102), 0),
        ],
    ),
    "div_scale f32, a denormal that is flushed": Row(
        "tinygrad test_vop3 test_div_scale_f32_denorm_denom",
        SCALE32,
        [scaled(TINY, TINY, ONE, NAN, 1)],
        mode=FLUSH,
    ),
    "div_scale f64": Row(
        "tinygrad test_vop3 TestDivScaleF64; rocjitsu division.h",
        SCALE64,
        [
            scaled64(2.0, 2.0, 1.0, d(2.0), 0),
            scaled64(1.0, 0.0, 1.0, (0, 0xFFF80000), 1),
            scaled64(0.0, 1.0, 0.0, (0, 0xFFF80000), 1),
            scaled64(1.0, 1.0, 2.0**768, d(2.0**128), 1),
            scaled64(1.0, 1.0, 2.0**767, d(1.0), 0),
            scaled64(2.0**-768, 1.0, 2.0**-768, d(2.0**-640), 1),
            scaled64(2.0**1022, 2.0**1022, 2.0**900, d(2.0**894), 0),
            scaled64(2.0**-970, 2.0**-900, 2.0**-970, d(2.0**-842), 0),
            scaled64(2.0**-969, 2.0**-900, 2.0**-969, d(2.0**-969), 0),
        ],
    ),
    "omod without IEEE, denormals flushed": Row(
        "ACO aco_optimizer.cpp; RDNA3, output modifiers", f"{ADD} mul:2", TWICE, FLUSH, False
    ),
    "omod with IEEE": Row(
        "tinygrad test_vop3 test_omod_ignored; LLVM SIFoldOperands", f"{ADD} mul:2", SUM, FLUSH
    ),
    "omod, output denormals kept": Row(
        "ACO aco_optimizer.cpp: no effect with denormals", f"{ADD} mul:2", SUM, 0x20, False
    ),
    "omod, input denormals kept": Row(
        "rocjitsu output_modifier.h: flushed output counts", f"{ADD} mul:2", TWICE, 0x10, False
    ),
    "omod, denormals of halves alone kept": Row(
        "ACO: each format has its own", f"{ADD} mul:2", TWICE, 0xC0, False
    ),
    "omod, zeros and the least normal": Row(
        "rocjitsu output_modifier.h (gfx1030, gfx1010): zeros lose their sign",
        f"{ADD} div:2",
        [
            ((0x80000000, 0x80000000), (0,)),
            ((0x80800000, 0x80000000), (0x80000000,)),
            ((0x00800000, 0), (0,)),
            ((0xFF800000, ONE), (0xFF800000,)),
        ],
        FLUSH,
        False,
    ),
    "omod of a half": Row(
        "rocjitsu output_modifier.h (gfx1100)",
        "v_add_f16 v10, v1, v2 mul:4",
        [((0x4200, 0x3C00), (0x4C00,)), ((0x8000, 0x8000), (0,))],
        FLUSH,
        False,
    ),
    "omod of a half with denormals": Row(
        "ACO", "v_add_f16 v10, v1, v2 mul:4", [((0x4200, 0x3C00), (0x4400,))], 0xC0, False
    ),
    "omod of a double": Row(
        "rocjitsu output_modifier.h",
        "v_add_f64 v[10:11], v[1:2], v[3:4] mul:2",
        [((*d(3.0), *d(1.0)), d(8.0)), ((*d(-0.0), *d(-0.0)), d(0.0))],
        FLUSH,
        False,
    ),
    "omod of a double with denormals": Row(
        "ACO",
        "v_add_f64 v[10:11], v[1:2], v[3:4] mul:2",
        [((*d(3.0), *d(1.0)), d(4.0))],
        0xC0,
        False,
    ),
    "input denormals kept, output flushed": Row(
        "LLVM SIDefines.h FP_DENORM_FLUSH_OUT is 1; rocjitsu division.h: bit 0 preserves inputs",
        "v_mul_f32 v10, v1, v2",
        [((TINY, f(2.0**100)), (f(2.0**-49),)), ((f(2.0**-126), f(0.5)), (0,))],
        0x50,
        False,
    ),
    "input denormals flushed, output kept": Row(
        "LLVM SIDefines.h FP_DENORM_FLUSH_IN is 2",
        "v_mul_f32 v10, v1, v2",
        [((TINY, f(2.0**100)), (0,)), ((f(2.0**-126), f(0.5)), (0x00400000,))],
        0xA0,
        False,
    ),
    "input denormals of halves kept, output flushed": Row(
        "LLVM SIDefines.h",
        "v_mul_f16 v10, v1, v2",
        [((1, 0x6400), (0x0400,)), ((0x0400, 0x3800), (0,))],
        0x50,
        False,
    ),
    "input denormals of doubles flushed, output kept": Row(
        "LLVM SIDefines.h",
        "v_mul_f64 v[10:11], v[1:2], v[3:4]",
        [((1, 0, *d(2.0**100)), (0, 0)), ((0, 0x00100000, *d(0.5)), (0, 0x00080000))],
        0xA0,
        False,
    ),
    "add_co wraps": Row(
        "RDNA3 V_ADD_CO_U32",
        CLAMPED.format(""),
        [((MOST, 2), (1, 1)), ((7, 8), (15, 0))],
    ),
    "add_co clamps": Row(
        "RDNA3, CLAMP of integers: to the largest value",
        CLAMPED.format(" clamp"),
        [((MOST, 2), (MOST, 1)), ((7, 8), (15, 0))],
    ),
    "sub_co clamps": Row(
        "RDNA3, CLAMP of integers: to the smallest value",
        CLAMPED.replace("add_co", "sub_co").format(" clamp"),
        [((1, 2), (0, 1)), ((9, 2), (7, 0))],
    ),
    "subrev_co clamps": Row(
        "RDNA3, CLAMP of integers",
        CLAMPED.replace("add_co", "subrev_co").format(" clamp"),
        [((2, 1), (0, 1)), ((2, 9), (7, 0))],
    ),
    "add_co_ci clamps": Row(
        "RDNA3, CLAMP of integers",
        "s_mov_b32 vcc_lo, -1\n"
        "v_add_co_ci_u32 v10, vcc_lo, v1, v2, vcc_lo clamp\nv_cndmask_b32 v11, 0, 1, vcc_lo",
        [((MOST, 0), (MOST, 1)), ((7, 8), (16, 0))],
    ),
    "sub_co_ci clamps": Row(
        "RDNA3, CLAMP of integers",
        "s_mov_b32 vcc_lo, -1\n"
        "v_sub_co_ci_u32 v10, vcc_lo, v1, v2, vcc_lo clamp\nv_cndmask_b32 v11, 0, 1, vcc_lo",
        [((2, 2), (0, 1)), ((9, 2), (6, 0))],
    ),
    "a literal of 64 bits without sign": Row(
        "tinygrad test_vop3 TestB64VOPLiteral",
        "v_lshlrev_b64 v[10:11], 4, 0xdeadbeef",
        [((), (0xEADBEEF0, 0x0000000D))],
    ),
    "a literal that is shifted right": Row(
        "tinygrad: B64 is zero-extended",
        "v_lshrrev_b64 v[10:11], 4, 0xdeadbeef",
        [((), (0x0DEADBEE, 0))],
    ),
    "a literal of 64 bits with sign": Row(
        "RDNA3: literals of I64 are sign-extended",
        "v_ashrrev_i64 v[10:11], 4, 0xdeadbeef",
        [((), (0xFDEADBEE, 0xFFFFFFFF))],
    ),
    "packed integers and 2.0": Row(
        "tinygrad test_vop3p test_v_pk_add_u16_float_inline_const_opsel; LLVM "
        "AMDGPUBaseInfo.cpp getInlineEncodingV216",
        "v_pk_add_u16 v10, v1, 2.0",
        [((0x00030005,), (0x40030005,))],
    ),
    "packed integers and 2.0, the low half twice": Row(
        "LLVM getInlineEncodingV216",
        "v_pk_add_u16 v10, v1, 2.0 op_sel_hi:[1,0]",
        [((0x00030005,), (0x00030005,))],
    ),
    "packed integers and -1": Row(
        "LLVM getInlineEncodingV216: integers are sign-extended to 32 bits",
        "v_pk_add_u16 v10, v1, -1",
        [((0x00030005,), (0x00020004,))],
    ),
    "packed halves and 2.0": Row(
        "tinygrad test_vop3p test_v_pk_mul_f16_with_inline_constant",
        "v_pk_mul_f16 v10, v1, 2.0",
        [((0x44004200,), (0x00004600,))],
    ),
    "16-bit integers and 2.0": Row(
        "LLVM getInlineEncodingV216, comment: UI16 instructions see the single-precision value",
        "v_mov_b32 v10, 0\nv_max_u16 v10, v1, 2.0",
        [((5,), (5,))],
    ),
}

RDNA3_ROWS = {
    "permlane64 in a wave32": Row(
        "tinygrad test_vop1 TestPermlane64; RDNA3: treated as a scalar NOP",
        "v_mov_b32 v10, 0x12345678\nv_permlane64_b32 v10, v1",
        [((0xCAFEBABE,), (0x12345678,))],
    ),
    "permlane64 in a wave64": Row(
        "RDNA3 V_PERMLANE64_B32",
        "v_permlane64_b32 v10, v1",
        [((n,), (n ^ 32,)) for n in range(64)],
        wave=64,
    ),
}


def check(gpu, chip, row):
    count = max(1, *(len(given) for given, _ in row.lanes))
    inputs = np.zeros((count, row.wave), np.uint32)
    for lane, (given, _) in enumerate(row.lanes):
        inputs[: len(given), lane] = given
    options = {"wave": row.wave, "mode": row.mode, "ieee": row.ieee}
    out = run_lanes(gpu, chip, row.body, list(inputs), **options)
    for lane, (given, wanted) in enumerate(row.lanes):
        got = tuple(int(out[k][lane]) for k in range(len(wanted)))
        said = f"{[hex(x) for x in given]}: {[hex(x) for x in got]}, {[hex(x) for x in wanted]}"
        assert got == wanted, f"{row.source}: {said} is what silicon gives"


@pytest.mark.parametrize("name", ROWS)
def test_a_value_of_silicon(warm, name):
    chip, gpu = warm
    check(gpu, chip, ROWS[name])


@pytest.mark.parametrize("name", RDNA3_ROWS)
def test_a_value_of_rdna3_alone(gpu, name):
    check(gpu, "gfx1100", RDNA3_ROWS[name])


# A field that the instruction has no operand for, by name: text, dword and place of the field.
UNUSED = {
    "DATA of a load": ("global_load_dword v10, v20, s[0:1]\ns_waitcnt vmcnt(0)", 1, 3 << 8),
    "VDST of an atomic": ("ds_write_b32 v20, v1\nds_add_u32 v20, v2", 3, 2 << 24),
    "SRC2 of a sum": ("v_add_f32_e64 v10, v1, -v1", 1, 7 << 18),
}


@pytest.mark.parametrize("what", UNUSED)
def test_fields_without_an_operand_are_ignored(warm, what):
    """Source: tinygrad test_global.py, test_ds.py, test_vopd.py: an RDNA3 card runs such words."""
    chip, gpu = warm
    text, at, field = UNUSED[what]
    words = asm(chip, text)
    words[at] |= field
    run_lanes(gpu, chip, "\n".join(f".long {word:#x}" for word in words), [L, L], lds=512)
