"""The map kernels' operations one by one, and sizes of several tiles, which the conformance suite
leaves out because emulated devices are slow.

When this fails, a function in a map is wrong on AMD GPUs, or only in larger arrays.
"""

from __future__ import annotations

import numpy as np
import pytest
from mapkit import sine_or_cosine
from rdnakit import card, check, generator  # noqa: F401

from sparkle_drv.ops.expression import program
from sparkle_drv.testing.checks.problems import KernelProblem, _special

TEXTS = {
    "relu": "relu(x)", "exp": "exp(x)", "log": "log(x)", "sqrt": "sqrt(x)", "tanh": "tanh(x)",
    "sigmoid": "sigmoid(x)", "sin": "sin(x)", "cos": "cos(x)", "floor": "floor(x)",
    "square": "square(x)", "min": "min(x, y)", "max": "max(x, y)", "pow": "x ** y", "div": "x / y",
    "sub": "x - y", "neg": "-x", "abs": "abs(x)", "add": "x + y", "mul": "x * y",
    "lt": "x < y", "le": "x <= y", "gt": "x > y", "ge": "x >= y", "eq": "x == y", "ne": "x != y",
    "where": "where(x - y, x, where(x == y, 2, y))",
}  # fmt: skip


def edges(scale):
    """Ordinary numbers of some size, with infinities, NaN, both zeros and the ends of a range."""

    def fill(rng, n):
        x = _special(rng, n) * scale
        x[:8] = [0.5, 1, -1, 2, -3, 88.7, -104, 1e-30]
        return rng.permutation(x)

    return fill


def map_problem(text, kind, n=300, fill=None):
    made = program.compile_map(text, frozenset(), kind)
    consts = np.array(made.constants)
    fills = {"program": lambda rng, n: made.words, "consts": lambda rng, n: consts}
    if fill:
        fills |= {f"x{i}": fill for i in range(len(made.inputs))}
    given = {f"x{i}" for i in range(len(made.inputs))} | ({"consts"} if consts.size else set())
    scalars = {"nops": len(made.words), "nconsts": consts.size, "n": n}
    return KernelProblem(scalars, fills, frozenset(given))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", TEXTS)
def test_map_operation(card, op, kind):  # noqa: F811
    rng = generator(op)
    for scale in (1, 30):
        check(card, f"map_{kind}", map_problem(TEXTS[op], kind, fill=edges(scale)), rng)


def far_angles(rng, n):
    """Of every size: the largest, the f64 nearest of all to a multiple of pi/2, and at random."""
    x = rng.standard_normal(n) * 10 ** rng.uniform(0, 300, n)
    x[:4] = [1.7976931348623157e308, 6381956970095103 * 2.0**797, -1e30, 2.0**27]
    return x


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_angles_of_any_size(card, op):  # noqa: F811
    problem = map_problem(f"{op}(x)", "f64", fill=far_angles)
    after = check(card, "map_f64", problem, np.random.default_rng(12))
    want = [sine_or_cosine(x, op) for x in after["x0"].tolist()]
    np.testing.assert_allclose(after["y"], want, 1e-15)


@pytest.mark.parametrize("op", sorted(program.I32_OPS))
def test_map_operation_of_whole_numbers(card, op):  # noqa: F811
    check(card, "map_i32", map_problem(TEXTS[op], "i32"), generator(op))


def test_map_with_all_inputs_and_a_deep_stack(card):  # noqa: F811
    names = "abcdefgh"
    deep = "a"
    for i in range(30):
        deep = (
            f"{names[i % 8]} + 0.5 * ({deep})" if i % 2 else f"({names[i % 8]} - {i}) / 31 + {deep}"
        )
    nested = "+".join("(" + name for name in names) + ")" * 8
    for text in (deep, nested, "2.5", "a"):
        check(card, "map_f32", map_problem(text, "f32", n=70), generator(text))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("m", "n", "k"), [(65, 129, 33), (130, 64, 16), (1, 200, 70)])
def test_gemm_of_several_tiles(card, kind, m, n, k):  # noqa: F811
    scalars = dict(m=m, n=n, k=k, rsa=k + 1, csa=1, rsb=n + 2, csb=1, rsc=n + 3, act=3)
    check(
        card,
        f"gemm_{kind}",
        KernelProblem(scalars, given=frozenset({"bias"}), terms=k),
        generator(kind),
    )


@pytest.mark.parametrize(
    ("outer", "n", "inner"), [(3, 5000, 1), (1, 700, 300), (600, 3, 1), (2, 2, 999)]
)
@pytest.mark.parametrize("groups", [None, (1, 1, 1), (7, 1, 1)])
def test_reduction_by_any_number_of_groups(card, outer, n, inner, groups):  # noqa: F811
    shape = KernelProblem({"outer": outer, "n": n, "inner": inner}, terms=n)
    for name in ("reduce_sum_f32", "reduce_max_f64", "reduce_sum_i32"):
        check(card, name, shape, generator(name), groups)


def test_reduction_of_nothing(card):  # noqa: F811
    empty = KernelProblem({"outer": 2, "n": 0, "inner": 3})
    check(card, "reduce_sum_f32", empty, generator("empty"), (1, 1, 1))


def test_more_threads_than_elements(card):  # noqa: F811
    for name in ("axpby_f32", "copy_i32"):
        scalars = {"n": 257, "a": 2, "b": 3} if name == "axpby_f32" else {"n": 257}
        check(card, name, KernelProblem(scalars), generator(name), (5, 1, 1))
