"""Stores the modifiers in an instruction's text in the fields of its `Inst`."""

from __future__ import annotations

import re

from . import imm
from .imm import in_bits, number, parse_list
from .names import BUF_FORMATS, SDWA_SELECTS, SDWA_UNUSED
from .print import OMOD, is_mix, source_count
from .scan import AsmError, Modifier
from .table import Inst, Table

SDWA_NAMES = {"dst_sel", "dst_unused", "src0_sel", "src1_sel"}
DPP16_NAMES = {"quad_perm", "row_shl", "row_shr", "row_ror", "row_share", "row_xmask"}
DPP16_NAMES |= {"row_mirror", "row_half_mirror"}
FLAGS = {"gds", "glc", "slc", "dlc", "lds", "tfe", "offen", "idxen"}
_WAITS = {"wait_exp": "waitexp", "wait_vdst": "waitvdst"}


def second_word(names: set[str], suffix: str) -> str:
    """Returns the kind of second dword that the modifiers `names` or the mnemonic's `suffix`
    "_sdwa" need: "DPP16", "DPP8", "SDWA", or "" for none.
    """
    if "dpp8" in names:
        return "DPP8"
    if names & DPP16_NAMES:
        return "DPP16"
    return "SDWA" if suffix == "_sdwa" or names & SDWA_NAMES else ""


def set_defaults(inst: Inst) -> None:
    """Sets default values in those fields of an instruction that modifiers can change. The defaults
    are the values of an instruction without modifiers.
    """
    row, f, s = inst.row, inst.fields, inst.second_fields
    if row.format == "VOP3P" and not is_mix(row):
        f["op_sel_hi"] = 7
    if inst.second == "DPP16":
        s |= {"row_mask": 15, "bank_mask": 15}
    if inst.second.startswith("SDWA"):
        if inst.second == "SDWA" and any(operand.field == "vdst" for operand in row.operands):
            s |= {"dst_sel": 6, "dst_unused": 2}
        s |= {f"src{i}_sel": 6 for i in range(min(source_count(row), 2))}


def _op_sel(inst: Inst, value: str) -> int:
    row = inst.row
    count = source_count(row) + row.name.startswith("v_fmac")
    if row.name.startswith("v_permlane"):
        count = 2
    elif row.format == "VINTERP":
        count = 4
    elif row.format != "VOP3P":
        count += 1
    bits = parse_list(value, count, 1)
    if row.format == "VOP3P" or row.name.startswith("v_permlane") or row.format == "VINTERP":
        return sum(bit << i for i, bit in enumerate(bits))
    return sum(bit << i for i, bit in enumerate(bits[:-1])) | bits[-1] << 3


def _packed(inst: Inst, name: str, value: str) -> None:
    """Sets op_sel_hi, neg_lo or neg_hi, which have one bit per source."""
    field = {"neg_lo": "neg"}.get(name, name)
    bits = parse_list(value, source_count(inst.row), 1)
    for i, bit in enumerate(bits):
        inst.fields[field] = inst.fields.get(field, 0) & ~(1 << i) | bit << i


def _omod(inst: Inst, name: str, value: str) -> None:
    text = f"{name}:{value}"
    if text not in OMOD:
        raise ValueError(f"no such output modifier: {text}")
    target = inst.second_fields if inst.second == "SDWA" else inst.fields
    target["omod"] = OMOD.index(text)


def _dpp(inst: Inst, name: str, value: str) -> bool:
    """Applies a modifier of DPP. Returns False if `name` is not such a modifier."""
    s = inst.second_fields
    if inst.second == "DPP8" and name == "dpp8":
        s["dpp8"] = sum(lane << 3 * i for i, lane in enumerate(parse_list(value, 8, 7)))
    elif name == "fi" and inst.second.startswith("DPP"):
        on = in_bits(number(value), 1, "fi")
        if inst.second == "DPP8":
            inst.fields["src0"] = 233 + on
        else:
            s["fi"] = on
    elif inst.second != "DPP16":
        return False
    elif name in ("row_mask", "bank_mask"):
        s[name] = in_bits(number(value), 4, name)
    elif name == "bound_ctrl":  # bound_ctrl:0 is an older spelling of bound_ctrl:1
        in_bits(number(value), 1, name)
        s[name] = 1
    else:
        ctrl = imm.parse_dpp(name, value)
        if ctrl is None:
            return False
        s["dpp_ctrl"] = ctrl
    return True


def _sdwa(inst: Inst, name: str, value: str) -> bool:
    if not inst.second.startswith("SDWA") or name not in SDWA_NAMES:
        return False
    values: tuple[str, ...] = SDWA_UNUSED if name == "dst_unused" else SDWA_SELECTS
    if value not in values:
        raise ValueError(f"{name}: expected one of {', '.join(values)}, got {value!r}")
    inst.second_fields[name] = values.index(value)
    return True


def _offset(isa: Table, inst: Inst, value: str) -> int:
    row = inst.row
    nbits = isa.layout(row).fields["offset"].nbits
    if row.name == "ds_swizzle_b32":
        return imm.parse_swizzle(value)
    signed = row.format in ("SMEM", "GLOBAL", "SCRATCH")
    if row.format == "FLAT":
        nbits -= 1
    offset = number(value)
    low, high = (-(1 << nbits - 1), 1 << nbits - 1) if signed else (0, 1 << nbits)
    if not low <= offset < high:
        raise ValueError(f"offset: got {offset}, expected {low}..{high - 1}")
    return offset & (1 << isa.layout(row).fields["offset"].nbits) - 1


def _format(isa: Table, value: str) -> int:
    names = BUF_FORMATS[isa.gen]
    name = value.strip("[] ")
    if name in names:
        return names.index(name)
    if re.match(r"\d", name):
        return in_bits(number(name), 7, "format")
    raise ValueError(f"no such buffer format: {name!r}")


def _memory(isa: Table, inst: Inst, name: str, value: str) -> bool:
    row, f = inst.row, inst.fields
    form = isa.layout(row)
    fields = {operand.field for operand in row.operands}
    if name == "offset" and "offset" in form.fields and "offset2" not in fields:
        f["offset"] = _offset(isa, inst, value)
    elif name in ("offset0", "offset1") and "offset2" in fields:
        f["offset"] = f.get("offset", 0) | in_bits(number(value), 8, name) << 8 * int(name[-1])
    elif name == "format" and row.format == "MTBUF":
        f["format"] = _format(isa, value)
    elif name in _WAITS and _WAITS[name] in form.fields:
        field = _WAITS[name]
        f[field] = in_bits(number(value), form.fields[field].nbits, name)
    elif name in FLAGS and name in form.fields and not value:
        f[name] = 1
    else:
        return False
    return True


def _store(isa: Table, inst: Inst, name: str, value: str) -> bool:
    form = isa.layout(inst.row)
    if name == "clamp" and not value:
        in_second = inst.second == "SDWA"
        if not in_second and "clamp" not in form.fields:
            return False
        (inst.second_fields if in_second else inst.fields)["clamp"] = 1
    elif name in ("mul", "div") and ("omod" in form.fields or inst.second == "SDWA"):
        _omod(inst, name, value)
    elif name == "op_sel" and "op_sel" in form.fields:
        inst.fields["op_sel"] = _op_sel(inst, value)
    elif name in ("op_sel_hi", "neg_lo", "neg_hi") and inst.row.format == "VOP3P":
        _packed(inst, name, value)
    else:
        takes = _dpp(inst, name, value) or _sdwa(inst, name, value)
        return takes or _memory(isa, inst, name, value)
    return True


def apply(isa: Table, inst: Inst, modifiers: list[Modifier]) -> None:
    """Stores every modifier in its field. Raises AsmError for the first modifier that does
    not fit.
    """
    stored: set[str] = set()
    for modifier in modifiers:
        if modifier.name in stored:
            raise AsmError(f"{modifier.name} is given twice", modifier.column)
        stored.add(modifier.name)
        try:
            known = _store(isa, inst, modifier.name, modifier.value)
        except ValueError as error:
            raise AsmError(
                f"the modifier {modifier.name} is wrong: {error}", modifier.column
            ) from None
        if not known:
            raise AsmError(f"{inst.row.name} takes no {modifier.name!r}", modifier.column)
