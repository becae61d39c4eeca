"""Prints one instruction, given as fields, as llvm-mc prints it."""

from __future__ import annotations

from . import imm
from .names import BUF_FORMAT_DEFAULT, BUF_FORMATS, SDWA_SELECTS, SDWA_UNUSED
from .operand import scalar_text, source_text, vgpr_text
from .rows import Row, RowOperand
from .table import VOP3S, VOP12C, Inst, Table

OMOD = ("", "mul:2", "mul:4", "div:2")
CHANNELS = "xyzw"


def is_mix(row: Row) -> bool:
    """Returns whether an instruction is V_FMA_MIX*. In these, NEG_HI of VOP3P means ABS, and
    OP_SEL_HI says which operands are halves.
    """
    return row.name.startswith("v_fma_mix")


def source_index(name: str) -> int:
    """Returns the index of a source (0, 1 or 2 for src0, ssrc1, vsrc1 ...), or -1 for any other
    field.
    """
    plain = name.removeprefix("s").removeprefix("v")
    return "012".find(plain[-1]) if plain[:-1] in ("src", "rc") else -1


def source_count(row: Row) -> int:
    return sum(source_index(operand.field) >= 0 for operand in row.operands)


def mask_ndw(operand: RowOperand, wave: int) -> int:
    return wave // 32 if operand.type == "mask" else operand.ndw


def _signs(inst: Inst, index: int) -> tuple[bool, bool, bool]:
    """Returns whether abs, neg and sext, in this order, apply to source operand `index`."""
    f, s = inst.fields, inst.second_fields
    absolute, negative = f.get("abs", 0) >> index & 1, f.get("neg", 0) >> index & 1
    if inst.row.format == "VOP3P":
        absolute = f["neg_hi"] >> index & 1 if is_mix(inst.row) else 0
        negative = negative if is_mix(inst.row) else 0
    absolute |= s.get(f"abs{index}", 0)
    negative |= s.get(f"neg{index}", 0)
    return bool(absolute), bool(negative), bool(s.get(f"sext{index}", 0))


def _signed_text(text: str, absolute: bool, negative: bool, sext: bool) -> str:
    if sext:
        return f"sext({text})"
    if absolute:
        return f"-|{text}|" if negative else f"|{text}|"
    if negative:
        return f"neg({text})" if text[0].isdigit() or text[0] == "-" else f"-{text}"
    return text


def _source(isa: Table, inst: Inst, operand: RowOperand, wave: int) -> str:
    name = isa.field_name(inst.row, operand.field)
    code = inst.fields[name]
    index = source_index(operand.field)
    if inst.second and name == "src0":
        code = inst.second_fields["src0"] + 256
        if inst.second_fields.get("s0"):
            code -= 256
    elif name == "vsrc1":
        code = code if inst.second_fields.get("s1") else code + 256
    ndw = mask_ndw(operand, wave)
    text = source_text(isa, code, operand.type, ndw, inst.literal)
    return _signed_text(text, *_signs(inst, index)) if index >= 0 else text


def _smem_offset(isa: Table, inst: Inst) -> str:
    offset = isa_imm_signed(inst.fields["offset"], 21)
    shown = f"-{-offset:#x}" if offset < 0 else f"{offset:#x}"
    if inst.fields["soffset"] == isa.null:
        return shown if offset else "null"
    register = scalar_text(isa, inst.fields["soffset"])
    return f"{register} offset:{shown}" if offset else register


def isa_imm_signed(value: int, nbits: int) -> int:
    return value - (1 << nbits) if value >> nbits - 1 else value


def simm16(isa: Table, kind: str, value: int) -> str:
    gen = isa.gen
    if kind == "target":
        return str(value)
    if kind == "hwreg":
        return imm.print_hwreg(gen, value)
    if kind == "sendmsg":
        return imm.print_message(gen, value)
    if kind == "waitcnt":
        return imm.print_waitcnt(gen, value)
    if kind == "depctr":
        return imm.print_depctr(value)
    if kind == "delay":
        return imm.print_delay(value)
    if kind == "optional":
        return str(value) if value else ""
    if kind == "small":  # decimal if an inline constant has this value, otherwise hexadecimal
        return _decimal(value)
    return f"{value:#x}"


def _flat_saddr(isa: Table, inst: Inst) -> str:
    saddr = inst.fields["saddr"]
    off = saddr == isa.null or (isa.gen == 10 and saddr == 0x7F)
    return "off" if off else scalar_text(isa, saddr, 1 if inst.row.format == "SCRATCH" else 2)


def _flat_address(isa: Table, inst: Inst) -> str:
    f = inst.fields
    if inst.row.format == "SCRATCH":
        there = f["sve"] if isa.gen >= 11 else f["saddr"] == isa.null
        return vgpr_text(f["addr"]) if there else "off"
    is_global = inst.row.format == "GLOBAL"
    ndw = 1 if is_global and _flat_saddr(isa, inst) != "off" else 2
    return vgpr_text(f["addr"], ndw)


def _operand(isa: Table, inst: Inst, operand: RowOperand, wave: int) -> str | None:
    """Returns the text of an operand, or None if the instruction's text has no such operand."""
    row, f, name = inst.row, inst.fields, operand.field
    if name in ("offset", "offset2", "exec") or (operand.optional and not f["glc"]):
        return None
    # the data goes to LDS, so the text has no data register
    if name in ("vdata", "vdst") and f.get("lds"):
        return None
    if name == "vcc":
        if row.format == "VOPC" and inst.second == "SDWAB" and inst.second_fields["sd"]:
            return scalar_text(isa, inst.second_fields["sdst"], wave // 32)
        return scalar_text(isa, 106, wave // 32)
    if name == "literal":
        return f"{inst.literal or 0:#x}" if row.format != "SOPK" else _decimal(inst.literal or 0)
    if name == "simm16":
        return simm16(isa, operand.type, f["simm16"])
    if name == "attr":
        return f"attr{f['attr']}.{CHANNELS[f['chan']]}"
    if operand.type == "h16" or _upper_half(isa, inst, operand):
        return _half(isa, inst, operand)
    if operand.type == "msgrtn":
        return imm.print_message(isa.gen, f["ssrc0"])
    if operand.type == "small":
        return _decimal(f[name])
    if row.format == "SMEM" and name == "soffset":
        return _smem_offset(isa, inst)
    if name == "addr" and row.format in ("FLAT", "GLOBAL", "SCRATCH"):
        return _flat_address(isa, inst) if operand.type != "off" else "off"
    if name == "saddr":
        return _flat_saddr(isa, inst)
    if name == "vaddr":
        ndw = f["offen"] + f["idxen"]
        return vgpr_text(f["vaddr"], ndw) if ndw else "off"
    if name == "vdata":
        return vgpr_text(f[name], operand.ndw + f["tfe"])
    if name in ("sbase", "srsrc"):
        return scalar_text(isa, f[name] * (2 if name == "sbase" else 4), operand.ndw)
    if source_index(name) >= 0 or name == "soffset":
        return _source(isa, inst, operand, wave)
    code = f[isa.field_name(row, name)]
    if name in ("sdst", "svdst", "sdata"):
        return scalar_text(isa, code, mask_ndw(operand, wave))
    return vgpr_text(code, operand.ndw)


def _decimal(value: int) -> str:
    return str(value) if value <= 64 else f"{value:#x}"


def _upper_half(isa: Table, inst: Inst, operand: RowOperand) -> bool:
    """Returns whether an operand of a 32-bit form of gfx11 is the upper half of a VGPR. Bit 7 of
    the VGPR's number is then set.
    """
    if isa.gen < 11 or inst.row.format not in VOP12C or operand.nbits != 16:
        return False
    name = isa.field_name(inst.row, operand.field)
    code = inst.fields[name]
    if name == "src0":
        code = inst.second_fields["src0"] + 256 if inst.second else code
        return code >= 256 + 128
    return code >= 128


def _half(isa: Table, inst: Inst, operand: RowOperand) -> str:
    """Returns the name of one half (16 bits) of a VGPR. In the 32-bit forms of an instruction,
    bit 7 of the VGPR's number selects the half.
    """
    name = isa.field_name(inst.row, operand.field)
    code = inst.fields[name]
    if inst.second and name == "src0":
        code = inst.second_fields["src0"] + 256
    if name.startswith("src") and code < 256:
        return source_text(isa, code, "b16", 1, inst.literal)
    index = source_index(operand.field)
    text = _half_name(inst, name, code)
    return _signed_text(text, *_signs(inst, index)) if index >= 0 else text


def _half_name(inst: Inst, name: str, code: int) -> str:
    if inst.row.format == "VOP3":
        bit = 3 if name == "vdst" else source_index(name)
        return f"v{code & 255}.{'lh'[inst.fields['op_sel'] >> bit & 1]}"
    return f"v{code & 127}.{'lh'[code >> 7 & 1]}"


def _bits(name: str, value: int, count: int) -> str:
    return f"{name}:[" + ",".join(str(value >> i & 1) for i in range(count)) + "]"


def _op_sel(inst: Inst, count: int) -> list[str]:
    """Returns the modifier op_sel as text such as "op_sel:[0,1,0]", or [] if it is not written. Its
    bits are in the order of the operands; a bit of the destination (bit 3) comes last.
    """
    row, value = inst.row, inst.fields["op_sel"]
    if not value or any(operand.type == "h16" for operand in row.operands):
        return []
    if row.format == "VOP3P" or row.name.startswith("v_permlane"):
        return [_bits("op_sel", value, 2 if row.name.startswith("v_permlane") else count)]
    return [_bits("op_sel", value & (1 << count) - 1 | value >> 3 << count, count + 1)]


def _vop3_modifiers(inst: Inst) -> list[str]:
    row, f = inst.row, inst.fields
    count = source_count(row)
    out = _op_sel(inst, count + row.name.startswith("v_fmac")) if "op_sel" in f else []
    if row.format == "VOP3P":
        ones = (1 << count) - 1
        if is_mix(row):
            out += [_bits("op_sel_hi", f["op_sel_hi"], count)] if f["op_sel_hi"] & ones else []
        else:
            out += [_bits("op_sel_hi", f["op_sel_hi"], count)] if ~f["op_sel_hi"] & ones else []
            out += [_bits("neg_lo", f["neg"], count)] if f["neg"] else []
            out += [_bits("neg_hi", f["neg_hi"], count)] if f["neg_hi"] else []
    out += ["clamp"] if f["clamp"] else []
    out += [OMOD[f["omod"]]] if f.get("omod") else []
    return out


def _second_modifiers(inst: Inst) -> list[str]:
    s = inst.second_fields
    if inst.second == "DPP8":
        lanes = ",".join(str(s["dpp8"] >> 3 * i & 7) for i in range(8))
        return [f"dpp8:[{lanes}]"] + (["fi:1"] if inst.fields["src0"] == 234 else [])
    if inst.second == "DPP16":
        out = [imm.print_dpp(s["dpp_ctrl"])]
        out += [f"row_mask:{s['row_mask']:#x}", f"bank_mask:{s['bank_mask']:#x}"]
        return out + ["bound_ctrl:1"] * s["bound_ctrl"] + ["fi:1"] * s["fi"]
    out = ["clamp"] * s.get("clamp", 0) + ([OMOD[s["omod"]]] if s.get("omod") else [])
    count = source_count(inst.row)
    if inst.second == "SDWA" and any(o.field == "vdst" for o in inst.row.operands):
        out += [f"dst_sel:{SDWA_SELECTS[min(s['dst_sel'], 6)]}"]
        out += [f"dst_unused:{SDWA_UNUSED[min(s['dst_unused'], 2)]}"]
    for i in range(count if "vcc" not in [o.field for o in inst.row.operands][2:] else 2):
        out.append(f"src{i}_sel:{SDWA_SELECTS[min(s[f'src{i}_sel'], 6)]}")
    return out


def _memory_modifiers(isa: Table, inst: Inst) -> list[str]:
    row, f = inst.row, inst.fields
    out: list[str] = []
    if row.format == "DS":
        fields = [operand.field for operand in row.operands]
        offset = f["offset"]
        if "offset2" in fields:
            out += [f"offset0:{offset & 255}"] if offset & 255 else []
            out += [f"offset1:{offset >> 8}"] if offset >> 8 else []
        elif row.name == "ds_swizzle_b32":
            out += [f"offset:{imm.print_swizzle(offset)}"] if offset else []
        elif offset:
            out += [f"offset:{offset}"]
        return out + ["gds"] * f["gds"]
    if row.format == "MTBUF":
        out += _buffer_format(isa, f["format"])
    out += [name for name in ("idxen", "offen") if f.get(name)]
    if row.format in ("FLAT", "GLOBAL", "SCRATCH"):
        nbits = isa.formats["FLAT"].fields["offset"].nbits
        unsigned = row.format == "FLAT"
        offset = f["offset"] if unsigned else isa_imm_signed(f["offset"], nbits)
        out += [f"offset:{offset}"] if offset else []
    elif row.format != "SMEM":
        out += [f"offset:{f['offset']}"] if f["offset"] else []
    out += [name for name in ("glc", "slc", "dlc", "tfe") if f.get(name)]
    return out + ["lds"] * f.get("lds", 0)


def _buffer_format(isa: Table, value: int) -> list[str]:
    if value == BUF_FORMAT_DEFAULT:
        return []
    names = BUF_FORMATS[isa.gen]
    return [f"format:[{names[value]}]" if value < len(names) else f"format:{value}"]


def _modifiers(isa: Table, inst: Inst) -> list[str]:
    row = inst.row
    if "name" in row.flags:
        return []
    if row.format in VOP3S or row.format in VOP12C:
        out = _vop3_modifiers(inst) if row.format in VOP3S else []
        return out + (_second_modifiers(inst) if inst.second else [])
    if row.format == "VINTERP":
        out = ["clamp"] * inst.fields["clamp"]
        out += [_bits("op_sel", inst.fields["op_sel"], 4)] if inst.fields["op_sel"] else []
        return [*out, f"wait_exp:{inst.fields['waitexp']}"]
    if row.format == "LDSDIR":
        return [f"wait_vdst:{inst.fields['waitvdst']}"]
    return _memory_modifiers(isa, inst) if "glc" in inst.fields or row.format == "DS" else []


def mnemonic(inst: Inst) -> str:
    """Returns the instruction's name with llvm-mc's suffix for the encoding: _e32, _e64, _dpp,
    _sdwa, _e64_dpp.
    """
    row = inst.row
    suffix = ""
    if row.is_promoted and row.operands:
        suffix = "_e64"
    elif row.format in VOP12C and "e64" in row.flags and row.operands and not inst.second:
        suffix = "_e32"
    if inst.second.startswith("SDWA"):
        suffix = "_sdwa"
    elif inst.second and row.format != "VOPC":  # llvm-mc 19 gives V_CMP with DPP no suffix
        suffix = "_e64_dpp" if row.format in VOP3S else "_dpp"
    return row.name + suffix


def instruction_text(isa: Table, inst: Inst, wave: int = 32) -> str:
    if inst.y is not None:
        y = Inst(
            inst.y,
            {
                **{"vdst": inst.fields["vdsty"], "src0": inst.fields["src0y"]},
                **{"vsrc1": inst.fields["vsrc1y"]},
            },
            literal=inst.literal,
        )
        x = Inst(inst.row, inst.fields, literal=inst.literal)
        return f"{instruction_text(isa, x, wave)} :: {instruction_text(isa, y, wave)}"
    parts = []
    if "name" not in inst.row.flags:
        parts = [_operand(isa, inst, operand, wave) for operand in inst.row.operands]
    operands = ", ".join(part for part in parts if part)
    words = [mnemonic(inst), operands, *_modifiers(isa, inst)]
    return " ".join(word for word in words if word)
