"""Prints and parses registers and constants by operand code (the manuals' SRC0 field).

Codes are those of the generation: on gfx10 NULL is 125 and M0 is 124, on gfx11 NULL is 124 and M0
is 125.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from .table import Table

FLOATS = {240: "0.5", 241: "-0.5", 242: "1.0", 243: "-1.0", 244: "2.0", 245: "-2.0"}
FLOATS |= {246: "4.0", 247: "-4.0", 248: "0.15915494"}
INV_2PI_F64 = "0.15915494309189532"
NAMED = {
    **{235: "src_shared_base", 236: "src_shared_limit", 237: "src_private_base"},
    **{238: "src_private_limit", 239: "src_pops_exiting_wave_id", 251: "src_vccz"},
    **{252: "src_execz", 253: "src_scc", 254: "src_lds_direct"},
}
_BY_NAME = {name: code for code, name in NAMED.items()}
# names without "src_" too: shared_base, scc ...
_BY_NAME |= {name[4:]: code for code, name in NAMED.items()}
LITERAL, VGPR = 255, 256
# The float constants in the order of their operand codes, except the last one, 1/(2 pi). _BITS has
# the bit patterns of all float constants, by width in bits.
_VALUES = [float(text) for text in FLOATS.values()][:-1]
_BITS = {
    16: [int.from_bytes(struct.pack("<e", v), "little") for v in _VALUES] + [0x3118],
    32: [int.from_bytes(struct.pack("<f", v), "little") for v in _VALUES] + [0x3E22F983],
    64: [int.from_bytes(struct.pack("<d", v), "little") for v in _VALUES] + [0x3FC45F306DC9C882],
}
_REGISTER = re.compile(r"(v|s|ttmp|a)(\d+|\[\s*(\d+)\s*(?::\s*(\d+)\s*)?\])(\.[lh])?$")


class RegisterOperand(NamedTuple):
    kind: str  # "v" for a VGPR, "s" for anything that a scalar operand code names
    code: int  # index of a VGPR, or the operand code of a scalar
    ndw: int
    half: str = ""  # ".l" or ".h" for one half of a register, otherwise ""


def _span(prefix: str, first: int, ndw: int) -> str:
    return f"{prefix}{first}" if ndw <= 1 else f"{prefix}[{first}:{first + ndw - 1}]"


def vgpr_text(index: int, ndw: int = 1) -> str:
    return _span("v", index, ndw)


def scalar_text(isa: Table, code: int, ndw: int = 1) -> str:
    """Returns the name of an SGPR or of another scalar register. `code` must not be the code of a
    constant.
    """
    if code <= 105:
        return _span("s", code, ndw)
    if 108 <= code <= 123:
        return _span("ttmp", code - 108, ndw)
    if code == isa.null:
        return "null"
    if code == isa.m0:
        return "m0"
    name = {106: "vcc", 107: "vcc", 126: "exec", 127: "exec"}.get(code)
    if name is None:
        return f"/* no register {code} */"
    if ndw > 1:
        return name
    return name + ("_hi" if code in (107, 127) else "_lo")


def source_text(isa: Table, code: int, kind: str, ndw: int, literal: int | None) -> str:
    """Returns the text of any source by its code. The operand's type `kind` decides how constants
    look.
    """
    if code >= VGPR:
        return vgpr_text(code - VGPR, ndw)
    if code == LITERAL:
        half = _width(kind) == 16 and not kind.endswith("x2")
        return f"{(literal or 0) & (0xFFFF if half else 0xFFFFFFFF):#x}"
    if code in NAMED:
        return NAMED[code]
    if 128 <= code <= 192:
        return str(code - 128)
    if 193 <= code <= 208:
        return str(192 - code)
    if code in FLOATS:
        return INV_2PI_F64 if code == 248 and kind.endswith("64") else FLOATS[code]
    if code < 128:
        return scalar_text(isa, code, ndw)
    return f"/* no operand {code} */"


def parse_register(isa: Table, text: str) -> RegisterOperand | None:
    """Returns the register that `text` names, or None if it names none. Raises ValueError if the
    register is out of range.
    """
    low = text.lower()
    pairs = {"vcc": 106, "exec": 126}
    if low in pairs:
        return RegisterOperand("s", pairs[low], 2)
    singles = {"vcc_lo": 106, "vcc_hi": 107, "exec_lo": 126, "exec_hi": 127, "m0": isa.m0}
    if low in singles:
        return RegisterOperand("s", singles[low], 1)
    if low == "null":
        return RegisterOperand("s", isa.null, 0)
    if low in _BY_NAME:
        return RegisterOperand("s", _BY_NAME[low], 0)
    match = _REGISTER.match(low)
    if not match:
        return None
    first = int(match[3] if match[3] is not None else match[2])
    last = int(match[4]) if match[4] is not None else first
    limit = {"v": 255, "s": 105, "ttmp": 15, "a": -1}[match[1]]
    if last < first or last > limit:
        raise ValueError(f"no such register: {text}")
    base = 108 if match[1] == "ttmp" else 0
    half = match[5] or ""
    return RegisterOperand("v" if match[1] == "v" else "s", base + first, last - first + 1, half)


def _width(kind: str) -> int:
    """Returns the width in bits, 16, 32 or 64, of the constants that an operand of this
    type takes.
    """
    if kind.endswith("64"):
        return 64
    return 16 if re.fullmatch(r"[fiubh]16|f16x2", kind) else 32


def _inline_int(value: int) -> int | None:
    if 0 <= value <= 64:
        return 128 + value
    return 192 - value if -16 <= value < 0 else None


def _signed(value: int, nbits: int) -> int:
    value &= (1 << nbits) - 1
    return value - (1 << nbits) if value >> nbits - 1 else value


def constant(text: str, kind: str) -> tuple[int, int | None] | None:
    """Returns operand code and literal of a number for an operand of type `kind`, or None if `text`
    is no number.

    The literal is None for a number that the hardware has as an inline constant, as in llvm-mc. A
    32-bit literal of a 64-bit float is its upper half. Raises ValueError if the number does not fit
    32 bits.
    """
    width = _width(kind)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)", text):
        return _integer(int(text, 0), kind, width)
    if not re.fullmatch(r"-?(\d+\.\d*|\.\d+|\d+[eE][-+]?\d+|\d+\.\d*[eE][-+]?\d+)", text):
        return None
    value = float(text)
    code = {"<e": 16, "<f": 32, "<d": 64}
    layout = next(key for key, nbits in code.items() if nbits == width)
    try:
        bits = int.from_bytes(struct.pack(layout, value), "little")
    except OverflowError:
        raise ValueError(f"{text} does not fit a {width}-bit float") from None
    if text.lstrip("-") in (FLOATS[248], INV_2PI_F64) and value > 0:
        return 248, None
    if value == 0 and not text.startswith("-"):
        return 128, None
    if bits in _BITS[width]:
        return 240 + _BITS[width].index(bits), None
    if width == 64 and kind[0] != "f":
        raise ValueError(f"{text} cannot be a literal of a 64-bit integer")
    return LITERAL, bits >> 32 if width == 64 else bits


def _integer(value: int, kind: str, width: int) -> tuple[int, int | None]:
    if width == 64:
        code = _inline_int(value)
        if code is None and value in _BITS[64]:
            code = 240 + _BITS[64].index(value)
        limit = 32
    elif width == 16:
        is_float = kind[0] == "f"
        limit = 32 if kind.endswith("x2") else 16
        small = -0x8000 <= value <= 0xFFFF
        code = _inline_int(_signed(value, 16) if is_float and small else value)
        if code is None and is_float and value in _BITS[16]:
            code = 240 + _BITS[16].index(value)
    else:
        limit = 32
        code = _inline_int(_signed(value, 32)) if -(1 << 31) <= value < 1 << 32 else None
        if code is None and value & 0xFFFFFFFF in _BITS[32]:
            code = 240 + _BITS[32].index(value & 0xFFFFFFFF)
    if code is not None:
        return code, None
    if not -(1 << limit - 1) <= value < 1 << limit:
        raise ValueError(f"{value:#x} does not fit the {limit} bits of a literal")
    return LITERAL, value & (1 << limit) - 1
