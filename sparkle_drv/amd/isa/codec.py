"""Converts instructions, as fields, to dwords and back, by the tables alone."""

from __future__ import annotations

from collections.abc import Sequence

from .formats import SRC0_DPP8, SRC0_DPP8_FI, SRC0_DPP16, SRC0_LITERAL, SRC0_SDWA, Format
from .rows import Row
from .table import SEGMENT, VOP3S, VOP12C, Inst, Table

SOURCES = ("src0", "src1", "src2", "ssrc0", "ssrc1", "src0y")


class DecodeError(ValueError):
    """The dwords are no instruction. The message has the format and the opcode."""


def pack(form: Format, fields: dict[str, int]) -> int:
    bits = form.value
    for name, value in fields.items():
        bits |= form.fields[name].put(value)
    return bits


def unpack(form: Format, bits: int) -> dict[str, int]:
    return {name: field.get(bits) for name, field in form.fields.items()}


def encode(isa: Table, inst: Inst) -> list[int]:
    """Returns the dwords of an instruction whose fields are all set. Raises ValueError for a value
    that does not fit its field.
    """
    form = isa.layout(inst.row)
    fields = dict(inst.fields)
    if "op" in form.fields:
        fields["op"] = inst.row.opcode
    if inst.row.format in SEGMENT:
        fields["seg"] = SEGMENT[inst.row.format]
    if inst.y is not None:
        fields["opy"] = inst.y.opcode
        fields["vdsty"] = fields["vdsty"] >> 1
    bits = pack(form, fields)
    words = [bits >> 32 * i & 0xFFFFFFFF for i in range(form.ndw)]
    if inst.second:
        words.append(pack(isa.formats[inst.second], inst.second_fields))
    if inst.literal is not None:
        words.append(inst.literal & 0xFFFFFFFF)
    return words


def _find(isa: Table, form: Format, fields: dict[str, int]) -> Row:
    opcode = fields.get("op", 0)
    name = form.name
    if name == "FLAT":
        segment = fields["seg"]
        name = next((key for key, value in SEGMENT.items() if value == segment), "FLAT segment 3")
    row = isa.by_code.get(("VOPDx" if name == "VOPD" else name, opcode))
    if row is None:
        raise DecodeError(f"gfx{isa.gen} has no {name} opcode {opcode:#x}")
    return row


def _second(isa: Table, inst: Inst) -> str:
    """Returns the format of the second dword that SRC0 asks for, or "" if SRC0 asks for none."""
    row = inst.row
    takes = row.format in VOP12C or (isa.gen >= 11 and row.format in VOP3S)
    if not takes or not any(operand.field.endswith("src0") for operand in row.operands):
        return ""
    src0 = inst.fields["src0"]
    names = {SRC0_DPP16: "DPP16", SRC0_DPP8: "DPP8", SRC0_DPP8_FI: "DPP8"}
    if isa.gen == 10:
        names[SRC0_SDWA] = "SDWAB" if row.format == "VOPC" else "SDWA"
    name = names.get(src0, "")
    flag = {"DPP16": "dpp", "DPP8": "dpp8", "SDWA": "sdwa", "SDWAB": "sdwa"}.get(name)
    if flag is not None and flag not in row.flags:
        raise DecodeError(f"gfx{isa.gen}: {row.name} ({row.format}) takes no {name}")
    return name


def _wants_literal(inst: Inst) -> bool:
    rows = [inst.row] + ([inst.y] if inst.y else [])
    for row in rows:
        if any(operand.field == "literal" for operand in row.operands):
            return True
    for name in (one.field for one in inst.row.operands if one.type != "msgrtn"):
        plain = name[1:] if name.startswith("ssrc") and name not in inst.fields else name
        if plain in SOURCES and inst.fields.get(plain) == SRC0_LITERAL:
            return True
    return inst.y is not None and inst.fields.get("src0y") == SRC0_LITERAL


def decode(isa: Table, words: Sequence[int]) -> tuple[Inst, int]:
    """Returns the instruction at the start of `words`, and the number of its dwords. Raises
    DecodeError if there is no instruction.
    """
    if not words:
        raise DecodeError("expected an instruction, got no dwords")
    for form in isa.formats.values():
        if form.mask and words[0] & form.mask == form.value:
            break
    else:
        raise DecodeError(f"gfx{isa.gen} has no format for {words[0]:#010x}")
    if len(words) < form.ndw:
        raise DecodeError(f"{form.name} cut short: {len(words)} of {form.ndw} dwords")
    bits = words[0] | (words[1] << 32 if form.ndw > 1 else 0)
    row = _find(isa, form, unpack(form, bits))
    form = isa.layout(row)
    inst = Inst(row, unpack(form, bits), reserved=bits & ~form.declared)
    if row.format == "VOPD":
        inst.y = isa.by_code.get(("VOPDy", inst.fields["opy"]))
        if inst.y is None:
            raise DecodeError(f"gfx{isa.gen} has no VOPD Y opcode {inst.fields['opy']:#x}")
        inst.fields["vdsty"] = inst.fields["vdsty"] << 1 | (~inst.fields["vdst"] & 1)
    # `nsa` counts the further dwords that hold addresses
    ndw = form.ndw + inst.fields.get("nsa", 0)
    inst.second = _second(isa, inst)
    more = bool(inst.second) or _wants_literal(inst)
    if len(words) < ndw + more:
        raise DecodeError(f"{row.name} cut short: {len(words)} of {ndw + 1} dwords")
    if inst.second:
        inst.second_fields = unpack(isa.formats[inst.second], words[ndw])
    elif more:
        inst.literal = words[ndw]
    return inst, ndw + more
