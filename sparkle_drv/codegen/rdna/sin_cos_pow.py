"""sin, cos and pow of f32. The parts that need more than 24 bits are computed in f64.

Errors are at most 4 ulp for every argument. Special cases are those of C's sin and pow (C17,
F.10.1.6 and F.10.4.4). The polynomials of sin and cos are those of S. Moshier's Cephes (sinf.c);
the logarithm is a series.
"""

from __future__ import annotations

import math
from fractions import Fraction

from .instructions import MASK, Abs, Block, Code, Minus, Reg, Value
from .number import INFINITY, MAGNITUDE, NAN, SIGN, in_vgpr, lit, polynomial

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_FAR = 2.0**30
"""For larger |x|, x * 2/pi in f64 loses whole quarter turns, and their number exceeds an i32."""
_SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)

_CHUNKS, _CHUNK_BITS = 7, 27


def pi_times_two_to(nbits: int) -> int:
    """Returns pi * 2**nbits by Machin's formula, exact except for the last few bits."""
    unit = 1 << nbits

    def arctan_of_one_over(n: int) -> int:
        total = term = unit // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    return 4 * (4 * arctan_of_one_over(5) - arctan_of_one_over(239))


def _turns() -> tuple[float, ...]:
    """Returns 1 / (2 pi) as pieces of 27 bits, so that a piece times an f32 is exact in f64.

    The last bit of the last piece is 2**-191. So for x < 2**128, x / (2 pi) is known to 2**-63.
    """
    nbits = 2 + _CHUNKS * _CHUNK_BITS
    scaled = (1 << (nbits + 256)) // (2 * pi_times_two_to(256))
    chunks = []
    for i in range(_CHUNKS):
        low = nbits - 2 - (i + 1) * _CHUNK_BITS
        chunks.append(float(Fraction((scaled >> low) % (1 << _CHUNK_BITS), 1 << (nbits - low))))
    return tuple(chunks)


_TURNS = _turns()
_QUARTERS = 1.5 * 2.0**50  # adding and subtracting it rounds an f64 to a multiple of 1/4


def sine(k: Code, x: Value) -> Reg:
    x = in_vgpr(k, x)
    y = _turned(k, x, 0)
    # If x is 0 or -0, the result is x, because sin(-0) is -0.
    return k.select(k.compare("v_cmp_neq_f32", "0", x), y, x)


def cosine(k: Code, x: Value) -> Reg:
    return _turned(k, in_vgpr(k, x), 1)


def _turned(k: Code, x: Reg, quarters: int) -> Reg:
    """Computes sin(x + quarters * pi/2)."""
    rest, quadrant = _reduced(k, x)
    if quarters:
        quadrant = k.op("v_add_nc_u32", str(quarters), quadrant)
    z = k.op("v_mul_f32", rest, rest)
    sin = polynomial(k, z, _SIN)
    sin = k.op("v_fma_f32", k.op("v_mul_f32", rest, z), sin, rest)
    cos = k.op("v_mul_f32", k.op("v_mul_f32", z, z), polynomial(k, z, _COS))
    cos = k.op("v_add_f32", cos, k.op("v_fma_f32", "-0.5", z, "1.0"))
    odd = k.compare("v_cmp_ne_u32", "0", k.op("v_and_b32", "1", quadrant))
    y = k.select(odd, cos, sin)
    sign = k.op("v_and_b32", SIGN, k.op("v_lshlrev_b32", "30", quadrant))
    return k.op("v_xor_b32", sign, y)


def _reduced(k: Code, x: Reg) -> tuple[Reg, Reg]:
    """Returns (x minus whole quarter turns, the number of these turns as an i32).

    The first number is NaN if x is not finite.
    """
    wide = k.op64("v_cvt_f64_f32", x)
    whole = k.op64("v_rndne_f64", k.op64("v_mul_f64", wide, k.double(2 / math.pi)))
    rest = k.op64("v_fma_f64", Minus(whole), k.double(_HALF_PI[0]), wide)
    rest = k.op64("v_fma_f64", Minus(whole), k.double(_HALF_PI[1]), rest)
    near = k.op("v_cvt_f32_f64", rest)
    quadrant = k.op("v_cvt_i32_f64", whole)
    k.compare("v_cmp_le_f32", lit(_FAR), Abs(x))
    near_enough = k.label("near")
    k.line(f"s_cbranch_vccz {near_enough}")
    _far(k, x, near, quadrant)
    k.line(f"{near_enough}:")
    # The code that _far emitted sets SGPRs to constants. The branch above may skip that code, so
    # later code must not use these SGPRs.
    k.doubles.clear()
    return near, quadrant


def _far(k: Code, x: Reg, rest: Reg, quadrant: Reg) -> None:
    """Overwrites `rest` and `quadrant` in lanes where |x| >= _FAR; for infinities `rest` is NaN.

    _TURNS splits 1 / (2 pi) into parts so short that |x| times a part is exact in f64. The whole
    quarter turns are subtracted after each part. So `rest` has no large rounding error, even if x
    is near a multiple of pi/2.
    """
    wide = k.op64("v_cvt_f64_f32", Abs(x))
    turn: Block | None = None
    taken: Block | None = None
    for piece in _TURNS:
        part = k.op64("v_fract_f64", k.op64("v_mul_f64", wide, k.double(piece)))
        turn = k.op64("v_add_f64", turn, part) if turn else part
        quarters = k.op64("v_add_f64", turn, k.double(_QUARTERS))
        quarters = k.op64("v_add_f64", quarters, k.double(-_QUARTERS))
        turn = k.op64("v_add_f64", turn, Minus(quarters))
        taken = k.op64("v_add_f64", taken, quarters) if taken else quarters
    assert turn is not None
    assert taken is not None
    left = k.op("v_cvt_f32_f64", k.op64("v_mul_f64", turn, k.double(2 * math.pi)))
    left = k.op("v_xor_b32", k.op("v_and_b32", SIGN, x), left)
    count = k.op("v_cvt_i32_f64", k.op64("v_mul_f64", taken, "4.0"))
    negative = k.compare("v_cmp_gt_f32", "0", x)
    count = k.select(negative, k.op("v_sub_nc_u32", "0", count), count)
    far = k.compare("v_cmp_le_f32", lit(_FAR), Abs(x))
    k.select(far, left, rest, into=rest)
    k.select(far, count, quadrant, into=quadrant)
    infinite = k.compare("v_cmp_eq_f32", INFINITY, Abs(x))
    k.select(infinite, k.op("v_mov_b32", NAN), rest, into=rest)


# log2(m) = s * (c0 + c1 z + c2 z**2 ...) with s = (m-1)/(m+1) and z = s*s <= 0.0295. The terms that
# are left out add up to 2**-39. The coefficients from _LITERALS_FROM on need only the upper half of
# an f64, which fits into a literal.
_LOG2 = tuple(2 / math.log(2) / (2 * i + 1) for i in range(7))
_LITERALS_FROM = 3


def power(k: Code, x: Value, y: Value) -> Reg:
    """Computes pow(x, y): 2**(y log2|x|) with the product in f64, then C's special cases of pow."""
    x, y = in_vgpr(k, x), in_vgpr(k, y)
    finite = k.op("v_max_f32", "0xff7fffff", y)
    finite = k.op("v_min_f32", "0x7f7fffff", finite)
    product = k.op64("v_mul_f64", k.op64("v_cvt_f64_f32", finite), _log2(k, x))
    product = k.op64("v_max_f64", product, "0xc0690000")  # clamps at -200: 2**-200 is 0 in f32
    product = k.op64("v_min_f64", product, "0x40690000")  # clamps at 200: 2**200 is infinity
    whole = k.op64("v_rndne_f64", product)
    part = k.op("v_cvt_f32_f64", k.op64("v_add_f64", product, Minus(whole)))
    result = k.op("v_ldexp_f32", k.op("v_exp_f32", part), k.op("v_cvt_i32_f64", whole))
    # If x is negative, x**y is negative for an odd y, and NaN for a y that is not an integer.
    half = k.op("v_fract_f32", k.op("v_mul_f32", "0.5", y))
    odd = k.select(k.compare("v_cmp_eq_f32", "0.5", half), x, "0")
    result = k.op("v_bfi_b32", MAGNITUDE, result, odd)
    nan = k.op("v_mov_b32", NAN)
    k.compare("v_cmp_neq_f32", k.op("v_trunc_f32", y), y)
    k.compare("v_cmp_class_f32", x, _NEGATIVE, into=MASK)
    k.line(f"s_and_b32 vcc_lo, vcc_lo, {MASK}")
    result = k.select("vcc_lo", nan, result)
    result = k.select(k.compare("v_cmp_u_f32", x, y), nan, result)
    k.compare("v_cmp_eq_f32", "0", y)
    k.compare("v_cmp_eq_f32", "1.0", x, into=MASK)
    k.line(f"s_or_b32 vcc_lo, vcc_lo, {MASK}")
    return k.select("vcc_lo", "1.0", result)


_NEGATIVE = "0x18"  # classes of v_cmp_class: negative normal and denormal
_HUGE = 0x7E37E43C  # upper half of 1e300


def _log2(k: Code, x: Reg) -> Block:
    """Computes log2|x| in f64, with +-1e300 in place of infinities. For a NaN x it is undefined."""
    wide = k.op64("v_cvt_f64_f32", Abs(x))
    m = k.op64("v_frexp_mant_f64", wide)
    below = k.compare("v_cmp_gt_f64", f"{0x3FE6A09E:#x}", m)  # sqrt(1/2)
    one = k.select(below, "1", "0")
    m = k.op64("v_ldexp_f64", m, one)
    e = k.op("v_sub_nc_u32", k.op("v_frexp_exp_i32_f64", wide), one)
    f, g = k.op64("v_add_f64", "-1.0", m), k.op64("v_add_f64", "1.0", m)
    inverse = k.op64("v_rcp_f64", g)  # accurate to 24 bits
    error = k.op64("v_fma_f64", Minus(g), inverse, "1.0")
    inverse = k.op64("v_fma_f64", error, inverse, inverse)
    s = k.op64("v_mul_f64", f, inverse)
    error = k.op64("v_fma_f64", Minus(g), s, f)
    s = k.op64("v_fma_f64", error, inverse, s)
    z = k.op64("v_mul_f64", s, s)
    p: Block | str = k.double(_LOG2[-1])
    for i in range(len(_LOG2) - 2, -1, -1):
        c = k.double(_upper_half(_LOG2[i]) if i >= _LITERALS_FROM else _LOG2[i])
        p = k.op64("v_fma_f64", p, z, c)
    log = k.op64("v_fma_f64", s, p, k.op64("v_cvt_f64_i32", e))
    zero = k.compare("v_cmp_eq_f32", "0", x)
    k.select(zero, k.op("v_mov_b32", f"{_HUGE | 1 << 31:#x}"), log[1], into=log[1])
    infinite = k.compare("v_cmp_eq_f32", INFINITY, Abs(x))
    k.select(infinite, k.op("v_mov_b32", f"{_HUGE:#x}"), log[1], into=log[1])
    return log


def _upper_half(value: float) -> float:
    """Returns `value` rounded so that the lower 32 bits of the f64 are 0."""
    return math.ldexp(round(math.ldexp(value, 20)), -20)
