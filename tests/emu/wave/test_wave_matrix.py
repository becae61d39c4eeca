"""Dot products of two halves and matrix instructions (RDNA3): layouts, modifiers, arithmetic.

When this fails, matrix instructions compute other bits than an RDNA3 card.

The arithmetic's rows follow what was measured on gfx1100 and gfx1151: ROCm rocm-systems issue 12056
and gfx11_dot2.h of its rocjitsu. Layouts: AMD's RDNA3 ISA document, 7.9, and GPUOpen's article on
WMMA, whose C and D have rows 0, 2, 4 ... in lanes 0-15 of a wave32.
"""

from __future__ import annotations

import numpy as np
import pytest
from wavekit import asm, float_mode, run_lanes

from sparkle_drv.testing.emulated_dispatch import launch

CHIP = "gfx1100"
N = 16
NAN_FACTOR, NAN_INVALID, INF = 0xFFC00A3D, 0xFFC00000, 0x7F800000
ONE, TWO, HALF = 0x3C00, 0x4000, 0x3800  # halves
BF_ONE = 0x3F80


def both(low: int, high: int) -> int:
    return low | high << 16


# a, b, c as dwords, and the result.
DOT2 = {
    "v_dot2_f32_f16 v10, v1, v2, v3": [
        (both(ONE, TWO), both(TWO, TWO), 0x40400000, 0x41100000),  # 2 + 4 + 3
        (both(0x7E00, 0), 0, 0x7FC12345, NAN_FACTOR),  # a NaN that is multiplied hides all others
        (both(0x7C00, 0), 0, 0x7FC12345, NAN_INVALID),  # infinity times 0
        (both(0x7C00, 0x7C00), both(ONE, 0xBC00), 0, NAN_INVALID),
        (0, 0, 0x7F812345, 0x7FC12345),
        (both(0x7C00, 0), both(0xBC00, 0), 0x41000000, 0xFF800000),
        (both(0x7C00, 0), both(ONE, 0), 0xFF800000, NAN_INVALID),
        (both(1, 0), both(ONE, 0), 0, 0x33800000),  # a denormal half counts
        (both(1, 0), both(1, 0), 0, 0x27800000),
        (0, 0, 0x00400000, 0),  # a denormal accumulator does not
        (both(0x8000, 0x8000), both(ONE, ONE), 0x80000000, 0),  # never -0
        # 2^24 and 1: the term of the other sign is its complement, one unit of the grid less
        (both(0xBC00, 0), both(ONE, 0), 0x4B800000, 0x4B7FFFFF),
        (both(0x8000, 0), both(ONE, 0), 0x3F800000, 0x3F800000),
        # 65504 * 65504 has 2^32 in it: of 1, nothing is left on the grid of 2^(30-24)
        (both(0x7BFF, 0), both(0x7BFF, 0), 0x3F800000, 0x4F7FC004),
    ],
    "v_dot2_f32_bf16 v10, v1, v2, v3": [
        (both(BF_ONE, 0x4000), both(0x4000, 0x4000), 0x40400000, 0x41100000),
        (both(0x7FC0, 0), 0, 0, NAN_FACTOR),
        (both(0x7F80, 0), both(0x007F, 0), 0, NAN_INVALID),  # its denormals are 0
        (both(0x0040, 0), both(0x4B80, 0), 0, 0),
        (both(0x7F00, 0), both(0x7F00, 0), 0, INF),
    ],
    "v_dot2_f16_f16 v10, v1, v2, v3": [
        (both(ONE, TWO), both(TWO, TWO), 0x4200, 0x4880),
        (both(0x7E00, 0), 0, 0, 0xFE3D),
        (both(1, 0), both(HALF, 0), 0, 0),  # half of the least half: to even
        (both(3, 0), both(HALF, 0), 0, 2),
        (both(0x7BFF, 0), both(TWO, 0), 0, 0x7C00),
        (both(ONE, 0), both(ONE, 0), 0x0001, 0x3C00),
    ],
    "v_dot2_bf16_bf16 v10, v1, v2, v3": [
        (both(BF_ONE, 0), both(BF_ONE, 0), 0x3B7F, 0x3F80),  # cut off, not rounded
        (both(0x7FC0, 0), 0, 0, 0xFFFD),
        (both(BF_ONE, 0x4000), both(0x4000, 0x4000), 0x4040, 0x4110),
    ],
}


@pytest.mark.parametrize("line", DOT2)
@pytest.mark.parametrize("mode", [0x00, 0xF3])
def test_dot2(gpu, line, mode):
    """MODE changes nothing."""
    a, b, c, want = (np.array(column, np.uint32) for column in zip(*DOT2[line], strict=True))
    body = f"v_mov_b32 v10, 0\n{line}"
    got = run_lanes(gpu, CHIP, body, [a, b, c], mode=mode)[0]
    assert [hex(x) for x in got] == [hex(x) for x in want]


def test_dot2_halves_and_signs(gpu):
    """VOP3P selects and negates halves; VOP3 has modifiers for both, and places of c and d."""
    a = np.array([both(ONE, TWO)], np.uint32)
    c = np.array([both(0x4200, 0x4400)], np.uint32)  # 3, 4
    body = (
        "v_dot2_f32_f16 v10, v1, v1, 0 op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[1,0,0]\n"
        "v_mov_b32 v11, 0x1234abcd\nv_dot2_f16_f16 v11, -v1, |v1|, v2 op_sel:[0,0,1,1]\n"
        "v_dot2_f32_f16 v12, v1, 1.0, v1 op_sel_hi:[1,0,1] neg_lo:[0,0,1]\n"
        "v_dot2_f32_f16 v13, v1, 2.0, 0"
    )
    out = run_lanes(gpu, CHIP, body, [a, c])
    assert out[0][0] == f32(-(2.0**-23))  # -2 * 1 + 1 * 2: the complement of 2 is one unit less
    assert out[1][0] == 0xBC00ABCD  # 4 - 1 - 4 = -1 above, below what was there
    less = float(np.uint32(both(ONE, TWO)).view(np.float32))
    assert out[2].view(np.float32)[0] == pytest.approx(1 + 2 - less, abs=1e-6)
    assert out[3][0] == f32(2)  # an inline constant is the low half


def f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


# --- matrices ---

A, B, C, D = 24, 32, 40, 48


def tiles(kind: str, values: np.ndarray) -> np.ndarray:
    """Registers (dwords a lane) of A or B: row or column n of `values` in lane n, copied."""
    if kind == "f16":
        bits = values.astype(np.float16).view(np.uint16)
    elif kind == "bf16":
        bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif kind == "iu8":
        bits = values.astype(np.int64).astype(np.uint8)
    else:
        low, high = (values.astype(np.int64)[:, k::2] & 15 for k in (0, 1))
        bits = (low | high << 4).astype(np.uint8)
    return np.ascontiguousarray(bits).view(np.uint32).T  # registers x 16 lanes


def rows(values: np.ndarray, wave: int) -> np.ndarray:
    """C or D as registers: row m in group m % copies, register m / copies."""
    copies = wave // N
    return values.reshape(N // copies, copies * N)


def matrix(gpu, line, a, b, c, d=None, *, wave=32, prepare="", exec_mask=None):
    """D's registers after `line`, given A's, B's, C's and what D held."""
    copies = wave // N
    d = np.zeros_like(c) if d is None else d
    given = [(A, np.tile(a, copies)), (B, np.tile(b, copies)), (C, c), (D, d)]
    text, at = ["v_lshlrev_b32 v20, 2, v0"], 0
    data = np.zeros((32, 64), np.uint32)
    for first, registers in given:
        for k, lanes in enumerate(registers):
            data[at, :wave] = lanes
            text.append(f"global_load_dword v{first + k}, v20, s[0:1]")
            text += [f"s_add_u32 s0, s0, {256:#x}", "s_addc_u32 s1, s1, 0"]
            at += 1
    text += ["s_waitcnt vmcnt(0)", prepare, line]
    if exec_mask is not None:
        text[-1:] = [f"s_mov_b32 exec_lo, {exec_mask:#x}", line, "s_mov_b32 exec_lo, -1"]
    for k in range(len(d)):
        text.append(f"global_store_dword v20, v{D + k}, s[2:3]")
        text += [f"s_add_u32 s2, s2, {256:#x}", "s_addc_u32 s3, s3, 0"]
    code, memory = gpu.buffer(8192, rights="rx"), gpu.buffer(8192, rights="rw")
    try:
        code.write(asm(CHIP, "\n".join([*text, "s_endpgm"]), wave))
        np.frombuffer(memory.map, np.uint32)[: data.size] = data.ravel()
        ib = launch(
            11,
            code=code.va,
            rsrc1=(6 if wave == 32 else 13) | float_mode(),
            rsrc2=8 << 1,
            user=(memory.lo, memory.hi, memory.lo, memory.hi),
            size=(wave, 1, 1),
            wave=wave,
        )
        gpu.wait(gpu.submit("compute", ib, bos=[code, memory]), 10.0)
        out = np.frombuffer(memory.map, np.uint32)[: 64 * len(d)].reshape(-1, 64)
        return out[:, :wave].copy()
    finally:
        code.close()
        memory.close()


def operands(wave: int, kind: str) -> str:
    """The text of D, A, B and C; C and D have half the registers in a wave64."""
    each = {"f16": 8, "bf16": 8, "iu8": 4, "iu4": 2}[kind]
    rows = N * N // wave
    return ", ".join(
        f"v[{first}:{first + count - 1}]"
        for first, count in ((D, rows), (A, each), (B, each), (C, rows))
    )


def small(kind: str) -> tuple[np.ndarray, ...]:
    """Matrices of small whole numbers. Sums of floats are exact, for none is negative: see DOT2."""
    r = np.random.default_rng(sum(kind.encode()))
    low, high = {"iu8": (-128, 128), "iu4": (-8, 8)}.get(kind, (0, 5))
    return (*(r.integers(low, high, (N, N)) for _ in "ab"), r.integers(0, 50, (N, N)))


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_floats_to_floats(gpu, kind, wave):
    a, b, c = small(kind)
    line = f"v_wmma_f32_16x16x16_{kind} {operands(wave, kind)}"
    given = rows(c.astype(np.float32).view(np.uint32), wave)
    got = matrix(gpu, line, tiles(kind, a), tiles(kind, b.T), given, wave=wave)
    want = (a @ b + c).astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal(got.reshape(N, N), want)


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_results(gpu, kind, wave, upper):
    """OP_SEL bit 2 says which half of C is read and which of D written; the other half stays."""
    a, b, c = small(kind)
    values = c.astype(np.float16 if kind == "f16" else np.float32)
    bits = values.view(np.uint16 if kind == "f16" else np.uint32).astype(np.uint32)
    if kind == "bf16":
        bits >>= 16
    line = f"v_wmma_{kind}_16x16x16_{kind} {operands(wave, kind)} op_sel:[0,0,{upper}]"
    given = rows(bits << 16 * upper, wave)
    old = np.full_like(given, 0x5A5AA5A5)
    got = matrix(gpu, line, tiles(kind, a), tiles(kind, b.T), given, old, wave=wave)
    other = 0xA5A5 if upper else 0x5A5A
    assert np.all((got >> 16 * (1 - upper) & 0xFFFF) == other)
    want = (a @ b + c).astype(np.float32)
    found = got.reshape(N, N) >> 16 * upper & 0xFFFF
    if kind == "f16":
        np.testing.assert_array_equal(found.astype(np.uint16).view(np.float16), want)
    else:
        steps = c.astype(np.float32)
        for k in range(0, N, 2):  # cut off after each two products
            steps = cut(steps + (a[:, k : k + 2] @ b[k : k + 2]).astype(np.float32))
        np.testing.assert_array_equal((found << 16).astype(np.uint32).view(np.float32), steps)


def cut(values: np.ndarray) -> np.ndarray:
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


@pytest.mark.parametrize("wave", [32, 64])
@pytest.mark.parametrize("signs", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("kind", ["iu8", "iu4"])
def test_integers(gpu, kind, signs, wave):
    """NEG says which matrix is signed."""
    a, b, c = small(kind)
    line = f"v_wmma_i32_16x16x16_{kind} {operands(wave, kind)} neg_lo:[{signs[0]},{signs[1]},0]"
    given = rows(c.astype(np.int32).view(np.uint32), wave)
    got = matrix(gpu, line, tiles(kind, a), tiles(kind, b.T), given, wave=wave)
    size = 256 if kind == "iu8" else 16
    a, b = (x if signed else x % size for x, signed in zip((a, b), signs, strict=True))
    np.testing.assert_array_equal(got.view(np.int32).reshape(N, N), a @ b + c)


def test_clamp_of_integers(gpu):
    a = b = np.full((N, N), 127)
    c = np.full((N, N), 0x7FFFFF00)
    given = rows(c.astype(np.uint32), 32)
    line = f"v_wmma_i32_16x16x16_iu8 {operands(32, 'iu8')} neg_lo:[1,1,0] clamp"
    got = matrix(gpu, line, tiles("iu8", a), tiles("iu8", b), given)
    assert np.all(got == 0x7FFFFFFF)


def test_signs_and_a_constant(gpu):
    """NEG_LO and NEG_HI of A and B, of even and odd elements; |C| by NEG_HI, -C by NEG_LO."""
    a, b, c = small("f16")
    mods = "neg_lo:[1,0,1] neg_hi:[0,1,1]"
    line = f"v_wmma_f32_16x16x16_f16 {operands(32, 'f16')} {mods}"
    given = rows(c.astype(np.float32).view(np.uint32), 32)
    got = matrix(gpu, line, tiles("f16", a), tiles("f16", b.T), given)
    even, odd = (np.arange(N) % 2 == k for k in (0, 1))
    want = (np.where(even, -a, a) @ np.where(odd, -b.T, b.T).T - abs(c)).astype(np.float32)
    np.testing.assert_allclose(got.view(np.float32).reshape(N, N), want, atol=1e-3)
    text = operands(32, "f16").rsplit(", ", 1)[0]
    got = matrix(
        gpu, f"v_wmma_f32_16x16x16_f16 {text}, 1.0", tiles("f16", a), tiles("f16", b.T), given
    )
    np.testing.assert_array_equal(got.view(np.float32).reshape(N, N), a @ b + 1)


def test_all_lanes_take_part(gpu):
    """EXEC plays no part."""
    a, b, c = small("f16")
    line = f"v_wmma_f32_16x16x16_f16 {operands(32, 'f16')}"
    given = rows(c.astype(np.float32).view(np.uint32), 32)
    got = matrix(gpu, line, tiles("f16", a), tiles("f16", b.T), given, exec_mask=0x10)
    np.testing.assert_array_equal(got.view(np.float32).reshape(N, N), a @ b + c)


def test_copies_that_differ_are_a_fault(gpu):
    a, b, c = small("f16")
    line = f"v_wmma_f32_16x16x16_f16 {operands(32, 'f16')}"
    given = rows(c.astype(np.float32).view(np.uint32), 32)
    spoil = f"s_mov_b32 exec_lo, 0x100000\nv_mov_b32 v{A}, 7\ns_mov_b32 exec_lo, -1"
    with pytest.raises(OSError, match="last fault"):
        matrix(gpu, line, tiles("f16", a), tiles("f16", b.T), given, prepare=spoil)
    assert "v24 of lane 20 differs from its copy in lane 4" in gpu.node.machine.fault().text


def test_a_result_that_the_next_one_multiplies_is_a_fault(gpu):
    """RDNA3 ISA 7.9.1: another instruction, or V_NOP, must stand between."""
    a, b, c = small("f16")
    first = f"v_wmma_f32_16x16x16_f16 v[{A}:{A + 7}], v[{A}:{A + 7}], v[{B}:{B + 7}], 0"
    given = rows(c.astype(np.float32).view(np.uint32), 32)
    line = f"v_wmma_f32_16x16x16_f16 {operands(32, 'f16')}"
    with pytest.raises(OSError, match="last fault"):
        matrix(gpu, f"{first}\n{line}", tiles("f16", a), tiles("f16", b.T), given)
    assert "a V_NOP must stand between" in gpu.node.machine.fault().text


def test_a_result_that_the_next_one_adds_to(gpu):
    a, b, c = small("f16")
    given = rows(c.astype(np.float32).view(np.uint32), 32)
    line = f"v_wmma_f32_16x16x16_f16 {operands(32, 'f16')}"
    again = line.replace(f"v[{C}:{C + 7}]", f"v[{D}:{D + 7}]")
    chained = matrix(gpu, f"{line}\n{again}", tiles("f16", a), tiles("f16", b.T), given)
    np.testing.assert_array_equal(chained.view(np.float32).reshape(N, N), 2 * (a @ b) + c)
