"""The assembler for people: labels, comments, other spellings, errors that name the place.

When this fails, somebody who assembles RDNA by hand gets wrong words, or an error without its
place.
"""

from __future__ import annotations

import gc
import re
import weakref

import pytest

from sparkle_drv.amd.isa import imm, table
from sparkle_drv.amd.isa.assembly import AsmError, DecodeError, assemble, disassemble, instructions
from sparkle_drv.amd.isa.formats import FORMATS, parse_format
from sparkle_drv.amd.isa.forms import parse_one
from sparkle_drv.amd.isa.rows import parse_row, parse_table


def test_labels_both_ways():
    text = """
    .text
    start: s_branch end        ; forward over one dword
           s_nop 0             // and back:
    end:   s_cbranch_scc1 start
    other: again: .long 0x12345678, 2
           s_call_b64 s[0:1], again
    """
    words = assemble(text, "gfx1100")
    assert words == [0xBFA00001, 0xBF800000, 0xBFA2FFFD, 0x12345678, 2, 0xBA00FFFD]


def test_a_branch_over_literals_counts_their_dwords():
    text = "s_branch end\ns_mov_b32 s0, 0x1234567\nv_fma_f32 v0, v1, v2, 0x1234567\nend: s_nop 0"
    assert assemble(text, 11)[0] & 0xFFFF == 5


class Local:
    """What a caller's frame has."""


@pytest.mark.parametrize(("text", "fits"), [("v_cmp_lt_f32 s40, v0, v1", True), ("s_nop x", False)])
def test_a_text_that_a_form_refuses_keeps_no_frame(text, fits):
    """A frame in a cycle keeps its callers' memory until the collector runs, and Python 3.11's
    collector crashes if that memory has a memoryview in use.
    """

    def call() -> weakref.ref:
        local = Local()
        if fits:
            parse_one(table.table(11), text, 0, len(text), None)
        else:
            with pytest.raises(AsmError):
                parse_one(table.table(11), text, 0, len(text), None)
        return weakref.ref(local)

    gc.collect()
    gc.disable()
    try:
        assert call()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("number", "src"), [("0x3c00", 242), ("0xbc00", 243), ("0x3118", 248), ("-1", 193), ("64", 192)]
)
def test_inline_constants_of_f16_given_as_bits(number, src):
    """The code of the inline constant, and no literal dword: RDNA2 and RDNA3 ISA, "Scalar ALU
    Operands": 242 is 1.0, 243 is -1.0, 248 is 1/(2*pi), 192 is 64, 193 is -1."""
    assert assemble(f"v_add_f16 v0, {number}, v1", 11) == [0x64000200 | src]


def test_the_least_literal():
    assert assemble("v_mov_b32 v1, -2147483648", 11) == [0x7E0202FF, 0x80000000]


FMA = "v_fma_f32 v0, s0, "
BUS = {  # instruction -> scalars that llvm-mc 19 counts; it refuses those marked so
    FMA + "s1, s2": "3 scalars (s0, s1, s2)", FMA + "s1, s1": "", FMA + "s1, 1.0": "",
    FMA + "s1, null": "", FMA + "s1, 0x1234567": "3 scalars (s0, s1, a literal)",
    FMA + "0x1234567, 0x1234567": "", FMA + "s1, m0": "3 scalars (s0, s1, m0)",
    FMA + "s1, src_scc": "3 scalars (s0, s1, src_scc)", FMA + "exec_lo, ttmp1": "3 scalars",
    "v_lshlrev_b64 v[0:1], s0, s[2:3]": "2 scalars (s0, s2), expected at most 1",
    "v_ashrrev_i64 v[0:1], 0x1234567, s[2:3]": "2 scalars (s2, a literal), expected at most 1",
    "v_lshrrev_b64 v[0:1], s0, 5": "",
    "v_div_fmas_f32 v0, s0, s1, v2": "3 scalars (s0, s1, vcc_lo)",
    "v_div_fmas_f64 v[0:1], s[0:1], v[2:3], v[4:5]": "",
    "v_cndmask_b32_e64 v0, s0, s1, s2": "3 scalars", "v_cndmask_b32_e64 v0, s0, v1, vcc_lo": "",
    "v_add_co_ci_u32_e64 v0, vcc_lo, s0, s1, s2": "3 scalars", "v_fmaak_f32 v0, s0, v1, 0x123": "",
    "v_fma_f64 v[0:1], s[0:1], s[2:3], s[4:5]": "3 scalars", "v_cmp_lt_f32_e64 s0, s1, s2": "",
    "v_pk_fma_f16 v0, s0, s1, s2": "3 scalars", "v_add_co_u32 v0, vcc_lo, s0, s1": "",
}  # fmt: skip
BUS_10 = {"v_cndmask_b32_sdwa v0, s0, s1, vcc_lo": "3 scalars (s0, s1, vcc_lo)"}
BUS_10 |= {"v_cndmask_b32_sdwa v0, s0, v1, vcc_lo": "", "v_add_f32_sdwa v0, s0, s1": ""}
MUL, DUAL = " :: v_dual_mul_f32 v3, ", "v_dual_cndmask_b32 v0, s0, v1"
BUS_11 = {
    "v_dual_add_f32 v0, s0, v1" + MUL + "s1, v2": "", DUAL + MUL + "s0, v2": "",
    "v_dual_fmaak_f32 v0, s0, v1, 0x123" + MUL + "s1, v2": "3 scalars (s0, s1, a literal)",
    DUAL + MUL + "s1, v2": "3 scalars (s0, s1, vcc_lo)",
    DUAL + MUL + "0x12345, v2": "3 scalars (s0, vcc_lo, a literal)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("gfx", "text", "what"),
    [
        *((gfx, text, what) for gfx in ("gfx1036", "gfx1100") for text, what in BUS.items()),
        *(("gfx1036", text, what) for text, what in BUS_10.items()),
        *(("gfx1100", text, what) for text, what in BUS_11.items()),
    ],
)
def test_scalars_that_one_instruction_can_read(gfx, text, what):
    if not what:
        assert assemble(text, gfx)
        return
    with pytest.raises(AsmError, match=rf"line 1, column 1: .* reads {re.escape(what)}"):
        assemble(text, gfx)


@pytest.mark.parametrize(
    ("gfx", "theirs", "ours"),
    [
        ("gfx1100", "global_load_dword v1, v[2:3], off", "global_load_b32 v1, v[2:3], off"),
        ("gfx1100", "s_andn2_b32 s1, s2, s3", "s_and_not1_b32 s1, s2, s3"),
        ("gfx1036", "ds_load_b64 v[2:3], v1", "ds_read_b64 v[2:3], v1"),
        ("gfx1036", "s_load_b32 s1, s[2:3], 0x0", "s_load_dword s1, s[2:3], null"),
        ("gfx1036", "v_cmp_lt_f32 v1, v2", "v_cmp_lt_f32_e32 vcc_lo, v1, v2"),
        ("gfx1036", "v_cmp_lt_f32 vcc, v1, v2", "v_cmp_lt_f32_e32 vcc_lo, v1, v2"),
        ("gfx1036", "V_ADD_F32 v1, 0x3f800000, v2", "v_add_f32_e32 v1, 1.0, v2"),
        ("gfx1036", "v_add_f32 v1, 1.5, v2", "v_add_f32_e32 v1, 0x3fc00000, v2"),
        ("gfx1036", "v_add_f32 v1, v2, s3", "v_add_f32_e64 v1, v2, s3"),
        ("gfx1100", "v_add_f16 v1, v2, v200", "v_add_f16_e64 v1, v2, v200"),
        ("gfx1036", "v_add_f16 v1, v2, v200", "v_add_f16_e32 v1, v2, v200"),
        ("gfx1036", "v_add_f32 v1, -v2, v3", "v_add_f32_e64 v1, -v2, v3"),
        ("gfx1100", "v_add_f32 v1, v2, v3 row_shl:1", None),
        ("gfx1036", "s_waitcnt vmcnt(0) & lgkmcnt(0)", "s_waitcnt vmcnt(0) lgkmcnt(0)"),
        (
            "gfx1036",
            "s_getreg_b32 s0, hwreg(MODE, 0, 4)",
            "s_getreg_b32 s0, hwreg(HW_REG_MODE, 0, 4)",
        ),
        ("gfx1036", "v_mov_b32 v0, scc", "v_mov_b32_e32 v0, src_scc"),
        ("gfx1036", "v_add_f64 v[0:1], 3.5, v[2:3]", "v_add_f64 v[0:1], 0x400c0000, v[2:3]"),
        ("gfx1036", "v_mov_b32_dpp v1, v2 row_mirror bound_ctrl:0", None),
    ],
)
def test_other_spellings(gfx, theirs, ours):
    printed = disassemble(assemble(theirs, gfx), gfx)
    again = assemble(printed, gfx)
    assert again == assemble(theirs, gfx)
    if ours is not None:
        assert printed == ours + "\n"


def test_wave64_prints_masks_of_two():
    words = assemble("v_cmp_lt_f32 s[4:5], v1, v2\nv_add_co_ci_u32 v1, vcc, v2, v3, vcc", "gfx1100")
    assert words == assemble(
        "v_cmp_lt_f32 s4, v1, v2\nv_add_co_ci_u32 v1, vcc_lo, v2, v3, vcc_lo", 11
    )
    text = disassemble(words, "gfx1100", wave=64)
    assert "v_cmp_lt_f32_e64 s[4:5], v1, v2" in text
    assert "v1, vcc, v2, v3, vcc" in text
    with pytest.raises(ValueError, match="wave: expected 32 or 64, got 16"):
        disassemble(words, 11, wave=16)


@pytest.mark.parametrize(
    ("gfx", "text", "line", "column", "says"),
    [
        (11, "s_nop 0\n  v_ad_f32 v1, v2, v3", 2, 3, "no instruction 'v_ad_f32'"),
        (11, "v_add_f32 v1, v2", 1, 17, "lacks"),
        (11, "v_add_f32 v1, v2, v3, v4", 1, 23, "takes no 'v4'"),
        (11, "v_add_f32 s1, v2, v3", 1, 11, "vdst is 's1', expected a VGPR"),
        (11, "v_add_f32 v1, v256, v3", 1, 15, "no such register: v256"),
        (11, "s_mov_b64 s[1:2], s[4:5]", 1, 11, "number to be a multiple of 2"),
        (11, "s_mov_b64 s[2:3], s4", 1, 19, "1 registers, expected 2"),
        (11, "s_mov_b32 s1, v2", 1, 15, "expected a scalar"),
        (11, "v_mov_b32 v1, banana", 1, 15, "expected a register"),
        (11, "s_branch nowhere", 1, 10, "'nowhere' is not a number"),
        (11, "a: s_nop 0\na: s_nop 0", 2, 1, "label a is defined twice"),
        (11, "v_fma_f32 v1, 0x123456, v2, 0x654321", 1, 29, "a second literal"),
        (11, "v_add_f32 v1, v2, v3 mul:3", 1, 22, "no such output modifier: mul:3"),
        (11, "v_add_f32 v1, v2, v3 wobble:1", 1, 22, "takes no 'wobble'"),
        (11, "ds_load_b32 v1, v2 offset:70000", 1, 20, "expected 0..65535"),
        (11, "global_load_b32 v1, v[2:3], off offset:4096", 1, 33, "expected -4096..4095"),
        (10, "global_load_dword v1, v[2:3], off offset:2048", 1, 35, "expected -2048..2047"),
        (10, "flat_load_dword v1, v[2:3] offset:-1", 1, 28, "expected 0..2047"),
        (11, "s_waitcnt vmcnt(99)", 1, 11, "vmcnt: expected at most 63, got 99"),
        (11, "s_waitcnt wcnt(0)", 1, 11, "no such counter: 'wcnt'"),
        (11, "v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v3, v4", 1, 25, "one must be even, one odd"),
        (
            11,
            "v_dual_and_b32 v1, v2, v3 :: v_dual_mov_b32 v2, v4",
            1,
            1,
            "cannot be the first half of a VOPD",
        ),
        (11, "v_add_f32_sdwa v1, v2, v3", 1, 1, "takes no SDWA"),
        (10, "v_add_f32_e64_dpp v1, v2, v3 row_mirror", 1, 1, "takes no DPP16"),
        (11, "buffer_load_b32 v1, v2, s[0:3], 0", 1, 21, "expected 0 VGPRs (one each"),
        (11, "s_load_b32 s0, s[2:3], 0x200000", 1, 24, "expected -1048576..1048575"),
        (11, "image_load v0, v1, s[0:7]", 1, 1, "by name only"),
        (11, ".macro x", 1, 1, "no such directive: .macro"),
        (11, "v_mov_b32_dpp v1, v2 quad_perm:[0,1,2,4]", 1, 22, "expected [4 numbers of 0..3]"),
        (11, "v_mov_b32 v1, 0x1234567890", 1, 15, "does not fit"),
        (11, "v_mov_b32 v1, -2147483649", 1, 15, "does not fit"),
        (11, "v_mov_b32_dpp v1, v2 row_mirror bound_ctrl:2", 1, 33, "at most 1"),
        (11, "v_mov_b32_dpp v1, s2 row_mirror", 1, 19, "expected a VGPR, as DPP16 requires"),
        (11, "ds_load_b32 v1, v2 gds gds", 1, 24, "twice"),
        (11, "v_add_f32 v1 v2", 1, 14, "lacks src0"),
        (11, "s_getreg_b32 s0, hwreg(HW_REG_NONE)", 1, 18, "known name, got 'HW_REG_NONE'"),
        (11, "7 s_nop", 1, 1, "expected an instruction"),
    ],
)
def test_errors_name_the_place(gfx, text, line, column, says):
    with pytest.raises(AsmError) as caught:
        assemble(text, gfx)
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_chip_that_is_not_known():
    for gfx in ("gfx906", "gfx12", 9, "gfx11000", ""):
        with pytest.raises(ValueError, match="expected gfx1030"):
            assemble("s_nop 0", gfx)
    assert table.generation("gfx1036") == table.generation("gfx1030") == 10
    assert table.generation("gfx1103") == table.generation(11) == 11


def test_decode_errors_say_where():
    with pytest.raises(DecodeError, match="at 0x4: gfx11 has no SOPP opcode 0x7f"):
        disassemble([0xBF800000, 0xBFFF0000], 11)
    with pytest.raises(DecodeError, match="at 0x0: VOP3 cut short: 1 of 2 dwords"):
        disassemble([0xD4000000], 11)
    assert [
        at for at, _, _ in instructions(assemble("s_nop 0\ns_mov_b32 s0, 0x1234567", 11), 11)
    ] == [0, 1]
    assert disassemble([], 11) == ""


@pytest.mark.parametrize("gen", [10, 11])
def test_immediates_there_and_back(gen):
    for value in range(0, 0x10000, 17):
        assert imm.parse_swizzle(imm.print_swizzle(value)) == value
    for value in range(0, 0x10000, 13):
        assert imm.parse_hwreg(gen, imm.print_hwreg(gen, value)) == value
        if value < (0x380 if gen == 10 else 256):
            assert imm.parse_message(gen, imm.print_message(gen, value)) == value
    for value in range(0, 0x800, 3):
        assert imm.parse_delay(imm.print_delay(value)) == value
    full = {10: 0xFF7F, 11: 0xFFF7}[gen]
    for value in range(0, 0x10000, 17):
        if value & ~full == 0:
            assert imm.parse_waitcnt(gen, imm.print_waitcnt(gen, value)) == value


def test_no_two_rows_share_a_code():
    for gen in FORMATS:
        isa = table.table(gen)
        codes = [("VOP3" if r.format == "VOP3B" else r.format, r.opcode) for r in isa.rows]
        assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("X 1 31:26=0x1 a@7:0 b@8:7", "X.b overlaps or lies outside"),
        ("X 1 31:26=0x1 a@33:32", "X.a overlaps or lies outside"),
        ("X 1 31:26=0x1 a@26", "X.a overlaps or lies outside"),
    ],
)
def test_fields_that_overlap_are_refused(line, says):
    with pytest.raises(ValueError, match=says):
        parse_format(line)


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="op = 256 does not fit 8 bits"):
        FORMATS[11]["SOP1"].fields["op"].put(256)


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match=r"v_x: no such flag: \['fast'\]"):
        parse_row("v_x VOP1 0x1 vdst:b32 +fast")
    with pytest.raises(ValueError, match="line 2: expected a row NAME FORMAT OPCODE"):
        parse_table("# only a comment\nv_x VOP1\n")
    row = parse_row("ds_read_b32 DS 0x36 vdst:b32 addr:b32 offset = ds_load_b32 # D = M[addr]")
    assert (row.same_as, row.note, row.operands[0].ndw) == ("ds_load_b32", "D = M[addr]", 1)


def test_two_rows_of_one_code_stop_the_generator():
    from _gen import isa_c

    rows = [parse_row("s_a SOP1 0x1 sdst:b32"), parse_row("s_b SOP1 0x1 sdst:b64")]
    with pytest.raises(ValueError, match="s_b and s_a are both SOP1 0x1"):
        isa_c.Tables(11, rows)
