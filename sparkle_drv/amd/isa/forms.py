"""Parses one line of assembly to an instruction, by trying each encoding of its mnemonic."""

from __future__ import annotations

import re
from collections.abc import Mapping

from . import bus, mods
from .parse import RAW_KINDS, OperandParser
from .rows import Row
from .scan import AsmError, ScannedLine, base_name, scan
from .table import VOP3S, VOP12C, Inst, Table


def _fits_form(row: Row, suffix: str, second: str) -> bool:
    short = row.format in VOP12C
    if suffix in ("_e32", "_sdwa"):
        return short
    if suffix == "_dpp":
        return short and bool(second)
    if suffix == "_e64":
        return row.format in VOP3S and not second
    if suffix == "_e64_dpp":
        return row.format in VOP3S and bool(second)
    return True


def _takes_second(row: Row, second: str) -> bool:
    flag = {"DPP16": "dpp", "DPP8": "dpp8", "SDWA": "sdwa"}.get(second)
    return flag is None or flag in row.flags


def _rows(isa: Table, line: ScannedLine) -> tuple[list[Row], str]:
    """Returns the table's rows that the mnemonic can mean, and the kind of second dword that the
    line needs: DPP16, DPP8, SDWA or "".
    """
    mnemonic = line.mnemonic.lower()
    name, suffix = (mnemonic, "") if mnemonic in isa.by_name else base_name(mnemonic)
    if name not in isa.by_name:
        name = isa.aliases.get(name, name)
    if name not in isa.by_name:
        raise AsmError(f"gfx{isa.gen} has no instruction {line.mnemonic!r}", line.column)
    second = mods.second_word(line.names, suffix)
    if suffix in ("_dpp", "_e64_dpp") and not second:
        second = "DPP16"
    rows = [row for row in isa.by_name[name] if _fits_form(row, suffix, second)]
    if not rows:
        raise AsmError(f"{name} has no {suffix} form on gfx{isa.gen}", line.column)
    if any("name" in row.flags for row in rows):
        raise AsmError(f"{name} is known by name only, so it cannot be assembled", line.column)
    usable = [row for row in rows if _takes_second(row, second)]
    if not usable:
        raise AsmError(f"{name} takes no {second} on gfx{isa.gen}", line.column)
    return usable, second


def _is_raw(isa: Table, text: str, start: int, end: int) -> bool:
    found = re.compile(r"\s*(\w+)").match(text[:end], start)
    rows = isa.by_name.get(found[1].lower(), []) if found else []
    return any(operand.type in RAW_KINDS for row in rows for operand in row.operands)


def _check_bus(isa: Table, inst: Inst, column: int) -> None:
    read, most = bus.scalars(isa, inst), bus.most(inst)
    if len(read) > most:
        what = f"{inst.row.name} reads {len(read)} scalars ({', '.join(read)})"
        raise AsmError(f"{what}, expected at most {most} in one instruction", column)


def parse_one(
    isa: Table, text: str, start: int, end: int, labels: Mapping[str, int] | None
) -> Inst:
    line = scan(text, start, end, _is_raw(isa, text, start, end))
    rows, second = _rows(isa, line)
    errors = []
    for row in rows:
        try:
            inst = OperandParser(isa, row, second, labels).parse(line)
            _check_bus(isa, inst, line.column)
            return inst
        except AsmError as error:
            # A traceback would keep this frame in a cycle, and with it the frames of all callers.
            errors.append(error.with_traceback(None))
    # The form whose error has the highest column fits the longest part of the text.
    try:
        raise max(reversed(errors), key=lambda error: error.column)
    finally:
        errors.clear()


def parse_instruction(
    isa: Table, text: str, start: int, labels: Mapping[str, int] | None = None
) -> Inst:
    """Returns the instruction that begins at text[start]. `labels` has the distances to labels in
    dwords, by name; it is None in the first pass, which only counts dwords.
    """
    middle = text.find("::", start)
    if middle < 0:
        return parse_one(isa, text, start, len(text), labels)
    x = parse_one(isa, text, start, middle, labels)
    y = parse_one(isa, text, middle + 2, len(text), labels)
    pair = _pair(x, y, start, middle + 2)
    _check_bus(isa, pair, start + 1)
    return pair


def _pair(x: Inst, y: Inst, x_at: int, y_at: int) -> Inst:
    for half, flag, at in ((x, "x", x_at), (y, "y", y_at)):
        if half.row.format != "VOPD" or flag not in half.row.flags:
            place = "first" if flag == "x" else "second"
            raise AsmError(f"{half.row.name} cannot be the {place} half of a VOPD", at + 1)
    if (x.fields["vdst"] ^ y.fields["vdst"]) & 1 == 0:
        raise AsmError("of the two vdst of a VOPD one must be even, one odd", y_at + 1)
    if x.literal is not None and y.literal not in (None, x.literal):
        raise AsmError(f"got a second literal, {y.literal:#x}: a VOPD has one", y_at + 1)
    fields = dict(x.fields)
    fields |= {"vdsty": y.fields["vdst"], "src0y": y.fields["src0"]}
    fields["vsrc1y"] = y.fields.get("vsrc1", 0)
    literal = x.literal if x.literal is not None else y.literal
    return Inst(x.row, fields, literal=literal, y=y.row)
