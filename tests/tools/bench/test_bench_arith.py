"""Sizes, groups and costs that users type: an arithmetic of our own, never eval.

When this fails, a size on the command line means another number, or runs code.
"""

from __future__ import annotations

import contextlib

import pytest
from _bench.jobs import arith
from _console.problems import UsageError
from hypothesis import given
from hypothesis import strategies as st

N = {"N": 1000, "M": 7, "c": 64, "groups": 4}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("4M", 4 << 20),
        ("1.5K", 1536),
        ("2G", 2 << 30),
        ("0x100", 256),
        ("1e6", 1e6),
        (".5", 0.5),
        ("N/256", 4),  # between integers / rounds up, as in the manifest's extents
        ("N//256", 3),
        ("N%256", 232),
        ("1.0*N/256", 3.90625),
        ("2*N*M", 14000),
        ("2+3*4", 14),
        ("(2+3)*4", 20),
        ("-N + 1", -999),
        ("--3", 3),
        ("-2**2", -4),  # as Python binds it
        ("2**10", 1024),
        ("10-4-3", 3),
        ("max(1, N-2000, M)", 7),
        ("min(N, M)", 7),
        ("span(3, 10, 4, 1)", 24),
        ("span(0, 10, 4, 1)", 0),
        ("2*(c//groups)*9", 288),
        (" 1 +\t2 ", 3),
        ("M < 8", 1),
        ("M*c <= 447", 0),
        ("1 <= M < 7", 0),  # chains, as in Python
        ("1 <= M < 8 != 9", 1),
        ("not N % 8 and M == 7", 1),
        ("not not 5", 1),
        ("M > 9 or c != 64 or groups >= 4", 1),
        ("(M > 9 or c == 64) and groups == 5", 0),
        ("0 and 1/0", 0),  # what is decided is not evaluated
        ("1 or 10**99 + 1/0", 1),
        ("max(M < 8, 0) + 1", 2),
    ],
)
def test_value(text, value):
    assert arith.evaluate(text, N) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a number or a name"),
        ("1+", "expected a number or a name"),
        ("(1", "expected ')'"),
        ("1)", "expected the end of the expression, got"),
        ("2 3", "expected the end of the expression, got"),
        ("n", "unknown name 'n' (known: M, N, c, groups)"),
        ("4T", "cannot read"),
        ("1__2", "cannot read"),
        ("N.real", "cannot read"),
        ("__import__(1)", "unknown name '__import__'"),
        ("N['a']", "cannot read"),
        ("1/0", "divides by zero"),
        ("1%0", "divides by zero"),
        ("1.5//0", "divides by zero"),
        ("2**65", "expected an exponent in 0..64"),
        ("2**-1", "expected a number or a name"),
        ("9**64", "beyond 64 bits"),
        ("1G*1G*1G", "beyond 64 bits"),
        ("span(1, 2)", "expected 4 values, got 2"),
        ("1e999", "the value is inf"),
        ("1e308*1e308", "the value is inf"),
        ("1e308+1e308", "the value is inf"),
        ("1e308/1e-308", "the value is inf"),
        ("1e308G", "the value is inf"),
        ("(1e18)**64", "too large"),
        ("span(1e308, 1e308, 2, 2)", "the value is inf"),
        ("9" * 5000, "got 5000 characters"),
        ("M = 7", "cannot read"),
        ("M <", "expected a number or a name"),
        ("and 1", "expected a number or a name"),
        ("1 and", "expected a number or a name"),
        ("0 and x", "unknown name 'x'"),
        ("1 and 1/0", "divides by zero"),
        ("sqrt(2)", "unknown name 'sqrt'"),
        ("(" * 80 + "1" + ")" * 80, "nested too deep"),
    ],
)
def test_refused(text, said):
    with pytest.raises(UsageError) as caught:
        arith.evaluate(text, N)
    assert said in str(caught.value)


def test_integer():
    assert arith.integer("1e6") == 1_000_000
    assert isinstance(arith.integer("1e6"), int)
    with pytest.raises(UsageError, match=r"a whole number, got 1\.5"):
        arith.integer("3.0/2")


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert isinstance(arith.evaluate(text, N), int | float)


@given(a=st.integers(0, 10**6), b=st.integers(1, 10**6), c=st.integers(-100, 100))
def test_agrees_with_python(a, b, c):
    assert arith.evaluate(f"{a}*{b}+({c})//{b}-{a}%{b}") == a * b + c // b - a % b
    assert arith.evaluate(f"{a}/{b}") == -(-a // b)
