"""Instructions that few programs use: cube maps, sums of differences, 2/pi, interpolation,
counters, exchanges, relative moves, halves of a wave64 by turns.

When this fails, rare instructions compute other bits than hardware.

Expected values follow the formulas of AMD's ISA documents.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from wavekit import INTS, asm, run_lanes, run_lines

from sparkle_drv.testing.emulator import EmulatedGpu, Machine

L = np.arange(32, dtype=np.uint32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_cube_maps(warm):
    """Face, two coordinates and twice the major axis of a direction."""
    chip, gpu = warm
    rows = {  # x, y, z: face, s, t, major axis
        (1, 0, 0): (0, 0, 0, 2), (-3, 1, 2): (1, 2, -1, -6), (1, 4, 2): (2, 1, 2, 8),
        (1, -4, 2): (3, 1, -2, -8), (1, 2, 5): (4, 1, -2, 10), (1, 2, -5): (5, -1, -2, -10),
        (2, 2, 2): (4, 2, -2, 4), (2, -2, 1): (3, 2, -1, -4),
    }  # fmt: skip
    given = [floats(*column) for column in zip(*rows, strict=True)]
    lines = [f"v_cube{what}_f32 D, v1, v2, v3" for what in ("id", "sc", "tc", "ma")]
    got = run_lines(gpu, chip, lines, given)
    for values, want in zip(got, zip(*rows.values(), strict=True), strict=True):
        np.testing.assert_array_equal(values.view(np.float32), floats(*want))


def test_mullit(warm):
    chip, gpu = warm
    least = np.finfo(np.float32).min
    rows = [(2, 3, 1, 6), (2, least, 1, least), (2, -np.inf, 1, least), (2, np.nan, 1, least)]
    rows += [(2, 3, 0, least), (2, 3, -1, least), (2, 3, np.nan, least), (2, -4, np.inf, -8)]
    *given, want = (floats(*column) for column in zip(*rows, strict=True))
    got = run_lines(gpu, chip, ["v_mullit_f32 D, v1, v2, v3"], given)[0]
    np.testing.assert_array_equal(got.view(np.float32), want)


def sums(a: int, b: int, masked: bool) -> list[int]:
    """Of each of the four places."""
    wide = a.to_bytes(8, "little")
    known = b.to_bytes(4, "little")
    return [
        sum(abs(wide[at + k] - known[k]) for k in range(4) if known[k] or not masked)
        for at in range(4)
    ]


@pytest.mark.parametrize("clamp", ["", " clamp"])
@pytest.mark.parametrize("name", ["qsad_pk_u16_u8", "mqsad_pk_u16_u8", "mqsad_u32_u8"])
def test_sums_of_differences(warm, name, clamp):
    chip, gpu = warm
    x, y, z = (values[:64].copy() for values in INTS)
    x[:8], y[:8] = 0x12003400, 0x00FF0001
    wide = name.endswith("u32_u8")
    add = "v[3:6]" if wide else "v[3:4]"
    result = "v[10:13]" if wide else "v[10:11]"
    given = [x, y, z, ~z, np.full_like(z, 0xFFFFFFF0), x]
    got = run_lanes(gpu, chip, f"v_{name} {result}, v[1:2], v1, {add}{clamp}", given)
    for lane in range(len(x)):
        known = sums(int(x[lane]) | int(y[lane]) << 32, int(x[lane]), name.startswith("m"))
        most, each = (2**32 - 1, 1) if wide else (2**16 - 1, 2)
        for k in range(4):
            old = int(given[2 + k // each][lane]) >> 16 * (k % each) & most
            total = known[k] + old
            want = min(total, most) if clamp else total & most
            assert int(got[k // each][lane]) >> 16 * (k % each) & most == want


def test_two_over_pi(warm):
    """53 bits at a place that the angle's exponent and src1 choose; 2**128 times of huge angles."""
    chip, gpu = warm
    rows = [(1.0, 0), (1.0, 1), (-3.0, 20), (2.0**60, 0), (2.0**1023, 3), (2.0**944, 31)]
    low = np.array([np.float64(a).view(np.uint64) & 0xFFFFFFFF for a, _ in rows], np.uint32)
    high = np.array([np.float64(a).view(np.uint64) >> 32 for a, _ in rows], np.uint32)
    which = np.array([k for _, k in rows], np.uint32)
    got = run_lanes(gpu, chip, "v_trig_preop_f64 v[10:11], v[1:2], v3", [low, high, which])
    values = (got[0] | got[1].astype(np.uint64) << 32).view(np.float64)
    # Machin's formula, exact enough for the first 1201 bits
    fraction = 2 / sum(
        4 * sign * sum(Fraction((-1) ** n, (2 * n + 1) * x ** (2 * n + 1)) for n in range(terms))
        for sign, x, terms in ((4, 5, 300), (-1, 239, 90))
    )
    bits = int(fraction * 2**1201)
    for value, (a, k) in zip(values, rows, strict=True):
        exponent = math.frexp(a)[1] + 1022
        shift = 53 * k + max(exponent - 1077, 0)
        part = (bits << shift & (1 << 1201) - 1) >> 1148
        power = -53 - shift + (128 if exponent >= 1968 else 0)
        assert value == math.ldexp(part, power), (a, k)


@pytest.mark.parametrize("half", [False, True])
def test_interpolation(gpu, half):
    """P10: lane 1 of the quad * i + lane 0; P2: lane 2 * j + P10. EXEC leaves corners out."""
    values = (np.arange(32) % 7 + 1).astype(np.float16 if half else np.float32)
    bits = values.view(np.uint16).astype(np.uint32) << 16 if half else values.view(np.uint32)
    i, j = (np.linspace(lo, lo + 1, 32, dtype=np.float32) for lo in (0, 3))
    kind = "f16_f32" if half else "f32"
    upper = [" op_sel:[1,0,1,0]", " op_sel:[1,0,0,1]"] if half else ["", ""]
    body = (
        "s_mov_b32 exec_lo, 0x88888888\n"
        f"v_interp_p10_{kind} v10, v1, v2, v1{upper[0]}\ns_nop 0\n"
        f"v_interp_p2_{kind} v11, v1, v3, v10{upper[1]}\n"
        "s_mov_b32 exec_lo, -1"
    )
    got = run_lanes(gpu, "gfx1100", body, [bits, i, j])
    quad, active = np.arange(32) // 4 * 4, np.arange(32) % 4 == 3
    known = values.astype(np.float64)
    first = (known[quad + 1] * i + known[quad]).astype(np.float32)
    np.testing.assert_array_equal(got[0].view(np.float32)[active], first[active])
    second = (known[quad + 2] * j + first).astype(np.float32)
    found = (got[1] >> 16).astype(np.uint16).view(np.float16) if half else got[1].view(np.float32)
    np.testing.assert_array_equal(found[active], second.astype(values.dtype)[active])


def test_interpolation_towards_zero(gpu):
    body = (
        "v_interp_p2_f16_f32 v10, v4, v2, v1\nv_interp_p2_rtz_f16_f32 v11, v4, v2, v1\n"
        "v_interp_p10_rtz_f16_f32 v12, v3, v2, v3"
    )
    near = floats(*[1 + 1.9 * 2.0**-11] * 32)
    ones = np.full(32, 0x3C00, np.uint32)
    got = run_lanes(gpu, "gfx1100", body, [near, near, ones])
    assert got[0][0] & 0xFFFF == 0x3C01
    assert got[1][0] & 0xFFFF == 0x3C00
    assert got[2].view(np.float32)[0] == near[0] + 1


def test_relative_moves_with_two_offsets(warm):
    """M0 has the source's offset below, the destination's above."""
    chip, gpu = warm
    body = (
        "s_mov_b32 m0, 0x20001\nv_mov_b32 v10, 1\nv_mov_b32 v12, 2\nv_mov_b32 v13, 3\n"
        "v_movrelsd_2_b32 v10, v1\nv_mov_b32 v14, 4\nv_mov_b32 v11, v12\n"
        "v_swaprel_b32 v11, v1\ns_mov_b32 s10, 5\ns_movrelsd_2_b32 s11, s9\nv_mov_b32 v10, s13\n"
        "v_mov_b32 v12, v2"
    )
    out = run_lanes(gpu, chip, body, [L, L + 100])
    np.testing.assert_array_equal(out[1], L + 100)  # v12 = v2, then v11 = v12
    np.testing.assert_array_equal(out[3], L + 100)  # v13 and v2 changed places
    assert np.all(out[0] == 5)
    assert np.all(out[2] == 3)


LDS_START = "ds_write_b32 v20, v1\nds_write_b32 v20, v1 offset:128\ns_waitcnt lgkmcnt(0)\n"


@pytest.mark.parametrize("stride", [1, 64])
@pytest.mark.parametrize("dwords", [1, 2])
def test_two_exchanges(warm, dwords, stride):
    chip, gpu = warm
    new = f"ds_storexchg_2addr{'_stride64' if stride == 64 else ''}_rtn_b{32 * dwords}"
    old = f"ds_wrxchg2{'st64' if stride == 64 else ''}_rtn_b{32 * dwords}"
    name = new if chip == "gfx1100" else old
    one, two = ("v2", "v3") if dwords == 1 else ("v[2:3]", "v[4:5]")
    second = 512 // (4 * dwords) if stride == 1 else 2 // dwords
    result = f"v[10:{9 + 2 * dwords}]"
    body = (
        f"v_lshlrev_b32 v7, {1 + dwords}, v0\n"
        + "".join(f"ds_write_b32 v7, v{1 + k % 2} offset:{512 * (k // dwords) + 4 * (k % dwords)}\n"
                  for k in range(2 * dwords))
        + f"s_waitcnt lgkmcnt(0)\n{name} {result}, v7, {one}, {two} offset1:{second}\n"
        "s_waitcnt lgkmcnt(0)\n"
    )  # fmt: skip
    after = "".join(f"ds_read_b32 v{10 + k}, v7 offset:{512 * (k // dwords) + 4 * (k % dwords)}\n"
                    for k in range(2 * dwords)) + "s_waitcnt lgkmcnt(0)"  # fmt: skip
    given = [L + 1000 * k for k in range(5)]
    first = run_lanes(gpu, chip, body, given, lds=1024)
    for k in range(2 * dwords):
        np.testing.assert_array_equal(first[k], given[k % 2])
    then = run_lanes(gpu, chip, body + after, given, lds=1024)
    for k in range(2 * dwords):
        np.testing.assert_array_equal(then[k], given[1 + k])


def test_a_conditional_exchange(warm):
    """Each dword with bit 31 is stored, without it; the address loses three bits."""
    chip, gpu = warm
    body = (
        "v_lshlrev_b32 v7, 3, v0\nds_write_b64 v7, v[1:2]\nv_or_b32 v7, 4, v7\n"
        "s_waitcnt lgkmcnt(0)\nds_condxchg32_rtn_b64 v[10:11], v7, v[3:4]\n"
        "s_waitcnt lgkmcnt(0)\nv_and_b32 v7, -8, v7\nds_read_b64 v[12:13], v7\ns_waitcnt lgkmcnt(0)"
    )
    stored = np.where(L % 2, L | 0x80000000, L).astype(np.uint32)
    out = run_lanes(gpu, chip, body, [L + 7, L + 9, stored, stored ^ 0x80000000], lds=1024)
    np.testing.assert_array_equal(out[0], L + 7)
    np.testing.assert_array_equal(out[1], L + 9)
    np.testing.assert_array_equal(out[2], np.where(L % 2, L, L + 7))
    np.testing.assert_array_equal(out[3], np.where(L % 2, L + 9, L))


def test_counters_of_lanes(warm):
    """APPEND and CONSUME: a counter at M0 + offset changes by the number of active lanes."""
    chip, gpu = warm
    body = (
        f"{LDS_START}s_mov_b32 m0, 12\ns_mov_b32 exec_lo, 0xff0\n"
        "ds_append v10 offset:4\ns_waitcnt lgkmcnt(0)\nds_consume v11 offset:4\n"
        "s_waitcnt lgkmcnt(0)\nds_append v12 offset:4\n"
        "s_waitcnt lgkmcnt(0)\ns_mov_b32 exec_lo, -1\nds_read_b32 v13, v20\ns_waitcnt lgkmcnt(0)"
    )
    out = run_lanes(gpu, chip, body, [L + 50], lds=512)
    active = (L >= 4) & (L < 12)
    np.testing.assert_array_equal(out[0], np.where(active, 54, 0))
    np.testing.assert_array_equal(out[1], np.where(active, 62, 0))
    np.testing.assert_array_equal(out[2], np.where(active, 54, 0))
    assert out[3][4] == 62


def test_one_lds_value_for_all_lanes(gpu):
    """M0: the address, and from bit 16 the type."""
    body = LDS_START
    for k, kind in enumerate((0, 2, 4, 5)):
        body += f"s_mov_b32 m0, {kind << 16 | 8:#x}\nlds_direct_load v{10 + k} wait_vdst:0\n"
    out = run_lanes(gpu, "gfx1100", body, [L + 0x1234FFF0], lds=512)
    assert [hex(out[k][5]) for k in range(4)] == ["0xf2", "0x1234fff2", "0xfffffff2", "0xfffffff2"]


@pytest.mark.parametrize("mask", [(0xF, 0xF0), (0, 5), (5, 0), (0, 0)])
def test_halves_of_a_wave64_by_turns(warm, mask):
    """Each pass of the block sees one half of EXEC; at the end EXEC is what it was."""
    chip, gpu = warm
    body = (
        f"s_mov_b32 s10, 0\ns_mov_b32 exec_lo, {mask[0]}\ns_mov_b32 exec_hi, {mask[1]}\n"
        "s_subvector_loop_begin s11, 4\n"  # to behind the end
        "s_add_u32 s10, s10, 1\nv_mov_b32 v10, s10\ns_nop 0\ns_subvector_loop_end s11, 0xfffc\n"
        "s_mov_b32 s12, exec_lo\ns_mov_b32 s13, exec_hi\ns_mov_b64 exec, -1\n"
        "v_mov_b32 v11, s12\nv_mov_b32 v12, s13\nv_mov_b32 v13, s10"
    )
    out = run_lanes(gpu, chip, body, [np.arange(64, dtype=np.uint32)], wave=64)
    assert (out[1][0], out[2][0], out[3][0]) == (*mask, sum(map(bool, mask)))
    lanes = np.array([(mask[0] | mask[1] << 32) >> k & 1 for k in range(64)], bool)
    passes = np.where(np.arange(64) < 32, 1, 2 if mask[0] else 1)
    np.testing.assert_array_equal(out[0], np.where(lanes, passes, 0))


def test_a_wave_that_kills_itself(warm):
    chip, gpu = warm
    out = run_lanes(gpu, chip, "s_setkill 0\nv_mov_b32 v10, 1\ns_cbranch_cdbgsys 100", [L])
    assert np.all(out[0] == 1)
    out = run_lanes(gpu, chip, "v_mov_b32 v10, 1\ns_setkill 1", [L])
    assert np.all(out[0] == 0)  # nothing was stored


def test_a_reserved_lane_pattern(gpu):
    """DPP_CTRL 0x142 was ROW_BCAST:15 before RDNA: a fault. Where reserved is allowed it is the
    row's lane 0, as tinygrad's test_dpp.py says of RDNA3."""
    words = asm("gfx1100", "v_mov_b32_dpp v10, v1 row_mirror row_mask:0xf bank_mask:0xf")
    words[1] |= 0x142 << 8 & 0x1FF00 | 1 << 19
    body = "\n".join(f".long {word:#x}" for word in words)
    with pytest.raises(OSError, match="DPP_CTRL 0x142 is reserved"):
        run_lanes(gpu, "gfx1100", body, [L])
    with (
        Machine(["gfx1100"], lenient=["reserved"]) as made,
        made.open() as node,
        EmulatedGpu(node) as other,
    ):
        np.testing.assert_array_equal(run_lanes(other, "gfx1100", body, [L])[0], L & 16)
