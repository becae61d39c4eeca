"""Assembler, disassembler and the emulator's decoder against llvm-mc 19's vectors, both ways.

When this fails, assembler and emulator share a wrong encoding, and real cards run other
instructions.

The vectors, made by make_isa.py, are the judge: they come from llvm-mc, never from our tables. That
they do judge is tested too, with wrong constants planted in the tables.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from isa_members import members
from sparkle_drv._emu import ffi, lib

from sparkle_drv.amd.isa import table
from sparkle_drv.amd.isa.assembly import assemble, disassemble
from sparkle_drv.amd.isa.codec import DecodeError, decode, encode
from sparkle_drv.amd.isa.formats import FORMATS, FormatField
from sparkle_drv.amd.isa.print import instruction_text

HERE = Path(__file__).resolve().parent
CPUS = {10: "gfx1036", 11: "gfx1100"}
# llvm-mc prints and takes these in their short form only; it knows v_mov_b16 but not as VOP3. It
# knows no v_swap_b16: the opcode is the RDNA3 ISA document's (102).
WITHOUT_VECTOR = {("VOP3", name) for name in ("v_nop", "v_pipeflush", "v_clrexcp", "v_mov_b16")} | {
    ("VOP1", "v_swap_b16")
}


@functools.cache
def vectors(gen: int) -> list[tuple[str, list[int]]]:
    lines = (HERE / f"isa_{CPUS[gen]}.txt").read_text().splitlines()[1:]
    pairs = [line.split(" | ", 1) for line in lines]
    return [(text, [int(word, 16) for word in words.split()]) for words, text in pairs]


@functools.cache
def decoded(gen: int) -> list:
    """(text, dwords, instruction, number of its dwords) of each vector."""
    isa = table.table(gen)
    return [(text, words, *decode(isa, words)) for text, words in vectors(gen)]


@pytest.fixture(params=CPUS, ids=CPUS.values(), scope="module")
def gen(request):
    return request.param


@pytest.fixture(scope="module")
def golden(gen):
    return vectors(gen)


def c_decode(gen, words):
    """(rc, why, every member by name) of the generated decoder."""
    out, why = ffi.new("struct sp_emu_inst *"), ffi.new("char[128]")
    rc = lib.sp_emu_decode(gen, words, len(words), out, why, 128)
    found = {}
    for name, field in ffi.typeof("struct sp_emu_inst").fields:
        value = getattr(out, name)
        if field.type.kind == "array":
            found |= {(name, i): item for i, item in enumerate(value)}
        else:
            found[name] = value
    return rc, ffi.string(why).decode(), found


def names_for_numbers(found):
    names = {"format": ffi.string(lib.sp_emu_format_name(found["format"])).decode()}
    for key in ("op", "opy"):
        names[key] = ffi.string(lib.sp_emu_op_name(found[key])).decode()
    return found | names


def wrong_texts(isa, golden):
    """Vectors whose text our disassembler does not give, one after another."""
    for text, words in golden:
        try:
            inst, ndw = decode(isa, words)
            got = instruction_text(isa, inst) if ndw == len(words) else f"{ndw} dwords"
        except (DecodeError, KeyError) as error:
            got = str(error)
        if got != text:
            yield f"{text!r}, not {got!r}"


# Coverage sees every ninth vector, in test_one_program_of_many_vectors.
@pytest.mark.unmeasured
def test_text_becomes_the_bytes(gen, golden):
    wrong = []
    for text, words in golden:
        try:
            got = assemble(text, gen)
        except ValueError as error:
            wrong.append(f"{text}: {error}")
            continue
        if got != words:
            wrong.append(f"{text}: {[hex(word) for word in got]}")
    assert not wrong, "\n".join(wrong[:20])


def test_one_program_of_many_vectors(gen, golden):
    some = golden[::9]
    words = [word for _, part in some for word in part]
    text = "\n".join(text for text, _ in some) + "\n"
    assert disassemble(words, gen) == text


@pytest.mark.unmeasured
def test_bytes_become_the_text(gen, golden):
    assert list(wrong_texts(table.table(gen), golden)) == []


@pytest.mark.unmeasured
def test_the_c_decoder_agrees(gen):
    isa = table.table(gen)
    for text, words, inst, ndw in decoded(gen):
        rc, why, found = c_decode(gen, words)
        assert rc == 0, f"{text}: {why}"
        got = {key: value for key, value in names_for_numbers(found).items() if value}
        want = {key: value for key, value in members(isa, inst, ndw).items() if value}
        assert got == want, text


def test_every_row_has_a_vector(gen):
    isa = table.table(gen)
    seen = {row for _, _, inst, _ in decoded(gen) for row in (inst.row, inst.y)}
    missing = {
        (row.format, row.name)
        for row in isa.rows
        if row not in seen and not row.flags & {"name", "rdna35"}
    }
    assert missing <= WITHOUT_VECTOR


@pytest.mark.parametrize(
    ("gen", "name", "form", "wrong"),
    [
        (10, "v_add_f32", "VOP2", {"opcode": 4}),
        (11, "v_add_f32", "VOP3", {"opcode": 0x105}),
        (11, "v_cvt_f64_f32", "VOP1", {"type": ("vdst", "f32")}),
        (10, "s_load_dwordx4", "SMEM", {"type": ("sdata", "b64")}),
        (11, "global_load_b128", "GLOBAL", {"opcode": 0x15}),
        (11, "ds_load_b64", "DS", {"type": ("vdst", "b32")}),
        (11, "v_readlane_b32", "VOP3", {"field": ("svdst", "vdst")}),
        (10, "v_dot2_i32_i16", "VOP3P", {"opcode": 0x15}),
        (10, "ds_write2_b32", "DS", {"field": ("offset2", "offset")}),
        (10, "buffer_load_dword", "MUBUF", {"type": ("vdata", "b64")}),
    ],
)
def test_a_wrong_row_is_found(gen, name, form, wrong):
    isa = table.Table(gen)
    row = next(row for row in isa.by_name[name] if row.format == form)
    operands = list(row.operands)
    for i, operand in enumerate(operands):
        if operand.field == wrong.get("type", ("",))[0]:
            operands[i] = operand._replace(type=wrong["type"][1])
        if operand.field == wrong.get("field", ("",))[0]:
            operands[i] = operand._replace(field=wrong["field"][1])
    bad = row._replace(opcode=wrong.get("opcode", row.opcode), operands=tuple(operands))
    assert bad != row
    del isa.by_code[form, row.opcode]
    isa.by_code[form, bad.opcode] = bad
    assert any(wrong_texts(isa, [pair for pair in vectors(gen) if pair[0].startswith(name)]))


@pytest.mark.parametrize(
    ("gen", "form", "field", "parts"),
    [
        (10, "VOP2", "vsrc1", ((10, 7),)),
        (11, "SMEM", "glc", ((16, 1),)),
        (11, "FLAT", "offset", ((0, 12),)),
        (10, "DPP16", "bank_mask", ((28, 4),)),
        (11, "VOP3P", "op_sel_hi", ((59, 2),)),
        (11, "VOPD", "vdsty", ((48, 7),)),
    ],
)
def test_a_wrong_field_position_is_found(gen, form, field, parts):
    isa = table.Table(gen)
    fields = dict(FORMATS[gen][form].fields)
    fields[field] = FormatField(field, parts)
    isa.formats = dict(isa.formats) | {form: FORMATS[gen][form]._replace(fields=fields)}
    of_field = [
        (text, words)
        for text, words, inst, _ in decoded(gen)
        if field in inst.fields or field in inst.second_fields
    ]
    assert any(wrong_texts(isa, of_field))


def test_the_tables_judge_the_c_decoder_too(gen, golden):
    """The comparison sees one wrong member: it is not blind to any that a vector sets."""
    isa = table.table(gen)
    text, words = next(pair for pair in golden if pair[0].startswith("v_fma_f32 "))
    inst, ndw = decode(isa, words)
    found = names_for_numbers(c_decode(gen, words)[2])
    worse = dataclasses.replace(inst, fields=inst.fields | {"src1": inst.fields["src1"] ^ 1})
    assert found["src", 1] != members(isa, worse, ndw)["src", 1], text


def opcodes(gen):
    """Every (format, opcode) there is room for, as dwords with nothing else set."""
    for form in FORMATS[gen].values():
        if not form.mask or form.name in ("VOP3B", "EXP"):
            continue
        for opcode in range(1 << form.fields["op"].nbits):
            bits = form.value | form.fields["op"].put(opcode)
            segments = range(4) if form.name == "FLAT" else [0]
            for segment in segments:
                more = form.fields["seg"].put(segment) if form.name == "FLAT" else 0
                words = [(bits | more) >> 32 * i & 0xFFFFFFFF for i in range(form.ndw)]
                yield form.name, opcode, [*words, 0, 0]


def refusal(isa, words):
    """(instruction, "") or (None, what the Python decoder says against it)."""
    try:
        return decode(isa, words)[0], ""
    except DecodeError as error:
        return None, str(error)


def test_unknown_opcodes_are_errors_that_name_them(gen):
    isa = table.table(gen)
    unknown = 0
    for form, opcode, words in opcodes(gen):
        inst, says = refusal(isa, words)
        rc, why, found = c_decode(gen, words)
        assert why == says
        if inst is None:
            unknown += 1
            assert rc == -84, (form, hex(opcode))  # EILSEQ
            assert " opcode 0x" in why or "takes no" in why
        else:
            assert rc == 0
            assert names_for_numbers(found)["op"] == inst.row.same_as
    assert unknown > 1000


def registers(row):
    """What a row reads and writes, as far as both generations must agree on it."""
    plain = {"vcc": "vdst", "saddr": "", "soffset": "", "offset": "", "offset2": ""}
    found = set()
    for operand in row.operands:
        name = plain.get(operand.field, operand.field.removeprefix("s").removeprefix("v"))
        found |= {(name, operand.ndw)} if name and operand.type != "mask" else set()
    return found


def test_instructions_with_one_number_have_the_same_operands():
    """`=` in rdna2.isa joins what the generations name differently: never two of other operands."""
    new = {(row.name, row.format): row for row in table.table(11).rows}
    joined = 0
    for row in table.table(10).rows:
        other = new.get((row.same_as, row.format))
        if other is None or "name" in row.flags | other.flags:
            continue
        joined += row.name != other.name
        assert registers(row) == registers(other), (row.name, other.name)
        assert row.is_promoted == other.is_promoted
    assert joined > 200


def test_renamed_instructions_are_those_that_llvm_mc_renames():
    lines = (HERE / "isa_names.txt").read_text().splitlines()[1:]
    names = dict(line.split() for line in lines)
    rows = [row for row in table.table(10).rows if "name" not in row.flags]
    assert {row.name: row.same_as for row in rows if row.same_as != row.name} == names


def test_cut_short(gen):
    isa = table.table(gen)
    words = assemble("v_fma_f32 v1, v2, 0x12345678, v3\nv_mov_b32 v1, 0x12345678", gen)
    for part in ([], words[:1], words[:2], words[3:4]):
        with pytest.raises(DecodeError):
            decode(isa, part)
        assert c_decode(gen, part)[0] == -61  # ENODATA


def test_reserved_bits_are_seen(gen):
    isa = table.table(gen)
    words = assemble("ds_add_u32 v1, v2", gen)
    inst, _ = decode(isa, [words[0] | 1 << 16, words[1]])
    assert inst.reserved == 1 << 16
    assert c_decode(gen, [words[0] | 1 << 16, words[1]])[2]["reserved"] == 1
    assert c_decode(gen, words)[2]["reserved"] == 0
    assert encode(isa, inst) == words
    # VDST of an instruction without one: an RDNA3 card takes it (tinygrad, test/amd/hw/test_ds.py).
    unused = c_decode(gen, [words[0], words[1] | 7 << 24])
    assert unused[2] == c_decode(gen, words)[2]


@pytest.mark.parametrize(
    ("text", "words", "op_sel"),
    [
        # Upper halves in short forms: the register's bit 7. Words of llvm-mc 19 with +real-true16,
        # which knows all but V_CMP, whose words are the manual's.
        ("v_mov_b16_e32 v1.h, v2.l", [0x7F023902], 0b1000),
        ("v_mov_b16_e32 v1.l, v2.h", [0x7E023982], 0b0001),
        ("v_add_f16_e32 v1.h, v2.h, v3.h", [0x65030782], 0b1011),
        ("v_cmp_lt_f16_e32 vcc_lo, v1, v2.h", [0x7C030501], 0b0010),
        (
            "v_add_f16_dpp v1, v2.h, v3 row_mirror row_mask:0xf bank_mask:0xf",
            [0x640206FA, 0xFF014082],
            0b0001,
        ),
    ],
)
def test_halves_of_registers(text, words, op_sel):
    isa = table.table(11)
    assert assemble(text, 11) == words
    assert disassemble(words, 11) == text + "\n"
    rc, _, found = c_decode(11, words)
    assert rc == 0
    assert found["op_sel"] == op_sel
    inst, _ = decode(isa, words)
    for i in (0, 1):  # the registers themselves are those of the first 128
        assert found["src", i] & 128 == 0, inst.row.name
    assert found["dst"] in (257, 106)


def test_another_generation_is_refused():
    assert c_decode(9, [0])[0] == -22
    with pytest.raises(ValueError, match="gfx: got 'gfx906'"):
        disassemble([0], "gfx906")


# --- what RDNA3.5 adds ---


def added() -> list[tuple[str, list[int]]]:
    lines = (HERE / "isa_gfx1150.txt").read_text().splitlines()[1:]
    pairs = [line.split(" | ", 1) for line in lines]
    return [(text, [int(word, 16) for word in words.split()]) for words, text in pairs]


def test_rdna35_both_ways():
    isa = table.table(11)
    assert list(wrong_texts(isa, added())) == []
    seen = set()
    for text, words in added():
        assert assemble(text, "gfx1150") == words, text
        inst, ndw = decode(isa, words)
        rc, why, found = c_decode(11, words)
        assert rc == 0, why
        got = {key: value for key, value in names_for_numbers(found).items() if value}
        assert got == {k: value for k, value in members(isa, inst, ndw).items() if value}, text
        seen.add(inst.row)
    assert seen == {row for row in isa.rows if "rdna35" in row.flags}


def test_rdna3_has_none_of_it():
    for text, _ in added():
        with pytest.raises(ValueError, match="gfx1100 has no s_"):
            assemble(text, "gfx1100")


@pytest.mark.parametrize("cpu", ["gfx1036", "gfx1100", "gfx1150"])
def test_no_instruction_of_llvm_mc_is_left_out(cpu):
    """Every opcode of every format, asked of llvm-mc; VOPD's pairs and export apart."""
    if not shutil.which("llvm-mc-19"):
        pytest.skip("no llvm-mc-19 here")
    gen, found = (10 if cpu == "gfx1036" else 11), set()
    lines = []
    for form, _, words in opcodes(gen):
        if form in ("VOPD", "MIMG"):  # MIMG: its names have no opcode of their own here
            continue
        for field in ("src0", "src1", "src2"):
            place = FORMATS[gen][form].fields.get(field)
            if place and place.nbits == 9:  # a VGPR is allowed everywhere
                for k in (0, 1):
                    words[k] |= place.put(256) >> 32 * k & 0xFFFFFFFF
        data = b"".join(word.to_bytes(4, "little") for word in words)
        lines.append("[" + " ".join(f"0x{byte:02x}" for byte in data) + "]")
    command = ["llvm-mc-19", "-triple=amdgcn", f"-mcpu={cpu}", "-disassemble"]
    done = subprocess.run(
        command, input="\n".join(lines), capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        name = line.split()[0] if line.strip() else "."
        found |= {re.sub("_(e64_dpp|e32|e64|dpp|sdwa)$", "", name)} - {"v_illegal"}
    found = {name for name in found if not name.startswith(".")}
    assert len(found) > 800
    rows = table.table(gen).rows
    assert found <= {row.name for row in rows if cpu == "gfx1150" or "rdna35" not in row.flags}
