"""The constant bus limits how many different scalars a vector instruction may read.

The limit counts SGPRs, VCC, M0, EXEC and similar registers, whether the text names them or the
instruction implies them. A literal counts too. The limit is two, but one for shifts of 64 bits. A
register that is read twice counts once. NULL and inline constants do not count. The two halves of a
VOPD count together.

llvm-mc 19 has the same rules for gfx10.3 and gfx11 (LLVM's AMDGPUAsmParser.cpp,
validateConstantBusLimitations). The only difference: here registers with the same first number are
one register, such as s0 and s[0:1], or VCC_LO and an implied VCC.
"""

from __future__ import annotations

from .operand import LITERAL, NAMED, VGPR, scalar_text
from .table import VOP3S, VOP12C, Inst, Table

MOST = 2
_VCC = 106
# operand codes of inline constants, which do not use the constant bus
_CONSTANTS = range(128, 209), range(240, 249)


def _sources(inst: Inst) -> list[int]:
    """Returns the operand codes of all operands that an instruction reads; for a VOPD those of both
    halves.
    """
    second, codes = inst.second_fields, []
    fields = [one.field for one in inst.row.operands]
    for name in fields:
        plain = name[1:] if name.startswith("ssrc") and name not in inst.fields else name
        if plain not in ("src0", "src1", "src2") or plain not in inst.fields:
            continue
        if plain == "src0" and inst.second:
            codes.append(second["src0"] + VGPR * (not second.get("s0", 0)))
        else:
            codes.append(inst.fields[plain])
    if second.get("s1", 0):  # SDWA: this bit makes VSRC1 a scalar
        codes.append(inst.fields["vsrc1"])
    # If VCC is the last operand, the instruction reads it. VCC as an earlier operand is a result.
    if fields[-1:] == ["vcc"]:
        codes.append(_VCC)
    if inst.y is not None:
        codes.append(inst.fields["src0y"])
    rows = [inst.row] + ([inst.y] if inst.y is not None else [])
    return codes + [_VCC for row in rows if "vcc" in row.flags]


def scalars(isa: Table, inst: Inst) -> list[str]:
    """Returns the names of the different scalars that a vector instruction reads, or [] for another
    instruction.
    """
    if inst.row.format not in (*VOP12C, *VOP3S, "VOPD"):
        return []
    names: dict[int, str] = {}
    for code in _sources(inst):
        constant = code == isa.null or any(code in span for span in _CONSTANTS)
        if code < LITERAL and not constant:
            names[code] = NAMED.get(code) or scalar_text(isa, code)
    if inst.literal is not None:
        names[LITERAL] = "a literal"
    return list(names.values())


def most(inst: Inst) -> int:
    """Returns how many different scalars an instruction may read."""
    return 1 if "bus1" in inst.row.flags else MOST
