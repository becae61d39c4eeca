"""Numbers and polynomials as operands, for operations.py and sin_cos_pow.py."""

from __future__ import annotations

import struct

from .instructions import Code, Reg, Value

SIGN, MAGNITUDE = "0x80000000", "0x7fffffff"
INFINITY, LEAST_NORMAL, NAN = "0x7f800000", "0x800000", "0x7fc00000"


def lit(value: float) -> str:
    """Returns `value`, rounded to f32, as a literal for the assembler."""
    return hex(struct.unpack("<I", struct.pack("<f", value))[0])


def split(value: float) -> tuple[str, str]:
    """Returns two f32 literals whose sum is `value`."""
    high: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return lit(high), lit(value - high)


def in_vgpr(k: Code, x: Value) -> Reg:
    """Returns `x` in a VGPR, because some instructions read only VGPRs."""
    return x if isinstance(x, Reg) else k.op("v_mov_b32", x)


def polynomial(k: Code, z: Reg, coefficients: tuple[float, ...]) -> Reg:
    """Computes a polynomial in `z`. The coefficient of the highest power comes first."""
    total = k.op("v_mov_b32", lit(coefficients[0]))
    for c in coefficients[1:]:
        total = k.op("v_fma_f32", total, z, lit(c))
    return total
