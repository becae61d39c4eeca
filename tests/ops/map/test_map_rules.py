"""ops.map by numpy's rules: types, broadcasting, strides, overlap; on the cpu, judged by numpy.

When this fails, maps give other types, shapes or values than numpy.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparkle_drv as sp
from sparkle_drv.ops import map, reduce, traced
from sparkle_drv.ops.expression import grammar

DTYPES = (np.float32, np.float64, np.int32)
# Python's operators on numpy's arrays judge: types, then values.
JUDGED = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y, "-x * abs(y)": lambda x, y: -x * abs(y),
    "where(x < y, x, y)": lambda x, y: np.where(x < y, x, y),
    "(x > 0) * y + (y != x)": lambda x, y: (x > 0) * y + (y != x),
    "(x > 0) * (y > 0) * x + ((x > 0) + (y > 0)) * y": lambda x, y: (x > 0) * (y > 0) * x
    + ((x > 0) + (y > 0)) * y,
    "max(x, y) + min(x, 2)": lambda x, y: np.maximum(x, y) + np.minimum(x, 2),
    "sqrt(abs(x)) + y": lambda x, y: np.sqrt(abs(x)) + y,
    "x**3 - y**2": lambda x, y: x**3 - y**2, "x**0 + y": lambda x, y: x**0 + y,
    "2*x + 3": lambda x, y: 2 * x + 3, "x / 4": lambda x, y: x / 4,
    "0.5*x + y": lambda x, y: 0.5 * x + y, "floor(x) + y": lambda x, y: np.floor(x) + y,
    "where(x, x + 1, y)": lambda x, y: np.where(x, x + 1, y),
}  # fmt: skip


def test_a_product_that_is_used_twice_is_rounded_once_for_both(dev):
    """An FMA of one use would leave the rounding error of x * y, where numpy has 0."""
    x, y = (numbers(np.float32, 1000, seed) for seed in (1, 2))
    made = map(dev, "(x*y + z) - x*y", x=x, y=y, z=np.zeros_like(x))
    assert not made.any()


def numbers(dtype, shape, seed=5):
    rng = np.random.default_rng(seed)
    if dtype == np.int32:
        return rng.integers(-9, 10, shape, dtype=np.int32)
    return (rng.standard_normal(shape) * 4).astype(dtype)


def judge(function, *values):
    """numpy's result, or None where its type is none of ours (or that of a step on the way is)."""
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(function(*values))
        except TypeError:
            return None
    return found if found.dtype in [np.dtype(d) for d in DTYPES] else None


def close(got, want, of=None):
    """`of`: the narrowest type on the way, when that is not the result's."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if want.dtype.kind == "i":
        np.testing.assert_array_equal(got, want)
    else:
        eps = np.finfo(want.dtype if of is None else of).eps
        scale = np.abs(want[np.isfinite(want)]).max(initial=1)
        np.testing.assert_allclose(got, want, rtol=16 * eps, atol=16 * eps * scale)


@pytest.mark.parametrize("text", [*JUDGED])
@pytest.mark.parametrize(("a", "b"), [*itertools.product(DTYPES, DTYPES)])
def test_types_are_numpys(dev, text, a, b):
    x, y = numbers(a, 300), numbers(b, 300, 6)
    want = judge(JUDGED[text], x, y)
    names = {"x": x, "y": y} if "y" in text else {"x": x}
    assert want is not None
    close(map(dev, text, **names), want, np.float32 if np.float32 in (a, b) else None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "scalar",
    [3, -2, 2.5, True, np.float32(2.5), np.float64(2.5), np.int32(3), np.int64(3), np.int8(3),
     np.uint8(3), np.float16(2.5), np.True_, np.array(2.5), np.array(3, np.int32)],
    ids=lambda s: f"{type(s).__name__}-{s}",
)  # fmt: skip
def test_scalars_are_weak_or_strong_as_numpys_are(dev, dtype, scalar):
    x = numbers(dtype, 40)
    # NEP 50, whatever numpy this runs on: a Python number takes the type, another one its own.
    if isinstance(scalar, bool):
        want = x.dtype
    elif isinstance(scalar, (int, float)) and not isinstance(scalar, np.generic):
        float_of_int = isinstance(scalar, float) and dtype == np.int32
        want = np.dtype(np.float64) if float_of_int else x.dtype
    else:
        want = np.promote_types(x.dtype, np.asarray(scalar).dtype)
    close(map(dev, "x*s + 1", x, s=scalar), x.astype(want) * want.type(scalar) + want.type(1))


def test_scalars_among_themselves_are_computed_once_and_exactly(dev):
    x = np.ones(3, np.float32)
    close(map(dev, "x * (a**2 + b/2)", x, a=3, b=1), np.full(3, 9.5, np.float32))
    close(map(dev, "x + 2**70 / 2**70", x), np.full(3, 2, np.float32))
    whole = np.ones(3, np.int32)
    close(map(dev, "x + (2147483648 - 1) - 1", whole), np.full(3, 2**31 - 1, np.int32))
    close(map(dev, "x * where(a > 0, 5, 7)", whole, a=-1.0), np.full(3, 7, np.int32))
    close(map(dev, "x + a/0", x, a=1), np.full(3, np.inf, np.float32))
    with pytest.raises(ValueError, match="too large\n    x \\* 9\\*\\*9\\*\\*9\\*\\*9\n"):
        map(dev, "x * 9**9**9**9", x)
    with pytest.raises(ValueError, match="2147483648 does not fit i32\n    x \\+ 2147483648\n"):
        map(dev, "x + 2147483648", whole)
    with pytest.raises(ValueError, match="1e\\+39 does not fit f32"):
        map(dev, "x + 1e39", x)


def test_the_square_of_a_bool_is_int8_as_numpys_is(dev):
    b, u, f = np.array([True, False]), np.array([3, 4], np.uint8), np.array([2, 3], np.float32)
    assert np.square(b).dtype == np.int8
    for text in ("square(b)", "b**2", "square(f > 2)", "square(b) - b", "square(b) * u"):
        values = {"b": b, "u": u, "f": f}
        with pytest.raises(TypeError, match=r"int(8|16)(, and| here).*convert the operands first"):
            map(dev, text, **{n: v for n, v in values.items() if n in grammar.parse(text).names})
    close(map(dev, "square(b) * f", b=b, f=f), np.square(b) * f)
    close(map(dev, "(f > 2)**2 * f", f), np.square(f > 2) * f)
    close(map(dev, "square(k) * f", f=f, k=np.True_), np.square(np.True_) * f)
    close(map(dev, "square(1*b)", b), np.square(1 * b))
    with pytest.raises(TypeError, match="mul is int16 here"):
        map(dev, "square(k) * u", u=u, k=np.True_)


shapes = st.lists(st.sampled_from([1, 2, 3, 5, 17]), max_size=4)


@st.composite
def views(draw, full):
    """An array that broadcasts to `full`, of any strides, alignment and direction."""
    keep = draw(st.integers(0, len(full)))
    shape = [1 if draw(st.booleans()) else d for d in full[keep:]]
    if not draw(st.integers(0, 2)):
        keep, shape = 0, list(full)
    dtype = draw(st.sampled_from(DTYPES))
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in shape]
    base = numbers(dtype, [shape[d] * abs(steps[d]) for d in order], draw(st.integers(0, 99)))
    x = base.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    if draw(st.integers(0, 3)) == 0 and x.ndim:
        raw = np.empty(x.nbytes + 1, np.uint8)[1:]
        odd = raw.view(dtype).reshape(x.shape)
        odd[...] = x
        x = odd
    assert x.shape == tuple(shape)
    return x


@settings(max_examples=100, deadline=None)
@given(st.data(), shapes, st.booleans())
def test_any_strides_broadcast_as_in_numpy(dev, data, full, give_out):
    full = tuple(full)
    x, y, z = (data.draw(views(full)) for _ in range(3))
    want = np.asarray(x * y - z)
    if not any(v.ndim for v in (x, y, z)):
        return
    out = None
    if give_out:
        order = data.draw(st.permutations(range(want.ndim)))
        base = np.empty([2 * want.shape[d] for d in order], want.dtype)
        out = base.transpose(np.argsort(order))[(slice(None, None, -2),) * want.ndim]
    got = map(dev, "x*y - z", x=x, y=y, z=z, out=out)
    assert out is None or got is out
    close(got, want)
    close(map(dev, "x*y - z", x=x, y=y, z=z, out=out), want)  # as a call that is known


@pytest.mark.parametrize(
    ("shape", "other"),
    [((700, 3), (3,)), ((3, 700), (3, 1)), ((5, 1000), (1000,)), ((2000, 1), (1, 7)),
     ((40, 30, 20), (30, 1)), ((2, 3, 4, 5, 6), (4, 1, 6)), ((1, 5000), (5000, 1)[:1]),
     ((2,) * 12, (2, 1) * 5), ((100, 300), (100, 1)), ((70000,), (1,))],
)  # fmt: skip
def test_rows_columns_and_boxes(dev, shape, other):
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = numbers(a, shape), numbers(b, other)
        close(map(dev, "x*y + x - y", x=x, y=y), x * y + x - y)
        y = y.T if y.ndim == x.ndim else y[..., :1]
        x = x.T if y.ndim == x.ndim else x
        close(map(dev, "x*y + x - y", x=x, y=y), x * y + x - y)


def test_more_dimensions_than_the_kernel_has(dev):
    x = numbers(np.float32, (2,) * 14)[(slice(None, None, -1), slice(None)) * 7]
    y = numbers(np.float32, (2,) * 14, 6).transpose(np.random.default_rng(1).permutation(14))
    close(map(dev, "x - y", x, y), x - y)
    out = np.empty((2,) * 14, np.float32).transpose(np.random.default_rng(2).permutation(14))
    assert map(dev, "x - y", x, y, out=out) is out
    close(out, x - y)


def test_a_copy_of_a_ragged_operand_has_to_fit_into_the_memory(dev, monkeypatch):
    x = np.broadcast_to(numbers(np.float64, (2, 1) * 7), (2,) * 14)
    y = numbers(np.float32, (2,) * 14)
    small = dataclasses.replace(dev.info, memory_nbytes=y.nbytes)
    close(map(dev, "where(x > 0, y, -y)", x=x, y=y), np.where(x > 0, y, -y))
    monkeypatch.setattr(dev._backend, "info", small)
    monkeypatch.setattr(dev, "_shown", None)  # nor what was measured of it before
    with pytest.raises(sp.OutOfDeviceMemory, match=r"an operand, row-major.* is 131072 bytes"):
        map(dev, "where(x > 0, y, -y)", x=x, y=y)


def test_as_many_dimensions_as_numpy_has(dev):
    x, y = numbers(np.float32, (1,) * 50 + (3, 1)), numbers(np.float32, (2,) + (1,) * 40 + (4,), 6)
    close(map(dev, "x - y", x, y), x - y)
    close(reduce(dev, "x - y", "sum", axis=-1, x=x, y=y), (x - y).sum(axis=-1))


def test_broadcasting_beyond_all_bounds(dev):
    """The shapes are right, there is no memory."""
    x = np.broadcast_to(np.float32(1), (2**50, 1))
    for call in (map, reduce):
        with pytest.raises(ValueError, match="more than can be addressed"):
            call(dev, "x + y", x=x, y=x.T, **({"axis": ()} if call is reduce else {}))


@pytest.mark.parametrize("scalar", [np.float32(2), np.int32(2), np.float64(2), 2, 2.0])
def test_a_function_of_scalars_alone_is_no_map(dev, scalar):
    for call in (map, reduce):
        with pytest.raises(TypeError, match="one number, because no array takes part in it"):
            call(dev, lambda x, s: s * s, x=np.ones(3, np.float32), s=scalar)


def test_host_arrays_of_any_strides_beside_arrays_of_the_device(dev):
    x, y = numbers(np.float32, (6, 5)), numbers(np.float64, (5, 12), 6)[:, ::-2].T
    want = x * y - y
    for held, other in ((dev.array(x), y), (x.T.copy().T, dev.array(y))):
        got = map(dev, "x*y - y", x=held, y=other)
        close(got.numpy(), want)


def test_results_keep_the_order_of_memory(dev):
    x = np.asfortranarray(numbers(np.float32, (30, 40)))
    assert map(dev, "x + 1", x).flags.f_contiguous
    assert map(dev, "x + y", x, x.T.copy().T).flags.f_contiguous
    assert map(dev, "x + y", x, np.ascontiguousarray(x)).flags.c_contiguous


@pytest.mark.parametrize("n", [5, 3000])
def test_out_may_overlap_inputs(dev, n):
    def fresh():
        return np.arange(3.0 * n)

    for source, target in (
        (slice(0, n), slice(1, n + 1)), (slice(1, n + 1), slice(0, n)),
        (slice(0, n), slice(0, 2 * n, 2)), (slice(n - 1, None, -1), slice(0, n)),
        (slice(0, 2 * n, 2), slice(0, n)), (slice(0, n), slice(0, n)),
    ):  # fmt: skip
        memory = fresh()
        x = memory[source][:n]
        want = 2 * x + 1
        for _ in range(2):
            memory[:] = fresh()
            map(dev, "2*x + 1", x=x, out=memory[target])
            np.testing.assert_array_equal(memory[target], want)
    square = np.arange(float(n * n)).reshape(n, n) if n < 100 else np.arange(9.0).reshape(3, 3)
    want = square + square.T
    map(dev, "x + y", square, square.T, out=square)
    np.testing.assert_array_equal(square, want)


def test_a_broadcast_view_is_no_target(dev):
    with pytest.raises(ValueError, match="out: expected separate elements"):
        map(
            dev,
            "x",
            np.ones((3, 4)),
            out=np.lib.stride_tricks.as_strided(np.ones(4), (3, 4), (0, 8)),
        )


def test_traced_functions(dev):
    def function(x, y, gain=3):
        big = x * y + gain
        total = big
        for power in range(3):
            total = total + big**power
        return np.where(total > 4, np.tanh(total), sp.ops.functions.relu(-x)) / 2

    x, y = numbers(np.float32, 500), numbers(np.float32, 500, 6)
    with np.errstate(all="ignore"):
        want = function(x, y).astype(np.float32)
    close(map(dev, function, x, y), want)
    kept = traced(function)
    assert kept.names == ("x", "y")
    for _ in range(3):
        close(map(dev, kept, y=y, x=x), want)
        close(map(dev, kept, x.astype(float), y), function(x.astype(float), y))
    assert kept(2.0, 3.0) == function(2.0, 3.0)
    close(map(dev, lambda x: x, x), x)
    close(map(dev, lambda x, *, y: 2 - x + 1 / y, x, y=y), (2 - x + 1 / y))
    close(map(dev, lambda x, y: x + 1, x, y), x + np.float32(1))


def test_sharing_in_a_trace_costs_nothing(dev):
    def doubled(x):
        for _ in range(60):
            x = x + x
        return x

    x = np.ones(10)
    np.testing.assert_array_equal(map(dev, doubled, x), np.full(10, 2.0**60))


def endless(x):
    return endless(x + 1)


def branching(x):
    return x if x > 0 else -x


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (branching, TypeError, r"choose with where\(condition, a, b\)"),
        (endless, ValueError, "endless: it calls itself without end"),
        (lambda x: float(x), TypeError, "is not possible with a symbol"),
        (lambda x: [v for v in x], TypeError, "no values"),
        (lambda x: x[0], TypeError, "no values"),
        (lambda x: (x, x), TypeError, "expected one result, got tuple"),
        (lambda x: None, TypeError, "expected one result, got NoneType"),
        (lambda x: x + np.ones(3), TypeError, "a traced function uses an array"),
        (lambda x: x + "a", TypeError, "expected real numbers .* got str"),
        (lambda x: np.arctan(x), TypeError, "numpy.arctan cannot be traced"),
        (lambda x: np.sum(x), TypeError, "cannot be traced"),
        (lambda *x: x[0], TypeError, "parameters by name"),
        (lambda x: -(x > 0), TypeError, "<lambda>: numpy has no neg of bool.*test_map_rules.py:"),
        (lambda x: 1.0, TypeError, "one number, because no array takes part in it"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_traced(dev, function, error, match):
    with pytest.raises(error, match=f"(?s){match}"):
        map(dev, function, np.ones(3, np.float32))


def test_an_error_tells_where_this_one_was_written(dev):
    """Also of what computes the same as another one that was refused before."""
    x = np.ones(3, np.float32)
    for expression, words in (
        ("-(x>1.5)", "    -(x>1.5)"),
        ("-(x  >  1.5)", "    -(x  >  1.5)"),
        (lambda x: -(x > 1.5), "<lambda>: numpy has"),
        ("-(x>1.5)", "    -(x>1.5)"),
    ):
        with pytest.raises(TypeError, match="no neg of bool") as refused:
            map(dev, expression, x)
        assert words in str(refused.value)


REFUSED = {
    "%": lambda x: x % 2, "//": lambda x: 2 // x, "divmod": lambda x: divmod(x, 2),
    "@": lambda x: x @ x, "<<": lambda x: x << 1, ">>": lambda x: 1 >> x,
    "&: expected two comparisons": lambda x: x & 1, "|: two comparisons": lambda x: (x > 0) | 1,
    "~: expected a comparison": lambda x: ~x, "numpy.remainder": lambda x: np.float32(2) % x,
    "modulus": lambda x: pow(x, 2, 3), r"bool\(\)": lambda x: 0 < x < 1,
    "bool.*min, max": lambda x: max(x, 0), "iteration": lambda x: sum(x), "len": lambda x: len(x),
    "an element": lambda x: x[0], "`in`": lambda x: 1 in x, "range": lambda x: range(x),
    "float": lambda x: math.sin(x), "a hash": lambda x: {x: 1},
    "a call": lambda x: x(1), "round": lambda x: round(x),
    "expected real numbers .* got str": lambda x: x < "",
    "got complex": lambda x: x * 1j,
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_maps_have_not_is_refused_by_name_and_place(dev, what):
    with pytest.raises(TypeError, match=rf"(?s)<lambda>: .*{what}.*\n    .*test_map_rules.py:\d+$"):
        map(dev, REFUSED[what], np.ones(3, np.float32))


def test_symbols_have_no_attributes(dev):
    with pytest.raises(AttributeError, match=r"<lambda>: shape: .*\n.*test_map_rules.py:\d+$"):
        map(dev, lambda x: x.shape, np.ones(3, np.float32))


@pytest.mark.parametrize("kind", DTYPES)
def test_operators_of_comparisons(dev, kind):
    x, y = numbers(kind, 400), numbers(kind, 400, 6)

    def function(x, y):
        both, either = (x > 0) & (y > 0), (x > 2) | (y > 2)
        return both * x + (either ^ both) * y + (~either & ~(x == y)) * (x - y)

    close(map(dev, function, x, y), function(x, y))
    close(map(dev, lambda x: np.bitwise_and(x > -1, x < 1) * x, x), ((x > -1) & (x < 1)) * x)


def test_too_much_to_be_an_expression(dev):
    x = np.ones(3, np.float32)
    with pytest.raises(ValueError, match="expected at most 65536 characters, got 1000001"):
        map(dev, "x" + "+x" * 500_000, x)

    def long(x):
        for i in range(66_000):
            x = x + i
        return x

    with pytest.raises(ValueError, match="long: expected at most 65536 steps"):
        map(dev, long, x)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda dev, n, x: map(dev, n + "(x)", x), ValueError),
        (lambda dev, n, x: map(dev, "x " + n, x), ValueError),
        (lambda dev, n, x: map(dev, "x", **{n: x}), TypeError),
        (lambda dev, n, x: map(dev, n), TypeError),
        (lambda dev, n, x: map(dev, n, 1j), TypeError),
        (lambda dev, n, x: map(dev, n + " + y", [1], x), TypeError),
        (lambda dev, n, x: map(dev, n + " + y", x.astype(np.int8), x), TypeError),
        (lambda dev, n, x: map(dev, n + " + y", 10**5000, x), ValueError),
        (lambda dev, n, x: map(dev, "x + y", 10**5000, x.astype(np.int32)), ValueError),
        (lambda dev, n, x: map(dev, n + " + y", *(np.ones(i, "f") for i in (2, 3))), ValueError),
        (lambda dev, n, x: map(dev, lambda x: x + 10**5000, x.astype(np.int32)), ValueError),
        (lambda dev, n, x: map(dev, "+".join(f"n{i}" for i in range(4000)), q=x), TypeError),
        (lambda dev, n, x: sp.ops.reduce(dev, x, n), ValueError),
        (lambda dev, n, x: sp.ops.reduce(dev, x, axis=list(n)), TypeError),
        (lambda dev, n, x: sp.ops.reduce(dev, x, axis=10**5000), ValueError),
        (lambda dev, n, x: sp.ops.gemm(dev, x, x, activation=n), ValueError),
        (lambda dev, n, x: sp.ops.layout(dev, x, n), ValueError),
    ],
)
def test_errors_are_short_whatever_is_given(dev, call, error):
    with pytest.raises(error) as told:
        call(dev, "n" * 50_000, np.ones((1, 1), np.float32))
    assert len(str(told.value)) < 600
    assert "conversion" not in str(told.value)  # Python's words on numbers of many digits


@pytest.mark.parametrize("depth", [64, 100, 120])
def test_deep_expressions(dev, depth):
    x = np.full(5, 0.5, np.float32)
    for text in (
        "x + (" * depth + "x" + ")" * depth,
        "(" * depth + "x" + " + x)" * depth,
        "x / (1 + " * depth + "x" + ")" * depth,
        "abs(" * depth + "x" + ")" * depth,
        "-" * depth + "x",
    ):
        wide = eval(text.replace("x", "np.float64(0.5)"), {"np": np, "abs": abs})
        np.testing.assert_allclose(map(dev, text, x), wide, rtol=1e-5)


def test_a_long_expression(dev):
    x = np.full(5, 2.0**-10, np.float32)
    text = "+".join(["x"] * 8_000)
    np.testing.assert_allclose(map(dev, text, x), 8_000 * 2.0**-10, rtol=1e-3)
    many = "+".join(f"(x*{i} - {i + 0.5})*y" for i in range(1000))
    y = np.ones(5)
    want = sum(2.0**-10 * i - (i + 0.5) for i in range(1000))
    np.testing.assert_allclose(map(dev, many, x=x.astype(float), y=y), want, rtol=1e-9)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_bits(monkeypatch, threads):
    x, y = numbers(np.float32, 300_001), numbers(np.float64, (1, 300_001), 6)
    text = "exp(-x*x) * sin(y) + x / (1 + y*y)"
    with sp.open("cpu") as device:
        want = map(device, text, x=x, y=y)
    monkeypatch.setenv("SPARKLE_THREADS", str(threads))
    with sp.open("cpu") as device:
        np.testing.assert_array_equal(map(device, text, x=x, y=y), want)
