"""The map language: its grammar against Python's own, its errors, and the programs made from it.

When this fails, an expression means something else than in Python, or its error names no place.
"""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkle_drv.ops import ref
from sparkle_drv.ops.expression import grammar, graph, program

X = np.array([-2.5, -1.0, -0.25, 0.0, 0.5, 1.0, 3.0])
VALUES = {"x": X, "y": X[::-1].copy(), "k_2": np.float64(1.25)}
# Python's parser and numpy's functions judge; only here, never in the product, is there an eval.
JUDGES = {
    "relu": lambda v: np.maximum(v, 0), "abs": np.abs, "neg": np.negative, "exp": np.exp,
    "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "floor": np.floor, "square": np.square, "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "min": np.minimum, "max": np.maximum, "pow": np.power, "N": np.float64,
}  # fmt: skip


def judged(text):
    numbers_boxed = re.sub(r"(?<![\w.])(\d+\.?\d*(?:e-?\d+)?|\.\d+)", r"N(\1)", text)
    with np.errstate(all="ignore"):
        return eval(numbers_boxed, {"__builtins__": {}}, {**JUDGES, **VALUES})


def steps(text):
    """The postfix form, what is shared written out."""
    made = grammar.parse(text)
    nodes = [made.nodes[i] for i, _ in graph.steps(made, (False,) * len(made.nodes))]
    return [n.op if n.args else n.value for n in nodes]


atoms = st.sampled_from(["x", "y", "k_2", "2", "0.5", "3.25", ".5", "1e-1", "7."])
spaces = st.sampled_from(["", " ", "  "])


def grown(inner):
    def joined(parts):
        left, space, op, right = parts
        return f"{left}{space}{op}{space}{right}"

    unary = sorted(name for name, n in grammar.ARITY.items() if n == 1)
    return st.one_of(
        # No parentheses here: what binds to what is the thing under test.
        st.tuples(inner, spaces, st.sampled_from(["+", "-", "*", "/", "**"]), inner).map(joined),
        inner.map("-{}".format),
        inner.map("+{}".format),
        inner.map("({})".format),
        st.tuples(st.sampled_from(unary), inner).map(lambda p: f"{p[0]}({p[1]})"),
        st.tuples(st.sampled_from(["min", "max", "pow"]), inner, inner).map(
            lambda p: f"{p[0]}({p[1]}, {p[2]})"
        ),
    )


texts = st.recursive(atoms, grown, max_leaves=12)


@settings(max_examples=120, deadline=None)
@given(texts)
def test_it_means_what_it_means_in_python(text):
    want = judged(text)
    got = ref.map(text, **{name: VALUES[name] for name in grammar.parse(text).names})
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300, equal_nan=True)


@settings(max_examples=80, deadline=None)
@given(texts, st.booleans())
@example("+(2**-2)", False)
def test_the_program_computes_what_the_expression_says(text, scalar):
    code = program.compile_map(text, frozenset({"k_2"} if scalar else ()), "f64")
    full = {name: np.broadcast_to(value, X.shape) for name, value in VALUES.items()}
    inputs = [full[name] for name in code.inputs]
    inputs += [None] * (8 - len(inputs))
    consts = np.array([VALUES[c] if isinstance(c, str) else c for c in code.constants], float)
    oracle = ref.kernel("map_f64")
    got = oracle(None, *inputs, code.words, consts, code.words.size, consts.size, X.size)
    want = ref.map(text, **{name: VALUES[name] for name in grammar.parse(text).names})
    np.testing.assert_array_equal(got, np.broadcast_to(want, X.shape))


@settings(max_examples=120, deadline=None)
@given(st.text(alphabet="xy0189.e +-*/(),relumin\n\t$é", max_size=40))
def test_anything_else_is_a_value_error_that_points_at_a_place(text):
    try:
        grammar.parse(text)
    except ValueError as error:
        _, quoted, caret = str(error).split("\n")
        assert caret.strip() == "^"
        assert caret.index("^") <= len(quoted)


@pytest.mark.parametrize(
    ("text", "postfix"),
    [
        ("relu(a*x + y)", ["a", "x", "mul", "y", "add", "relu"]),
        ("-x**2", ["x", "square", "neg"]),
        ("x**-y", ["x", "y", "neg", "pow"]),
        ("x**y**z", ["x", "y", "z", "pow", "pow"]),
        ("x - y - z", ["x", "y", "sub", "z", "sub"]),
        ("x / y * z", ["x", "y", "div", "z", "mul"]),
        ("-5 - -x", [-5, "x", "neg", "sub"]),
        ("--5", [5]),
        ("+x", ["x"]),
        ("pow(x, 2)", ["x", "square"]),
        ("max(x, min(y, 1e3))", ["x", "y", 1000.0, "min", "max"]),
        ("\n x\t*\n y ", ["x", "y", "mul"]),
    ],
)
def test_postfix(text, postfix):
    assert steps(text) == postfix


def test_names_come_in_order_of_appearance_and_whole_numbers_stay_whole():
    assert grammar.parse("b*a + b*_c1").names == ("b", "a", "_c1")
    assert [type(v) for v in steps("1 + 1.0")[:2]] == [int, float]
    assert grammar.parse("x") is grammar.parse("x")


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 0, "empty"),
        ("   ", 0, "empty"),
        ("x +", 3, "expected a number, a name or '\\('.*got the end"),
        ("x + * y", 4, "got '\\*'"),
        ("(x", 2, "expected '\\)' after '\\(', got the end"),
        ("x)", 1, "an operator or the end"),
        ("2x", 1, "expected an operator or the end, got 'x'"),
        ("x y", 2, "got 'y'"),
        ("1.2.3", 3, "got '.3'"),
        ("foo(x)", 0, "no function foo; known: abs cos"),
        ("x(y)", 0, "no function x"),
        ("1 + relu", 4, "relu is a function: write relu"),
        ("relu()", 0, "relu: expected 1 argument\\(s\\), got 0"),
        ("1+max(x)", 2, "max: expected 2 argument\\(s\\), got 1"),
        ("relu(x, y)", 0, "expected 1 argument\\(s\\), got 2"),
        ("max(x, y", 8, "after the arguments of max"),
        ("max(x,)", 6, "got '\\)'"),
        ("x $ y", 2, "unexpected character '\\$'"),
        ("__import__('os')", 11, "unexpected character"),
        ("x.real", 1, "unexpected character"),
        ("x[0]", 1, "unexpected character"),
        ("1e999 * x", 0, "too large"),
        ("9" * 5000, 0, "too large"),
    ],
)
def test_errors_quote_the_expression_and_point(text, at, what):
    with pytest.raises(ValueError, match=what) as caught:
        grammar.parse(text)
    _, quoted, caret = str(caught.value).split("\n")
    assert caret.index("^") - 4 == at
    assert quoted[4:] == text or len(text) > 72


def test_a_long_expression_is_quoted_around_the_place():
    text = "+".join(["x"] * 200) + "+ ? +" + "+".join(["y"] * 200)
    with pytest.raises(ValueError, match="unexpected character") as caught:
        grammar.parse(text)
    _, quoted, caret = str(caught.value).split("\n")
    assert quoted[caret.index("^")] == "?"
    assert quoted.startswith("    ...")
    assert quoted.endswith("...")
    assert len(quoted) < 90


@pytest.mark.parametrize(
    "text", ["(" * 9999 + "x", "-" * 9999 + "x", "x**" * 9999 + "x", "abs(" * 999]
)
def test_nesting_is_limited_with_a_clear_error(text):
    with pytest.raises(ValueError, match="nested more than 128 deep"):
        grammar.parse(text)


def test_length_is_not_nesting():
    assert len(steps("+".join(["x"] * 20_000))) == 39_999
    assert steps("(" * 60 + "x" + ")" * 60) == ["x"]


def test_more_waiting_values_than_the_kernel_has_room_for():
    text = "x - (" * 33 + "x" + ")" * 33
    with pytest.raises(ValueError, match=r"expected at most 32 values on .* got 34"):
        program.compile_map(text, frozenset(), "f32")
    assert program.compile_map("x - (" * 31 + "x" + ")" * 31, frozenset(), "f32").words.size == 63
    assert program.compile_map("x + (" * 33 + "x" + ")" * 33, frozenset(), "f32").words.size == 67


def test_slots():
    code = program.compile_map("a*x + 2*y + a + 2.0 + 2", frozenset("a"), "f64")
    assert code.inputs == ("x", "y")
    assert code.constants == ("a", 2, 2.0)
    assert [slot for op, slot in program.decode(code.words) if op == "const"] == [0, 1, 0, 2, 1]
    assert not code.words.flags.writeable


def test_at_most_eight_arrays():
    assert len(program.compile_map("a+b+c+d+e+f+g+h", frozenset(), "f32").inputs) == 8
    with pytest.raises(ValueError, match="expected at most 8 arrays, got 9") as caught:
        program.compile_map("a+b+c+d+e+f+g+h+i", frozenset(), "f32")
    assert str(caught.value).split("\n")[2].index("^") == 4 + 16
    assert len(program.compile_map("a+b+c+d+e+f+g+h+i", frozenset("c"), "f32").inputs) == 8


@pytest.mark.parametrize("op", sorted(set(grammar.ARITY) - program.I32_OPS))
def test_i32_refuses_what_has_no_whole_answer(op):
    infix = {"div": "x / x", "pow": "x ** x"}
    with pytest.raises(TypeError, match=f"i32 has no {op}; it has abs add"):
        program.compile_map(infix.get(op, f"{op}(x)"), frozenset(), "i32")


def test_opcodes_are_those_of_the_header():
    opcodes = program.OPCODES
    assert len(set(opcodes.values())) == len(opcodes) == len(grammar.ARITY) + 2
    assert program.decode(np.array([opcodes["input"] | 7 << 8], np.uint32)) == [("input", 7)]
