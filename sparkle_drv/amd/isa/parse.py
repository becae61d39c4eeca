"""Parses operands for one encoding of an instruction. scan.py splits the line of text; this module
turns the operands' texts into the fields of an `Inst`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from . import imm, mods
from .formats import SRC0_DPP8, SRC0_DPP16, SRC0_SDWA
from .operand import LITERAL, VGPR, RegisterOperand, constant, parse_register
from .print import CHANNELS, is_mix, source_index
from .rows import Row, RowOperand
from .scan import AsmError, LinePart, ScannedLine
from .table import SEGMENT, VOP12C, Inst, Table

RAW_KINDS = {"waitcnt", "depctr", "delay"}
_SIGN = re.compile(r"(-?)\s*(neg|abs|sext)\((.*)\)$")


class OperandParser:
    """Parses the operands of a line as those of one row of the instruction table. `second` is the
    format of the dword that SRC0 asks for, or "" if SRC0 asks for none.
    """

    def __init__(self, isa: Table, row: Row, second: str, labels: Mapping[str, int] | None) -> None:
        self.isa, self.row, self.labels = isa, row, labels
        if second == "SDWA" and row.format == "VOPC":
            second = "SDWAB"
        self.inst = Inst(row, second=second)
        self.form = isa.layout(row)

    def set(self, field: str, value: int) -> None:
        self.inst.fields[field] = value

    def register(self, piece: LinePart, what: str) -> RegisterOperand:
        try:
            parsed = parse_register(self.isa, piece.text)
        except ValueError as error:
            raise AsmError(f"the operand {what} is wrong: {error}", piece.column) from None
        if parsed is None:
            raise AsmError(f"{what} is {piece.text!r}, expected a register", piece.column)
        return parsed

    def check_width(
        self, piece: LinePart, reg: RegisterOperand, operand: RowOperand, ndw: int
    ) -> None:
        fits = reg.ndw in ((0, 1, 2) if operand.type == "mask" else (0, ndw))
        if not fits:
            what = f"{operand.field} is {piece.text!r}, {reg.ndw} registers"
            raise AsmError(f"{what}, expected {ndw or 1} as this operand needs", piece.column)
        align = min(reg.ndw, 4) if reg.ndw != 3 else 1
        first = reg.code - 108 if reg.code >= 108 else reg.code
        if reg.kind == "s" and align > 1 and first % align and reg.code not in (106, 126):
            raise AsmError(
                f"{operand.field} is {piece.text!r}, expected the first register's number to be a "
                f"multiple of {align}",
                piece.column,
            )

    def vgpr(self, piece: LinePart, operand: RowOperand, ndw: int) -> int:
        reg = self.register(piece, operand.field)
        if reg.kind != "v":
            raise AsmError(f"{operand.field} is {piece.text!r}, expected a VGPR", piece.column)
        self.check_width(piece, reg, operand, ndw)
        return self.half(piece, operand, reg)

    def half(self, piece: LinePart, operand: RowOperand, reg: RegisterOperand) -> int:
        """Returns the index of a VGPR for a field. In gfx11's 32-bit forms with 16-bit operands,
        bit 7 of the index selects the upper half of the VGPR.
        """
        short = self.isa.gen >= 11 and self.row.format in VOP12C and operand.nbits == 16
        if short and reg.code > 127:
            raise AsmError(f"{operand.field} is {piece.text}, expected v0..v127", piece.column)
        needs = operand.type == "h16"
        if bool(reg.half) != needs and not (reg.half and short):
            wanted = "with" if needs else "without"
            raise AsmError(
                f"{piece.text}: expected a register {wanted} .l or .h at its end", piece.column
            )
        if reg.half == ".h":
            if short:
                return reg.code | 128
            bit = 3 if operand.field == "vdst" else source_index(operand.field)
            self.set("op_sel", self.inst.fields.get("op_sel", 0) | 1 << bit)
        return reg.code

    def scalar(self, piece: LinePart, operand: RowOperand, ndw: int) -> int:
        reg = self.register(piece, operand.field)
        if reg.kind != "s" or reg.code > 127:
            raise AsmError(f"{operand.field} is {piece.text!r}, expected an SGPR", piece.column)
        self.check_width(piece, reg, operand, ndw)
        return reg.code

    def unsigned(self, piece: LinePart, index: int) -> LinePart:
        """Returns the text of source operand `index` without its modifiers neg, abs and sext.
        Stores these modifiers in the instruction's fields.
        """
        text, column = piece.text, piece.column
        negative = absolute = sext = False
        while True:
            found = _SIGN.match(text)
            if found:
                negative ^= found[1] == "-"
                sign, inner = found[2], found[3].strip()
                negative, absolute = negative ^ (sign == "neg"), absolute or sign == "abs"
                sext = sext or sign == "sext"
            elif re.match(r"-?\|.*\|$", text):
                negative ^= text[0] == "-"
                absolute, inner = True, text.lstrip("-").strip("|").strip()
            elif re.match(r"-[A-Za-z]", text):
                negative, inner = not negative, text[1:]
            else:
                break
            text = inner
        self.set_signs(index, negative, absolute, sext, column)
        return LinePart(text, column)

    def set_signs(
        self, index: int, negative: bool, absolute: bool, sext: bool, column: int
    ) -> None:
        fields = self.inst.fields
        if self.row.format in VOP12C and self.inst.second:
            fields = self.inst.second_fields
            names = {"neg": negative, "abs": absolute, "sext": sext}
            for name in (name for name, on in names.items() if on):
                if f"{name}{index}" not in self.isa.formats[self.inst.second].fields:
                    raise AsmError(f"source {index} takes no {name} here", column)
                fields[f"{name}{index}"] = 1
            return
        hi = "neg_hi" if is_mix(self.row) else "abs"
        for name, on in (("neg", negative), (hi, absolute)):
            if on and (
                name not in self.form.fields
                or (self.row.format == "VOP3P" and not is_mix(self.row))
            ):
                raise AsmError(f"{self.row.name} ({self.row.format}) takes no {name} here", column)
            if on:
                fields[name] = fields.get(name, 0) | 1 << index
        if sext:
            raise AsmError("only SDWA takes sext()", column)

    def literal(self, value: int, column: int) -> None:
        if self.inst.literal not in (None, value):
            raise AsmError(f"got a second literal, {value:#x}: an instruction has one", column)
        if self.inst.second:
            raise AsmError("an instruction with DPP or SDWA takes no literal", column)
        if self.row.format in ("SOPK", "VINTERP"):
            raise AsmError(f"{self.row.format} takes no literal", column)
        self.inst.literal = value

    def source(self, piece: LinePart, operand: RowOperand) -> None:
        index = source_index(operand.field)
        if self.row.format.startswith("V") and index >= 0:
            piece = self.unsigned(piece, index)
        name = self.isa.field_name(self.row, operand.field)
        try:
            number = constant(piece.text, operand.type)
        except ValueError as error:
            raise AsmError(f"the operand {operand.field} is wrong: {error}", piece.column) from None
        if number is None:
            reg = self.register(piece, operand.field)
            self.check_width(piece, reg, operand, operand.ndw or 1)
            code = reg.code + VGPR if reg.kind == "v" else reg.code
            if reg.kind == "v":
                code = self.half(piece, operand, reg) + VGPR
        else:
            code = number[0]
            if number[1] is not None:
                self.literal(number[1], piece.column)
        self.put_source(piece, operand, name, code)

    def put_source(self, piece: LinePart, operand: RowOperand, name: str, code: int) -> None:
        is_vgpr = code >= VGPR
        second = self.inst.second
        scalar_only = operand.field.startswith("ssrc") or name == "soffset"
        if scalar_only and is_vgpr:
            raise AsmError(f"{operand.field} is {piece.text!r}, expected a scalar", piece.column)
        if second and name in ("src0", "vsrc1"):
            if not is_vgpr and (second.startswith("DPP") or code == LITERAL):
                what = f"{operand.field} is {piece.text!r}"
                raise AsmError(f"{what}, expected a VGPR, as {second} requires", piece.column)
            if not is_vgpr:
                self.inst.second_fields[f"s{source_index(operand.field)}"] = 1
            index = code - VGPR if is_vgpr else code
            if name == "src0":
                self.inst.second_fields["src0"] = index
                code = {"DPP16": SRC0_DPP16, "DPP8": SRC0_DPP8}.get(second, SRC0_SDWA)
            else:
                code = index
        elif name in ("vsrc1", "svsrc1"):
            if not is_vgpr:
                raise AsmError(f"{operand.field} is {piece.text!r}, expected a VGPR", piece.column)
            code -= VGPR
        self.set(name, code)

    def vcc(self, piece: LinePart, operand: RowOperand) -> None:
        reg = self.register(piece, "the lane mask")
        if self.inst.second == "SDWAB" and reg.kind == "s" and reg.code <= 127:
            if reg.code != 106:
                self.inst.second_fields |= {"sd": 1, "sdst": reg.code}
        elif reg.code != 106 or reg.kind != "s":
            raise AsmError(
                f"the lane mask is {piece.text!r}, expected vcc in this encoding", piece.column
            )

    def address(self, piece: LinePart, operand: RowOperand, line: ScannedLine) -> None:
        """Reads the VGPRs of a memory address. Their number depends on other operands and on
        modifiers.
        """
        name, off = operand.field, piece.text == "off"
        if name == "vaddr":
            ndw = len(line.names & {"offen", "idxen"})
            if off != (ndw == 0):
                raise AsmError(
                    f"vaddr is {piece.text!r}, expected {ndw} VGPRs (one each for offen and idxen)",
                    piece.column,
                )
        elif self.row.format == "SCRATCH":
            ndw = 1
            if "sve" in self.form.fields:
                self.set("sve", int(not off))
        else:
            has_saddr = len(line.operands) and line.operands[-1].text != "off"
            ndw = 1 if self.row.format == "GLOBAL" and has_saddr else 2
        self.set(name, 0 if off and ndw < 2 else self.vgpr(piece, operand, ndw))

    def saddr(self, piece: LinePart, operand: RowOperand) -> None:
        ndw = 1 if self.row.format == "SCRATCH" else 2
        off = piece.text == "off"
        self.set("saddr", self.isa.null if off else self.scalar(piece, operand, ndw))

    def simm16(self, piece: LinePart, kind: str) -> None:
        gen, text = self.isa.gen, piece.text
        try:
            if kind == "target" and self.labels is not None and text in self.labels:
                value = self.labels[text] & 0xFFFF
                if not -0x8000 <= self.labels[text] < 0x8000:
                    raise ValueError(
                        f"label {text} is {self.labels[text]} dwords away, expected -32768..32767"
                    )
            elif kind == "target" and self.labels is None and not re.match(r"-?\d", text):
                value = 0  # the first pass only counts dwords, so the distance does not matter
            elif kind == "hwreg":
                value = imm.parse_hwreg(gen, text)
            elif kind == "sendmsg":
                value = imm.parse_message(gen, text)
            elif kind == "waitcnt":
                value = imm.parse_waitcnt(gen, text)
            elif kind == "depctr":
                value = imm.parse_depctr(text)
            elif kind == "delay":
                value = imm.parse_delay(text)
            else:
                value = imm.number(text)
            if not -0x8000 <= value < 0x10000:
                raise ValueError(f"{value} does not fit 16 bits")
        except ValueError as error:
            raise AsmError(f"the operand simm16 is wrong: {error}", piece.column) from None
        self.set("simm16", value & 0xFFFF)

    def smem_offset(self, piece: LinePart, operand: RowOperand) -> None:
        self.inst.fields.setdefault("offset", 0)
        if re.match(r"-?\d", piece.text):
            self.set("soffset", self.isa.null)
            try:
                value = imm.number(piece.text)
            except ValueError as error:
                raise AsmError(f"the operand offset is wrong: {error}", piece.column) from None
            if not -(1 << 20) <= value < 1 << 20:
                raise AsmError(f"offset is {value}, expected -1048576..1048575", piece.column)
            self.set("offset", value & 0x1FFFFF)
        else:
            self.set("soffset", self.scalar(piece, operand, 1))

    def constant_operand(self, piece: LinePart, operand: RowOperand) -> None:
        """Reads the constant K of FMAMK and FMAAK, or the value of S_SETREG_IMM32."""
        kind = "f16" if self.row.name.endswith("f16") else "f32"
        text = piece.text
        try:
            if re.match(r"-?(0x)?[0-9a-fA-F]+$", text) and "." not in text:
                value = imm.number(text) & 0xFFFFFFFF
            else:
                layout = {"f16": "<e", "f32": "<f"}[kind]
                value = int.from_bytes(struct.pack(layout, float(text)), "little")
        except (ValueError, OverflowError):
            raise AsmError(f"literal is {text!r}, expected a number", piece.column) from None
        if self.inst.literal not in (None, value):
            raise AsmError(
                f"got a second literal, {value:#x}: an instruction has one", piece.column
            )
        self.inst.literal = value

    def operand(self, piece: LinePart, operand: RowOperand, line: ScannedLine) -> None:
        name, fmt = operand.field, self.row.format
        if name == "vcc":
            self.vcc(piece, operand)
        elif name == "literal":
            self.constant_operand(piece, operand)
        elif name == "simm16":
            self.simm16(piece, operand.type)
        elif operand.type == "msgrtn":
            self.set(name, self.message(piece))
        elif operand.type == "small":
            self.set(name, imm.number(piece.text))
        elif name == "attr":
            match = re.match(r"attr(\d+)\.([xyzw])$", piece.text)
            if not match:
                raise AsmError(f"expected attrN.x, got {piece.text!r}", piece.column)
            self.set("attr", int(match[1]))
            self.set("chan", CHANNELS.index(match[2]))
        elif fmt == "SMEM" and name == "soffset":
            self.smem_offset(piece, operand)
        elif name == "vaddr" or (name == "addr" and fmt in SEGMENT):
            self.address(piece, operand, line)
        elif name == "saddr":
            self.saddr(piece, operand)
        elif name == "vdata":
            self.set(name, self.vgpr(piece, operand, operand.ndw + ("tfe" in line.names)))
        elif name in ("sbase", "srsrc"):
            code = self.scalar(piece, operand, operand.ndw)
            self.set(name, code // (2 if name == "sbase" else 4))
        elif source_index(name) >= 0 or name == "soffset":
            self.source(piece, operand)
        elif name in ("sdst", "svdst", "sdata"):
            field = self.isa.field_name(self.row, name)
            self.set(field, self.scalar(piece, operand, operand.ndw))
        else:
            self.set(name, self.vgpr(piece, operand, operand.ndw))

    def message(self, piece: LinePart) -> int:
        try:
            return imm.parse_message(self.isa.gen, piece.text)
        except ValueError as error:
            raise AsmError(f"the operand sendmsg is wrong: {error}", piece.column) from None

    def wanted(self, line: ScannedLine) -> list[RowOperand]:
        """Returns the operands that the instruction's text, `line`, must have."""
        hidden = {"exec", "offset", "offset2"}
        wanted = [one for one in self.row.operands if one.field not in hidden]
        wanted = [one for one in wanted if not one.optional or "glc" in line.names]
        if "lds" in line.names and "lds" in self.form.fields:
            wanted = [one for one in wanted if one.field not in ("vdata", "vdst")]
        given = len(line.operands)
        if given == len(wanted) - 1 and self.row.format == "VOPC" and wanted[0].field == "vcc":
            wanted = wanted[1:]  # the text may leave this operand out, as in llvm-mc
        if given == 0 and wanted and wanted[0].type == "optional":
            wanted = []
        return wanted

    def implied(self) -> None:
        f = self.inst.fields
        if self.row.format in SEGMENT and "saddr" not in f:
            f["saddr"] = self.isa.null
        no_sgpr = self.row.format == "SCRATCH" and f["saddr"] == self.isa.null
        if no_sgpr and self.isa.gen == 10 and not self.vgpr_address:
            f["saddr"] = 0x7F  # the code of SADDR for an address without VGPR and SGPR
        if self.row.is_promoted and any(one.field == "exec" for one in self.row.operands):
            f["vdst"] = 126
        if self.row.format == "MTBUF":
            f.setdefault("format", 1)

    def parse(self, line: ScannedLine) -> Inst:
        mods.set_defaults(self.inst)
        wanted = self.wanted(line)
        kinds = {operand.type for operand in wanted}
        if kinds & RAW_KINDS:
            self.simm16(line.rest, wanted[0].type)
            return self.inst
        for piece, operand in zip(line.operands, wanted, strict=False):
            self.operand(piece, operand, line)
        if len(line.operands) > len(wanted):
            extra = line.operands[len(wanted)]
            raise AsmError(
                f"{self.row.name} ({self.row.format}) takes no {extra.text!r}", extra.column
            )
        if len(line.operands) < len(wanted):
            missing = ", ".join(operand.field for operand in wanted[len(line.operands) :])
            end = line.rest.column + len(line.rest.text)
            at = line.modifiers[0].column if line.modifiers else end
            raise AsmError(f"{self.row.name} ({self.row.format}) lacks {missing}", at)
        self.vgpr_address = any(
            operand.field == "addr" and piece.text != "off"
            for piece, operand in zip(line.operands, wanted, strict=False)
        )
        self.implied()
        mods.apply(self.isa, self.inst, line.modifiers)
        return self.inst
