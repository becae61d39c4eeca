"""What struct sp_inst must hold for an instruction, from the Python disassembler's fields.

Written against native/emu/isa/inst.h by hand: the generator that fills the C tables is not asked.
"""

from __future__ import annotations

from sparkle_drv.amd.isa.print import isa_imm_signed as signed
from sparkle_drv.amd.isa.print import source_index
from sparkle_drv.amd.isa.table import SEGMENT, VOP12C, Inst, Table

MASK, VGPR, VCC, EXEC = 255, 256, 106, 126
PLAIN = (
    *("abs", "neg", "neg_hi", "op_sel", "op_sel_hi", "omod", "clamp", "glc", "slc", "dlc", "lds"),
    *("gds", "offen", "idxen", "tfe", "attr", "chan"),
)
SECOND = {
    **{"dpp_ctrl": "dpp_ctrl", "row_mask": "row_mask", "bank_mask": "bank_mask"},
    **{"bound_ctrl": "bound_ctrl", "fi": "fetch_inactive", "dpp8": "dpp8", "dst_sel": "dst_sel"},
    **{"dst_unused": "dst_unused", "src0_sel": "src0_sel", "src1_sel": "src1_sel"},
    **{"sext0": "src0_sext", "sext1": "src1_sext", "clamp": "clamp", "omod": "omod"},
}
LANES = {"": 0, "DPP16": 1, "DPP8": 2, "SDWA": 3, "SDWAB": 3}
MEMORY = {
    "addr": 0,
    "vaddr": 0,
    **{"data": 1, "data0": 1, "data1": 2},
}


class Members(dict):
    def src(self, index, code, ndw):
        self["src", index], self["src_ndw", index] = code, ndw

    def dst(self, code, ndw):
        self["dst"], self["dst_ndw"] = code, ndw


def norm(isa: Table, code: int) -> int:
    return code ^ 1 if isa.gen == 10 and code in (124, 125) else code


def _vector_operands(isa: Table, inst: Inst, out: Members) -> None:
    f, s, row = inst.fields, inst.second_fields, inst.row
    for i, operand in enumerate(row.operands):
        name, ndw = operand.field, MASK if operand.type == "mask" else operand.ndw
        field = isa.field_name(row, name)
        index = source_index(name)
        if name == "exec":
            out.dst(EXEC, ndw)
        elif name == "vcc" and row.format == "VOPC":
            out.dst(norm(isa, s["sdst"]) if s.get("sd") else VCC, ndw)
        elif name == "vcc" and i == 1:
            out["sdst"], out["sdst_ndw"] = VCC, ndw
        elif name == "vcc":
            out.src(2, VCC, ndw)
        elif name == "vdst":
            out.dst(f["vdst"] + VGPR, ndw)
        elif name == "svdst" or (name == "sdst" and row.format != "VOP3B"):
            out.dst(norm(isa, f[field]), ndw)
        elif name == "sdst":
            out["sdst"], out["sdst_ndw"] = norm(isa, f["sdst"]), ndw
        elif name == "attr":
            out["attr"], out["chan"] = f["attr"], f["chan"]
        elif index >= 0:
            code = f[field]
            if inst.second and field == "src0":
                code = s["src0"] + (0 if s.get("s0") else VGPR)
            elif field == "vsrc1":
                code += 0 if s.get("s1") else VGPR
            out.src(index, norm(isa, code), ndw)


def _vopd(isa: Table, inst: Inst, out: Members) -> None:
    f = inst.fields
    assert inst.y is not None
    out["opy"], out["dsty"] = inst.y.same_as, f["vdsty"] + VGPR
    fields = [operand.field for operand in inst.y.operands]
    out["srcy", 0] = norm(isa, f["src0y"])
    if "vsrc1" in fields:
        out["srcy", 1] = f["vsrc1y"] + VGPR


def _flat(isa: Table, inst: Inst, out: Members) -> None:
    f, row = inst.fields, inst.row
    nbits = isa.formats["FLAT"].fields["offset"].nbits
    out["segment"] = SEGMENT[row.format]
    flat = row.format == "FLAT"
    out["offset"] = f["offset"] & (1 << nbits - 1) - 1 if flat else signed(f["offset"], nbits)
    null = flat or f["saddr"] == isa.null or (isa.gen == 10 and f["saddr"] == 127)
    out["saddr_null"] = int(null)
    out["sbase"] = 124 if null else f["saddr"]
    there = {"FLAT": 2, "GLOBAL": 2 if null else 1}.get(row.format)
    if there is None:
        there = f["sve"] if isa.gen == 11 else int(f["saddr"] == isa.null)
    for operand in row.operands:
        if operand.field == "vdst":
            if not f.get("lds"):
                out.dst(f["vdst"] + VGPR, operand.ndw)
        elif operand.field in MEMORY:
            out.src(MEMORY[operand.field], f[operand.field] + VGPR, operand.ndw)
    out["src_ndw", 0] = there


def _buffer(isa: Table, inst: Inst, out: Members) -> None:
    f, row = inst.fields, inst.row
    fields = {operand.field: operand for operand in row.operands}
    out["offset"], out["buf_format"] = f["offset"], f.get("format", 0)
    if "srsrc" in fields:
        out["sbase"], out["soffset"] = f["srsrc"] * 4, norm(isa, f["soffset"])
    if "vdata" in fields:
        vdata, ndw = f["vdata"] + VGPR, fields["vdata"].ndw
        loads, stores = "_load" in row.name, "_store" in row.name
        if not stores and not f.get("lds"):
            out.dst(vdata, ndw + f["tfe"])
        if not loads:
            out.src(1, vdata, ndw)
    if "vaddr" in fields:
        out["src", 0] = f["vaddr"] + VGPR
    out["src_ndw", 0] = f["offen"] + f["idxen"]


def _other(isa: Table, inst: Inst, out: Members) -> None:
    """SOPx, SMEM, DS."""
    f, row = inst.fields, inst.row
    out["two_addr"] = int(any(operand.field == "offset2" for operand in row.operands))
    if row.format == "SMEM":
        out["offset"], out["soffset"] = signed(f["offset"], 21), norm(isa, f["soffset"])
        out["saddr_null"] = int(f["soffset"] == isa.null)
    elif row.format == "DS":
        out["offset"] = f["offset"]
    for operand in row.operands:
        name = operand.field
        if operand.type == "msgrtn":
            out["offset"] = f["ssrc0"]
        elif name == "simm16":
            out["offset"] = signed(f["simm16"], 16)
        elif name in ("sdst", "sdata"):
            out.dst(norm(isa, f[name]), operand.ndw)
        elif name == "vdst":
            out.dst(f[name] + VGPR, operand.ndw)
        elif name == "sbase":
            out["sbase"] = f["sbase"] * 2
        elif name in MEMORY:
            out.src(MEMORY[name], f[name] + VGPR, operand.ndw)
        elif source_index(name) >= 0:
            out.src(source_index(name), norm(isa, f[name]), operand.ndw)


def members(isa: Table, inst: Inst, ndw: int) -> Members:
    """Every member that is not 0, arrays as (name, index); op and opy by name."""
    row, f, s = inst.row, inst.fields, inst.second_fields
    layout = isa.layout(row).name
    out = Members(op=row.same_as, format=layout, ndw=ndw, literal=inst.literal or 0)
    out |= {name: f.get(name, 0) for name in PLAIN}
    out["wait"] = f.get("waitexp", f.get("waitvdst", 0))
    out["lane_mode"] = LANES[inst.second]
    if "name" in row.flags:
        return out
    if row.format in VOP12C or row.format.startswith(("VOP", "VINTERP", "LDSDIR")):
        _vector_operands(isa, inst, out)
    elif layout == "FLAT":
        _flat(isa, inst, out)
    elif layout in ("MUBUF", "MTBUF"):
        _buffer(isa, inst, out)
    else:
        _other(isa, inst, out)
    if inst.y is not None:
        _vopd(isa, inst, out)
    for name, member in SECOND.items():
        if name in s:
            out[member] = s[name]
    if inst.second == "DPP8":
        out["fetch_inactive"] = int(f["src0"] == 234)
    for i in (0, 1):
        for sign in ("neg", "abs"):
            out[sign] |= s.get(f"{sign}{i}", 0) << i
    return out
