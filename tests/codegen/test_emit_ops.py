"""Each operation of a map as amdgpu writes it out, on both emulated chips, against float64.

When this fails, one operation of a map is wrong on AMD GPUs.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from mapkit import reference, run, sine_or_cosine, ulps
from rdnakit import card  # noqa: F401

from sparkle_drv.codegen.rdna import graph
from sparkle_drv.ops.expression import grammar, program

BINARY = {
    "add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "pow": "pow(x, y)",
    "min": "min(x, y)", "max": "max(x, y)",
    "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y", "eq": "x == y", "ne": "x != y",
}  # fmt: skip
EDGES = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 0.25, np.nan, np.inf, -np.inf, 5, -5, 33.3,
     1e-30, -1e-30, 1e30, -1e30, 3.4e38, -3.4e38, 1.2e-38, -1.2e-38, 1e-40, -1e-40, 1e-45, -1e-45,
     0.625, -0.625, 0.62499994, 88.7228, 88.72284, -88.7228, -87.4, -103.9, -104.1, 89, 2.0**-96,
     1e5, -1e5, 1e8, 16777217, 2.0**30, -(2.0**30), 2.0**31, 6.2831855, 3.1415927, 1.5707964],
    np.float32,
)  # fmt: skip
# What is rounded correctly, and what has how many ulp on the emulator, whose transcendental unit
# is exact; hardware's ulp of that unit may be added.
ULPS = {"pow": 1, "exp": 1, "log": 1.5, "tanh": 1.5, "sigmoid": 2.5, "sin": 1.6, "cos": 1.6}


def numbers(seed):
    """Edges, then numbers of every size, of about 1, near 1, and as angles are."""
    rng = np.random.default_rng(seed)
    any_bits = rng.integers(0, 1 << 32, 900, dtype=np.uint32).view(np.float32)
    near_one = np.exp(rng.standard_normal(300) / 100)
    usual = [rng.standard_normal(600) * 10, rng.standard_normal(300) * 1e5, near_one]
    return np.concatenate([EDGES, any_bits, *(a.astype(np.float32) for a in usual)])


def test_both_languages_have_the_same_operations():
    assert grammar.ARITY == graph.ARITY
    assert program.I32_OPS == graph.I32


@pytest.mark.parametrize("op", sorted(set(grammar.ARITY) - {"where"}))
def test_floats(card, op):  # noqa: F811
    x = numbers(3)
    values = {"x": x}
    if op in BINARY:
        y = np.random.default_rng(4).permutation(x)
        values["x"] = np.concatenate([np.repeat(EDGES, EDGES.size), x])
        values["y"] = np.concatenate([np.tile(EDGES, EDGES.size), y])
    text = BINARY.get(op, f"{op}(x)")
    got, want = run(card, text, **values), reference(text, **values)
    off = ulps(got, want)
    at = int(off.argmax())
    said = {name: value[at] for name, value in values.items()}
    assert off[at] <= ULPS.get(op, 0.5), f"{op} of {said} is {got[at]!r}, not {want[at]!r}"


@pytest.mark.parametrize("op", sorted(program.I32_OPS - {"where"}))
def test_whole_numbers(card, op):  # noqa: F811
    edges = np.array([0, 1, -1, 2, 2**31 - 1, -(2**31), 46341, -46341, 65536, 7], np.int64)
    more = np.random.default_rng(5).integers(-(2**31), 2**31, 200)
    x = np.concatenate([np.repeat(edges, edges.size), more]).astype(np.int32)
    y = np.concatenate([np.tile(edges, edges.size), more[::-1]]).astype(np.int32)
    text = BINARY.get(op, f"{op}(x)")
    values = {"x": x, "y": y} if op in BINARY else {"x": x}
    np.testing.assert_array_equal(run(card, text, "i32", **values), reference(text, **values))


@pytest.mark.parametrize("op", sorted(BINARY))
def test_constants_on_either_side(card, op):  # noqa: F811
    x = numbers(6)[::5]
    right = re.sub(r"\by\b", "a", BINARY[op])
    left = re.sub(r"\by\b", "x", re.sub(r"\bx\b", "a", BINARY[op]))
    for text in (right, left):
        for a in (0.0, -1.5, float("nan"), 3.0):
            got, want = run(card, text, x=x, a=a), reference(text, x=x, a=a)
            assert ulps(got, want).max() <= ULPS.get(op, 0.5), (text, a)
    got = run(card, BINARY[op] + " + z", x=2.5, y=-1.5, z=np.zeros(5))
    assert ulps(got, np.full(5, reference(BINARY[op], x=2.5, y=-1.5))).max() <= 0.5


@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_choices(card, kind):  # noqa: F811
    x = EDGES if kind == "f32" else np.arange(-9, 10, dtype=np.int32)
    y = np.random.default_rng(9).permutation(x)
    for text in (
        "where(x, y, 7)", "where(x, 7, y)", "where(x - x, 1, y)", "where(x*0 + a, x, y)",
        *(f"where(x {sign} y, x, y)" for sign in ("<", "<=", ">", ">=", "==", "!=")),
        "where(x < y, 3, x) + (x < y)", "where(a < 3, x, y)", "where(x > 0, x, a*x)",
    ):  # fmt: skip
        values = {"x": x, "y": y, "a": 3}
        values = {name: values[name] for name in grammar.parse(text).names}
        got, want = run(card, text, kind, **values), reference(text, **values)
        assert ulps(got, want).max() <= 0.5, text


def test_results_of_zero_keep_their_sign(card):  # noqa: F811
    zeros = np.array([0.0, -0.0], np.float32)
    for text in ("sin(x)", "tanh(x)", "sqrt(x)", "floor(x)", "x", "x*3", "x/3"):
        assert np.signbit(run(card, text, x=zeros)).tolist() == [False, True], text
    for text in ("-x", "-(x*2)", "0 - x"):
        wanted = np.signbit(reference(text, x=zeros)).tolist()
        assert np.signbit(run(card, text, x=zeros)).tolist() == wanted, text


def test_angles_near_multiples_of_half_pi(card):  # noqa: F811
    """The f32 nearest to k * pi/2, where all but a few bits cancel, of every size there is."""
    rng = np.random.default_rng(8)
    k = np.concatenate([np.arange(1, 200), np.floor(2.0 ** rng.uniform(8, 100, 600))])
    x = (k * (np.pi / 2)).astype(np.float32)
    # The worst f32 of all: 16367173 * 2**72 is 1.6e-9 from a multiple.
    x = np.concatenate([x, np.float32([16367173 * 2.0**72, 2.0**127, 3.4028235e38])])
    for text in ("sin(x)", "cos(x)"):
        want = np.array([sine_or_cosine(float(v), text[:3]) for v in x])
        assert ulps(run(card, text, x=x), want).max() <= 1.6
