"""Comparisons, powers and truths at the edges of their types are numpy's.

When this fails, an operator or a map gives another value or type than numpy for an extreme number,
for an infinity or for a bool.
"""

from __future__ import annotations

import operator

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.ops.expression import grammar

pytestmark = pytest.mark.devices("cpu", "egl:0", "emu:gfx1100")
COMPARISONS = {f"x {sign} s": function for sign, function in (
    ("<", operator.lt), ("<=", operator.le), (">", operator.gt), (">=", operator.ge),
    ("==", operator.eq), ("!=", operator.ne),
)}  # fmt: skip
WHOLE = [0, 1, -1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]


def fitting(dtype):
    limits = np.iinfo(dtype)
    return np.array([v for v in WHOLE if limits.min <= v <= limits.max], dtype)


def equal(made, expected, said=""):
    made = np.asarray(made)
    assert (made.dtype, made.shape) == (expected.dtype, expected.shape), said
    np.testing.assert_array_equal(made, expected, said)


@pytest.mark.parametrize("text", COMPARISONS)
@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_whole_numbers_are_compared_exactly(fresh, text, dtype):
    host, compare = fitting(dtype), COMPARISONS[text]
    x = fresh.array(host)
    for number in (*fitting("i8")[-6:], *fitting("u8")[3:]):
        equal(compare(x, number), compare(host, number), f"{dtype} {text}, {number!r}")
        equal(compare(number, x), compare(number, host), f"{number!r} {text}, {dtype}")
    for number in WHOLE:
        equal(compare(x, number), compare(host, number), f"{dtype} {text}, {number}")
    for other in ("i8", "u4", "u8"):
        both = [side.reshape(-1) for side in np.meshgrid(host, fitting(other))]
        equal(compare(*map(fresh.array, both)), compare(*both), f"{dtype} {text} {other}")


@pytest.mark.parametrize("text", COMPARISONS)
def test_a_map_compares_int64_with_uint64_exactly(fresh, text):
    """So are numbers beyond int64, of numpy and of Python, on either side."""
    host, compare = fitting("i8"), COMPARISONS[text]
    x = fresh.array(host)
    for number in (*fitting("u8"), 2**63, -(2**63) - 1, 2**70):
        for _ in range(2):  # the second call is a known one
            if not fresh.provides("fused_map"):
                with pytest.raises(TypeError, match="not int64"):
                    sp.ops.map(fresh, text, x=x, s=number)
                continue
            equal(sp.ops.map(fresh, text, x=x, s=number), compare(host, number), number)
            swapped = text.replace("x", "t").replace("s", "x").replace("t", "s")
            equal(sp.ops.map(fresh, swapped, x=x, s=number), compare(number, host), number)


@pytest.mark.parametrize("text", COMPARISONS)
def test_two_numbers_of_a_map_are_compared_exactly(fresh, text):
    compare, x = COMPARISONS[text], np.ones(3, np.float32)
    for a in (np.int64(2**63 - 1), np.int64(-1), 2**63 - 1, True):
        for b in (np.uint64(2**63), np.uint64(2**64 - 1), np.uint64(2**63 - 1)):
            made = sp.ops.map(fresh, f"x * where({text.replace('x', 'a')}, 2, 3)", x=x, a=a, s=b)
            equal(made, x * np.float32(2 if compare(int(a), int(b)) else 3), f"{a!r} {text} {b!r}")


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -8.0, 0.5, np.inf, -np.inf, np.nan]
EXPONENTS = [0, 1, -1, 2, 3, -3, 0.5, 2.0, 0.0, -0.5, 1 / 3, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_powers_of_special_numbers(fresh, dtype):
    host = np.array(SPECIAL, dtype)
    x = fresh.array(host)
    with np.errstate(all="ignore"):
        for exponent in EXPONENTS:
            pairs = [(x**exponent, host**exponent)]
            if isinstance(exponent, float):
                pairs += [(x ** kind(exponent), host ** kind(exponent)) for kind in
                          (np.float16, np.float32, np.float64)]  # fmt: skip
                pairs.append((exponent**x, exponent**host))
                if np.isfinite(exponent) and fresh.provides("fused_map"):
                    text = f"x ** ({exponent!r})"
                    pairs.append((sp.ops.map(fresh, text, x=x), host**exponent))
            for made, expected in pairs:
                got = np.asarray(made)
                assert got.dtype == expected.dtype, exponent
                np.testing.assert_allclose(got, expected, 2e-3 if "f2" in got.dtype.str else 2e-6,
                                           err_msg=f"{exponent!r}")  # fmt: skip
                zeros = expected == 0
                equal(np.signbit(got)[zeros], np.signbit(expected)[zeros], f"{exponent!r}")
        exponents = np.array(EXPONENTS, dtype)
        both = [side.reshape(-1).copy() for side in np.meshgrid(host, exponents)]
        made, expected = np.asarray(operator.pow(*map(fresh.array, both))), both[0] ** both[1]
        np.testing.assert_allclose(made, expected, 2e-3 if dtype == np.float16 else 2e-6)


TRUTHS = np.array([[True, True, False, False], [True, False, True, False]])


def test_powers_of_truths(fresh):
    first, second = TRUTHS
    x, y = map(fresh.array, TRUTHS)
    for exponent in (2, 3, 0, 2.0, np.int64(2), True):
        equal(x**exponent, first**exponent, exponent)
        equal((x == y) ** exponent, (first == second) ** exponent, exponent)


@pytest.mark.parametrize(
    "function",
    [operator.add, operator.mul, operator.and_, operator.or_, operator.xor, operator.eq,
     operator.lt, operator.ge, np.maximum, np.minimum, operator.truediv, operator.pow],
)  # fmt: skip
def test_operators_of_truths(fresh, function):
    """Truths in memory, truths that wait, and chains of them stay 0 or 1."""
    first, second = TRUTHS
    x, y = map(fresh.array, TRUTHS)
    with np.errstate(all="ignore"):
        ways = (
            lambda a, b: function(a, b),
            lambda a, b: function(a == b, a),
            lambda a, b: function(a == b, b < a),
            lambda a, b: function(a, b) == a,
            lambda a, b: function(a, b).sum(),
            lambda a, b: function(a == b, b).mean(),
        )
        for i, way in enumerate(ways):
            equal(way(x, y), np.asarray(way(first, second)), i)


def test_there_is_no_difference_and_no_sign_of_truths(fresh):
    x, y = map(fresh.array, TRUTHS)
    for refused in (lambda: x - y, lambda: (x == y) - x, lambda: -x, lambda: +x, lambda: +(x == y)):
        with pytest.raises(TypeError):
            refused()


@pytest.mark.parametrize(
    "text", ["p + q", "p * q", "(p + q) == p", "max(p, q) + p * q", "where(p, q, p + q)", "p",
             "p != q", "abs(p) + q", "p + t"],
)  # fmt: skip
def test_maps_of_truths(fresh, text):
    values = {"p": TRUTHS[0], "q": TRUTHS[1], "t": np.True_}
    used = {name: values[name] for name in grammar.parse(text).names}
    numpy = {"abs": np.abs, "max": np.maximum, "where": np.where}
    expected = eval(text, numpy | used)
    equal(sp.ops.map(fresh, text, **used), expected)
    arrays = {n: fresh.array(v) if isinstance(v, np.ndarray) else v for n, v in used.items()}
    equal(sp.ops.map(fresh, text, **arrays), expected)
