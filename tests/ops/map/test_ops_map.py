"""ops.map on the cpu: every operation in every type, binding of names, broadcasting, bad input.

When this fails, an operation of maps is wrong in one type, or takes bad input.
"""

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkle_drv.ops import map, ref
from sparkle_drv.ops.expression import grammar, program
from sparkle_drv.ops.map import fused

# The package shows the function under the module's name.
map_module = sys.modules[map.__module__]
UNARY = sorted(name for name, n in grammar.ARITY.items() if n == 1)
BINARY = {"add": "x + y", "sub": "x - y", "mul": "x * y", "div": "x / y", "pow": "pow(x, y)",
          "min": "min(x, y)", "max": "max(x, y)"}  # fmt: skip
CHOSEN = {"where": "where(x, y, 3)"} | {
    op: f"where(x {sign} y, x, y)" for sign, op in grammar.COMPARISONS.items()
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e-30, -1e-30, 88.0, -88.0, 1e30, 0.5]


def values(dtype, n=1003, seed=21):
    rng = np.random.default_rng(seed)
    if dtype == np.int32:
        made = rng.integers(-(2**31), 2**31, n, dtype=np.int32)
        made[:6] = [0, 1, -1, 2**31 - 1, -(2**31), 46341]
        return made
    made = (rng.standard_normal(n) * 10).astype(dtype)
    made[: len(SPECIAL)] = SPECIAL
    return made


def within_ulps(got, want, ulps):
    """`ulps` of each element, or of the smallest normal number."""
    want = np.asarray(want)
    if got.dtype == np.int32:
        np.testing.assert_array_equal(got, want)
        return
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)  # what is beyond the type is infinite there
        near = np.abs(got - want) <= ulps * info.eps * np.abs(want) + ulps * info.tiny
    edge = np.isinf(rounded) & (np.abs(got) >= info.max * (1 - ulps * info.eps))
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | edge
    wrong = np.flatnonzero(~(near | same))
    assert not wrong.size, (wrong[0], got[wrong[0]], want[wrong[0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", UNARY)
def test_unary(isa_dev, op, dtype):
    x = values(dtype)
    got = map(isa_dev, f"{op}(x)", x)
    assert got.dtype == dtype
    within_ulps(got, ref.map(f"{op}(x)", x=x), 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", BINARY)
def test_binary(isa_dev, op, dtype):
    x = np.repeat(values(dtype, 40), 40)
    y = np.tile(values(dtype, 40, 22), 40)
    within_ulps(map(isa_dev, BINARY[op], x, y), ref.map(BINARY[op], x=x, y=y), 8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", CHOSEN)
def test_choosing(isa_dev, op, dtype):
    x = np.repeat(values(dtype, 40), 40)
    y = np.tile(values(dtype, 40, 22), 40)
    y[::3] = x[::3]
    within_ulps(map(isa_dev, CHOSEN[op], x, y), ref.map(CHOSEN[op], x=x, y=y), 0)


@pytest.mark.parametrize("op", sorted(program.I32_OPS))
def test_whole_numbers(isa_dev, op):
    x, y = values(np.int32), values(np.int32, seed=23)[::-1]
    text = (BINARY | CHOSEN).get(op, f"{op}(x)")
    bound = {"x": x, "y": y} if "y" in text else {"x": x}
    got = map(isa_dev, text, **bound)
    assert got.dtype == np.int32
    within_ulps(got, ref.map(text, **bound), 0)


numbers = st.floats(-4, 4, width=32)
leaves = st.sampled_from(["x", "y", "a", "1.5", "0.25"])
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" + ", " - ", " * "]), inner).map("".join),
        inner.map("({})".format),
        inner.map("-{}".format),
        st.tuples(st.sampled_from(["tanh", "relu", "abs", "sigmoid", "cos"]), inner).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(
            lambda p: f"{p[0]}({p[1]}, {p[2]})"
        ),
    ),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(trees, st.lists(numbers, min_size=1, max_size=40), numbers)
def test_random_expressions_against_float64(dev, text, x, a):
    bound = {"x": np.array(x), "y": np.array(x[::-1]), "a": a}
    bound = {name: bound[name] for name in grammar.parse(text).names}
    if not any(name in bound for name in "xy"):
        bound["x"], text = np.array(x), f"{text} + 0*x"
    want = ref.map(text, **bound)
    # Every step loses half an ulp of the largest value on the way, which 4**products * sums bounds.
    largest = 4.0 ** (text.count("*") + 1) * (len(text) + 1)
    got = map(dev, text, **bound)
    assert np.abs(got - want).max() <= 64 * np.finfo(float).eps * max(largest, np.abs(want).max())


def test_the_example(dev):
    x, y = values(np.float32)[len(SPECIAL) :], values(np.float32, seed=24)[len(SPECIAL) :]
    want = np.maximum(np.float64(2) * x + y, 0)
    for got in (
        map(dev, "relu(a*x + y)", a=2.0, x=x, y=y),
        map(dev, "relu(a*x + y)", 2.0, x, y),
        map(dev, "relu(a*x + y)", x, y, a=np.float64(2)),
        map(dev, "relu(a*x + y)", a=np.array(2, np.float32), x=x, y=y),
        map(dev, "relu(a*x + y)", dev.array(x), dev.array(y), a=2).numpy(),
        map(dev, "relu(a*x + y)", 2, dev.array(x), y).numpy(),
        map(dev, "relu(dev*self + out)", 2.0, x, y),
        map(dev, "relu(expression*x + y)", expression=2.0, x=x, y=y),
    ):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 511, 512, 513, 16384, 16385, 50_000])
def test_lengths(dev, n):
    x = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(map(dev, "x + 1", x), x + 1)


@pytest.mark.parametrize("text", ["x", "2.5", "x + y + x*y - y/2 + square(x - y)"])
def test_programs_of_one_step_and_of_many(dev, text):
    x, y = np.arange(600.0), np.arange(600.0)[::-1]
    bound = {name: {"x": x, "y": y}[name] for name in grammar.parse(text).names}
    out = np.empty(600)
    assert map(dev, text, out=out, **bound) is out
    np.testing.assert_allclose(out, np.broadcast_to(ref.map(text, **bound), 600), rtol=1e-14)


def test_eight_arrays_and_more_scalars(dev):
    arrays = {name: np.full(5, 10.0**i) for i, name in enumerate("abcdefgh")}
    scalars = {f"s{i}": i for i in range(12)}
    text = "+".join([*arrays, *scalars])
    assert map(dev, text, **arrays, **scalars).tolist() == [11111111.0 + 66] * 5


def test_broadcasting(dev):
    rng = np.random.default_rng(25)
    column, row, one = rng.random((4, 1)), rng.random(3), np.array(7.0)
    box = rng.random((2, 1, 3))
    want = column * row - one + box
    np.testing.assert_allclose(map(dev, "a*b - c + d", column, row, one, box), want)
    moved = [dev.array(v) for v in (column, row, one, box)]
    np.testing.assert_allclose(map(dev, "a*b - c + d", *moved).numpy(), want)
    assert map(dev, "a + b", column[:0], row).shape == (0, 3)


def test_zero_dimensions(dev):
    got = map(dev, "x + y", np.array(1.5), np.array(2.0))
    assert got.shape == ()
    assert got == 3.5
    assert map(dev, "x*2", dev.array(np.array(4, np.int32))).numpy() == 8
    filled = map(dev, "2*pi", pi=np.pi, out=np.empty((2, 3), np.float32))
    np.testing.assert_array_equal(filled, np.full((2, 3), np.float32(2 * np.pi)))
    held = dev.empty((4,), np.int32)
    assert map(dev, "-7", out=held).numpy().tolist() == [-7] * 4


def test_an_out_of_a_subclass_that_says_another_shape(dev):
    class Liar(np.ndarray):
        shape = property(lambda self: (99, 99))

    memory = np.empty((2, 3), np.float32)
    out = memory.view(Liar)
    assert map(dev, "2.5", out=out) is out
    assert (memory == 2.5).all()
    assert map(dev, "x + 1", memory, out=out) is out
    assert (memory == 3.5).all()


def test_memory_of_any_order(dev):
    x = np.arange(24.0).reshape(2, 3, 4)
    for view in (x.T, x[::-1, :, ::2], np.asfortranarray(x), np.broadcast_to(x[0], x.shape)):
        np.testing.assert_array_equal(map(dev, "2*x", view), 2 * view)
    readonly = x.copy()
    readonly.flags.writeable = False
    np.testing.assert_array_equal(map(dev, "x - 1", readonly), x - 1)
    unaligned = np.frombuffer(bytearray(41), np.uint8)[1:].view(np.float64)
    assert (map(dev, "x + 1", unaligned) == 1).all()


def test_in_place_and_overlapping(dev):
    x = np.arange(2000.0)
    assert map(dev, "x*x + x", x, out=x) is x
    np.testing.assert_array_equal(x, np.arange(2000.0) ** 2 + np.arange(2000.0))
    memory = np.arange(2001.0)
    map(dev, "2*x", memory[:-1], out=memory[1:])
    np.testing.assert_array_equal(memory, [0, *(2 * np.arange(2000.0))])
    back = np.arange(10.0)
    map(dev, "x + y", back, back[::-1], out=back)
    assert back.tolist() == [9.0] * 10
    held = dev.buffer(8 * 2001)
    held.write(np.arange(2001.0))
    shifted = held.view(8).array(np.float64, 2000)
    map(dev, "2*x", held.array(np.float64, 2000), out=shifted)
    np.testing.assert_array_equal(shifted.numpy(), 2 * np.arange(2000.0))
    whole = held.array(np.float64, 2000)
    assert map(dev, "x + 1", whole, out=whole) is whole
    np.testing.assert_array_equal(whole.numpy()[1:], 2 * np.arange(1999.0) + 1)


def test_arrays_keep_a_common_layout(dev):
    x = dev.array(np.ones((1, 2, 3, 4), np.float32), layout="NHWC")
    made = map(dev, "x + y", x, np.ones((1, 2, 3, 4), np.float32))
    assert made.layout == "NHWC"
    assert made.fence.wait().done
    with pytest.raises(ValueError, match="expected arrays of one layout, got NHWC and NCHW"):
        map(dev, "x + y", x, dev.array(np.ones((1, 2, 3, 4), np.float32), layout="NCHW"))


def test_more_elements_than_one_launch_counts(dev, monkeypatch):
    monkeypatch.setattr(map_module, "PIECE", 7)
    x = np.arange(24.0).reshape(4, 6)
    np.testing.assert_array_equal(map(dev, "x + y", x, x), 2 * x)
    np.testing.assert_array_equal(map(dev, "x + y", dev.array(x), x).numpy(), 2 * x)
    assert map(dev, "x + 1", x, out=x) is x
    assert x[3, 5] == 24


def test_programs_are_copied_to_the_device_once_and_not_for_ever(dev, monkeypatch):
    monkeypatch.setattr(fused, "PROGRAMS", 3)
    x = np.arange(4.0)
    for _ in range(2):
        for i in range(8):
            np.testing.assert_array_equal(map(dev, f"x + {i} + 0.5", x), x + i + 0.5)
            assert 1 <= len(dev.kept["ops programs"]) <= 3
    before = dev.live_counts()["buffers"]
    for _ in range(5):
        map(dev, "x + 7 + 0.5", x)
    assert dev.live_counts()["buffers"] == before


def test_memory_that_is_not_shared_with_the_host(dev, monkeypatch):
    monkeypatch.setattr(dev._backend, "info", dataclasses.replace(dev.info, unified=False))
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(map(dev, "a*x + x", x, a=2), 3 * x)
    out = np.empty((6, 4), np.float32).T
    assert map(dev, "a*x + y", x, x[0], out=out, a=2) is out
    np.testing.assert_array_equal(out, 2 * x + x[0])
    np.testing.assert_array_equal(map(dev, "x + 1", dev.array(x)).numpy(), x + 1)


X32, X64 = np.ones((2, 3), np.float32), np.ones((2, 3))
XI = np.ones((2, 3), np.int32)


@pytest.mark.parametrize(
    ("text", "args", "names", "error", "match"),
    [
        (7, (), {}, TypeError, "expression: expected a str or a function, got int"),
        ("x +", (X32,), {}, ValueError, "got the end\n    x \\+\n       \\^"),
        ("x + z", (X32,), {}, TypeError, "z: it .* has no value\n    x \\+ z\n        \\^$"),
        ("x", (), {}, TypeError, "x: it stands in the expression and has no value"),
        ("x", (X32, X32), {}, TypeError, "2 values by position are given, 1 names are left"),
        ("x", (X32,), {"y": 1.0}, TypeError, "y: the expression has no such name; it has x"),
        ("x", (X32,), {"x": X32}, TypeError, "1 values by position are given, 0 names are left"),
        ("1", (), {"x": X32}, TypeError, "x: the expression has no such name; it has none"),
        ("x + y", (1, 2.0), {}, TypeError, "map: expected at least one array, or out="),
        ("x + y", (X32, [1.0]), {}, TypeError, "y: expected a numpy array or an Array, got list"),
        ("x + y", (X32, "1"), {}, TypeError, "y: expected a numpy array or an Array, got str"),
        ("x + y", (X32, None), {}, TypeError, "y: expected a numpy array or an Array, got None"),
        (
            "x + y",
            (XI, np.longdouble(1)),
            {},
            TypeError,
            "add is .* here.*\n    x \\+ y\n      \\^",
        ),
        ("-(x > y)", (X32, X32), {}, TypeError, "no neg of bool"),
        ("x**-1", (XI,), {}, ValueError, "negative integer powers"),
        ("x**y", (XI, XI), {}, TypeError, "exponent that is written"),
        ("x", (X32.astype("i2"),), {}, TypeError, "x: map takes float32 or .*, got int16"),
        (
            "x + y",
            (X32, X32[:, :2]),
            {},
            ValueError,
            r"map: expected shapes that broadcast, .* y \(2, 2\)",
        ),
        ("x + y", (X32, 2j), {}, TypeError, "y: expected a real number, got 2j"),
        ("x + y", (X32, 1e39), {}, ValueError, "y: it does not fit f32"),
        ("x + y", (X64, 10**400), {}, ValueError, "y: it does not fit f64"),
        ("x + y", (XI, 2**31), {}, ValueError, "y: 2147483648 does not fit int32"),
        ("x", (X32,), {"out": np.ones((2, 2), "f4")}, ValueError, r"out: expected shape \(2, 3\)"),
        ("x", (X32,), {"out": X64}, TypeError, "out: expected float32, the dtype of the result"),
        ("1", (), {"out": np.ones(2, "i2")}, TypeError, "out: map takes"),
        ("1", (), {"out": 3}, TypeError, "out: expected a numpy array or an Array, got int"),
    ],
)
def test_bad_input(dev, text, args, names, error, match):
    before = dev.default_queue.submitted
    with pytest.raises(error, match=match):
        map(dev, text, *args, **names)
    assert dev.default_queue.submitted == before


def test_numbers_that_a_type_can_hold(dev):
    assert np.isposinf(map(dev, "x + a", X32, a=float("inf"))).all()
    assert np.isnan(map(dev, "x * a", X64, a=np.float32("nan"))).all()
    assert (map(dev, "x + a", XI, a=-5) == -4).all()
    assert (map(dev, "x + a", XI, a=np.int32(-5)) == -4).all()
    assert (map(dev, "x + a", X32, a=True) == 2).all()
    assert (map(dev, "x + a", X32, a=np.True_) == 2).all()
