"""The instructions of each operation of a map: f32 and i32, one element at a time.

Sources. The sequences for division, sqrt, exp and log follow LLVM's lowering of fdiv, llvm.sqrt,
llvm.exp and llvm.log for targets with f32 denormals on. The constants are computed here. tanh uses
the minimax polynomial of shaders/rdna/vmath.h. The edge cases of instructions are from the RDNA2
and RDNA3 ISA documents. v_exp_f32, v_log_f32, v_rcp_f32 and v_sqrt_f32 are accurate to 1 ulp, and
neither read nor return denormals. Errors: add sub mul div sqrt floor are rounded correctly, the
others are accurate to 4 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from . import sin_cos_pow
from .graph import COMPARISONS
from .instructions import Abs, Code, Minus, Reg, Value
from .number import INFINITY, LEAST_NORMAL, MAGNITUDE, SIGN, in_vgpr, lit, polynomial, split

_LOG2E = split(math.log2(math.e))
_LN2 = split(math.log(2.0))
# exp(x) is 0 for x below _EXP_LEAST and infinite for x above _EXP_MOST.
_EXP_LEAST, _EXP_MOST = -104.0, 89.0


Emitter = Callable[..., Reg]
"""(code, operands...) -> the result of one element."""


def nan_if_unordered(k: Code, value: Reg, a: Value, b: Value) -> Reg:
    """Returns `value`, or NaN in lanes where a or b is NaN."""
    either = k.op("v_add_f32", a, b)
    return k.select(k.compare("v_cmp_u_f32", a, b), either, value)


def _minimum(k: Code, a: Value, b: Value) -> Reg:
    return nan_if_unordered(k, k.op("v_min_f32", a, b), a, b)


def _maximum(k: Code, a: Value, b: Value) -> Reg:
    return nan_if_unordered(k, k.op("v_max_f32", a, b), a, b)


def _relu(k: Code, x: Value) -> Reg:
    """Computes x < 0 ? 0 : x, so NaN stays NaN."""
    x = in_vgpr(k, x)
    return k.select(k.compare("v_cmp_ngt_f32", "0", x), x, "0")


def _divide(k: Code, a: Value, b: Value) -> Reg:
    """Computes a / b, rounded correctly.

    The operands are scaled so that neither 1/b nor the remainder is denormal.
    """
    a, b = in_vgpr(k, a), in_vgpr(k, b)
    below = k.op("v_div_scale_f32", b, b, a, also="null")
    inverse = k.op("v_rcp_f32", below)
    above = k.op("v_div_scale_f32", a, b, a, also="vcc_lo")
    error = k.op("v_fma_f32", Minus(below), inverse, "1.0")
    inverse = k.op("v_fma_f32", error, inverse, inverse)
    quotient = k.op("v_mul_f32", above, inverse)
    left = k.op("v_fma_f32", Minus(below), quotient, above)
    quotient = k.op("v_fma_f32", left, inverse, quotient)
    left = k.op("v_fma_f32", Minus(below), quotient, above)
    quotient = k.op("v_div_fmas_f32", left, inverse, quotient)  # also reads vcc
    return k.op("v_div_fixup_f32", quotient, b, a)


def _sqrt(k: Code, x: Value) -> Reg:
    """Computes sqrt(x), rounded correctly.

    The result is the hardware's estimate `root` or one of the two f32 next to it, `below` and
    `above`. The signs of x - below * root and x - above * root decide which. For 0, -0, infinity
    and NaN the result is the estimate.
    """
    x = in_vgpr(k, x)
    small = k.compare("v_cmp_gt_f32", lit(2.0**-96), x)
    x = k.op("v_ldexp_f32", x, k.select(small, "32", "0"))
    root = k.op("v_sqrt_f32", x)
    back = k.select("vcc_lo", "-16", "0")
    below, above = k.op("v_add_nc_u32", "-1", root), k.op("v_add_nc_u32", "1", root)
    left_below = k.op("v_fma_f32", Minus(below), root, x)
    left_above = k.op("v_fma_f32", Minus(above), root, x)
    root = k.select(k.compare("v_cmp_ge_f32", "0", left_below), below, root)
    root = k.select(k.compare("v_cmp_lt_f32", "0", left_above), above, root)
    return k.op("v_ldexp_f32", root, back)


def exp_between(k: Code, x: Reg | Minus | Abs) -> Reg:
    """Computes e**x for x between -104 and 89; NaN gives NaN.

    The formula is 2**(x log2(e)). The whole part of x log2(e) is added to the exponent of the
    result.
    """
    high, low = _LOG2E
    product = k.op("v_mul_f32", high, x)
    rest = k.op("v_fma_f32", x, high, Minus(product))
    rest = k.op("v_fma_f32", x, low, rest)
    whole = k.op("v_rndne_f32", product)
    part = k.op("v_sub_f32", product, whole)
    part = k.op("v_add_f32", part, rest)
    power = k.op("v_exp_f32", part)
    return k.op("v_ldexp_f32", power, k.op("v_cvt_i32_f32", whole))


def _exp(k: Code, x: Value) -> Reg:
    x = in_vgpr(k, x)
    # exp_between is right only for x in -104 .. 89. For other x, the two k.select replace its
    # result.
    y = exp_between(k, x)
    y = k.select(k.compare("v_cmp_gt_f32", lit(_EXP_LEAST), x), "0", y)
    return k.select(k.compare("v_cmp_nlt_f32", lit(_EXP_MOST), x), y, k.op("v_mov_b32", INFINITY))


def _log(k: Code, x: Value) -> Reg:
    x = in_vgpr(k, x)
    denormal = k.compare("v_cmp_gt_f32", LEAST_NORMAL, x)
    x = k.op("v_ldexp_f32", x, k.select(denormal, "32", "0"))
    power = k.op("v_log_f32", x)
    power = k.op("v_sub_f32", power, k.op("v_cvt_f32_u32", k.select("vcc_lo", "32", "0")))
    high, low = _LN2
    product = k.op("v_mul_f32", high, power)
    rest = k.op("v_fma_f32", power, high, Minus(product))
    rest = k.op("v_fma_f32", power, low, rest)
    # `power` is the logarithm to base 2. If it is infinite, `total` is NaN, and k.select returns
    # `power` instead.
    total = k.op("v_add_f32", product, rest)
    return k.select(k.compare("v_cmp_gt_f32", INFINITY, Abs(power)), total, power)


_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
         -3.33332819422e-1)  # fmt: skip


def _tanh(k: Code, x: Value) -> Reg:
    """Computes tanh(x): a polynomial if |x| < 0.625, otherwise 1 - 2 / (e**2|x| + 1)."""
    x = in_vgpr(k, x)
    z = k.op("v_mul_f32", x, x)
    near = polynomial(k, z, _TANH)
    near = k.op("v_mul_f32", near, z)
    near = k.op("v_fma_f32", near, x, x)
    twice = k.op("v_add_f32", Abs(x), Abs(x))
    # v_min_f32 loses a NaN. But if x is NaN, k.select below takes `near`, which is NaN too.
    twice = k.op("v_min_f32", lit(_EXP_MOST), twice)
    below = k.op("v_add_f32", "1.0", exp_between(k, twice))
    far = k.op("v_fma_f32", "-2.0", k.op("v_rcp_f32", below), "1.0")
    y = k.select(k.compare("v_cmp_le_f32", lit(0.625), Abs(x)), far, near)
    return k.op("v_bfi_b32", MAGNITUDE, y, x)  # |y| with the sign of x


def _sigmoid(k: Code, x: Value) -> Reg:
    """Computes 1 / (1 + exp(-x)) from e = exp(-|x|), which cannot overflow.

    The result is 1 / (1 + e) for x >= 0, otherwise e / (1 + e).
    """
    x = in_vgpr(k, x)
    e = exp_between(k, Minus(Abs(x)))
    e = k.select(k.compare("v_cmp_nlt_f32", lit(-_EXP_LEAST), Abs(x)), e, "0")
    part = k.op("v_rcp_f32", k.op("v_add_f32", "1.0", e))
    above = k.select(k.compare("v_cmp_le_f32", "0", x), "1.0", e)
    return k.op("v_mul_f32", above, part)


def _square(k: Code, x: Value) -> Reg:
    return k.op("v_mul_f32", x, x)


def _i32_absolute(k: Code, x: Value) -> Reg:
    return k.op("v_max_i32", x, k.op("v_sub_nc_u32", "0", x))


def _choose(name: str) -> Emitter:
    """Returns a function that writes a selection: `yes` in lanes where a comparison is true.

    In other lanes the selection is `no`. `name` is the instruction that compares a and b.
    """

    def emit(k: Code, a: Value, b: Value, yes: Value, no: Value) -> Reg:
        return k.select(k.compare(name, a, b), yes, no)

    return emit


def _comparisons(dtype: str, unit: str) -> dict[str, Emitter]:
    """Returns the functions that write comparisons, and choices by a comparison, by operation.

    The result of a comparison is `unit` (the text of 1 in type `dtype`) or 0. NaN equals no value.
    """
    emitters: dict[str, Emitter] = {}
    for op in COMPARISONS:
        not_equal = "neq" if dtype == "f32" else "ne"
        name = f"v_cmp_{not_equal if op == 'ne' else op}_{dtype}"
        emitters[f"where_{op}"] = choose = _choose(name)
        emitters[op] = _with_values(choose, unit)
        if op == "ne":
            emitters["where"] = _where(choose)
    return emitters


def _with_values(choose: Emitter, one: str) -> Emitter:
    return lambda k, a, b: choose(k, a, b, one, "0")


def _where(unequal: Emitter) -> Emitter:
    return lambda k, condition, yes, no: unequal(k, "0", condition, yes, no)


def _two(name: str) -> Callable[[Code, Value, Value], Reg]:
    return lambda k, a, b: k.op(name, a, b)


F32: dict[str, Emitter] = {
    "add": _two("v_add_f32"), "sub": _two("v_sub_f32"), "mul": _two("v_mul_f32"), "div": _divide,
    "min": _minimum, "max": _maximum, "pow": sin_cos_pow.power, "relu": _relu, "exp": _exp,
    "log": _log, "sqrt": _sqrt, "tanh": _tanh, "sigmoid": _sigmoid, "sin": sin_cos_pow.sine,
    "cos": sin_cos_pow.cosine, "square": _square,
    "neg": lambda k, x: k.op("v_xor_b32", SIGN, x),
    "abs": lambda k, x: k.op("v_and_b32", MAGNITUDE, x),
    "floor": lambda k, x: k.op("v_floor_f32", x),
    **_comparisons("f32", "1.0"),
}  # fmt: skip
I32: dict[str, Emitter] = {
    "add": _two("v_add_nc_u32"), "sub": _two("v_sub_nc_u32"), "mul": _two("v_mul_lo_u32"),
    "min": _two("v_min_i32"), "max": _two("v_max_i32"), "abs": _i32_absolute,
    "relu": lambda k, x: k.op("v_max_i32", "0", x),
    "neg": lambda k, x: k.op("v_sub_nc_u32", "0", x),
    "square": lambda k, x: k.op("v_mul_lo_u32", x, x),
    **_comparisons("i32", "1"),
}  # fmt: skip
