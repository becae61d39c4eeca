"""Looking at results: right ones of every kind pass, planted mistakes are found.

When this fails, a wrong result passes `validate=`.
"""

import numpy as np
import pytest

from sparkle_drv.ops import ref
from sparkle_drv.ops.expression.grammar import parse
from sparkle_drv.ops.shapes.geometry import geometry
from sparkle_drv.sched.operations import bounds, verify

F32, F64 = np.float32, np.float64
CHANCE = np.random.default_rng(5)


def looked(check, got, given, **what):
    return check(got, given, np.random.default_rng(1), **what)


def by_name(check):
    """A check of an expression, given as text, the names of its arrays, and its numbers."""

    def looks(got, given, chance, expression, names, numbers, **what):
        reads = dict(zip(names, given, strict=True))
        return check(got, reads, chance, parse(expression), numbers, **what)

    return looks


MAP, FOLD = by_name(verify.expression), by_name(verify.folded)


def reduction(got, given, chance, op, axis):
    return verify.reduction(got, given[0], op, axis)


def matrices(m, n, k, dtype, kind="normal"):
    a, b = CHANCE.standard_normal((m, k)), CHANCE.standard_normal((k, n))
    if kind == "positive":
        a, b = abs(a) + 1, abs(b) + 1
    if kind == "scaled":
        a, b = a * 10.0 ** CHANCE.integers(-12, 12, (m, 1)), b * 10.0 ** CHANCE.integers(-9, 9, n)
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("kind", ["normal", "positive", "scaled"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (64, 48, 200), (3, 300, 2000)])
def test_right_products_pass_and_a_wrong_element_is_found(dtype, kind, shape):
    a, b = matrices(*shape, dtype, kind)
    bias = CHANCE.standard_normal(shape[1]).astype(dtype)
    for beside in (None, bias):
        got = a @ b if beside is None else a @ b + beside
        assert looked(verify.product, got, [a, b, beside]) == ""
        wrong = got.copy()
        i = tuple(CHANCE.integers(0, s) for s in wrong.shape)
        wrong[i] += dtype(0.3) * np.linalg.norm(a[i[0]].astype(F64)) * np.linalg.norm(b.astype(F64))
        assert f"row {i[0]} is off" in looked(verify.product, wrong, [a, b, beside])
        wrong = np.zeros_like(got)
        assert looked(verify.product, wrong, [a, b, beside])


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
def test_products_behind_an_activation(activation):
    a, b = matrices(40, 30, 20, F32)
    got = ref.gemm(a, b, None, activation).astype(F32)
    assert looked(verify.product, got, [a, b, None], activation=activation) == ""
    assert looked(verify.product, a @ b, [a, b, None], activation=activation)


def test_the_sign_of_one_element_among_many():
    a, b = matrices(256, 256, 256, F32)
    got = a @ b
    at = np.unravel_index(np.argmax(np.abs(got)), got.shape)
    got[at] = -got[at]
    assert "Freivalds" in looked(verify.product, got, [a, b, None])


def test_what_is_not_finite_must_be_where_it_belongs():
    a, b = matrices(20, 30, 10, F32)
    a[3, 4], b[2, 7], b[5, 9] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        got = a @ b
    assert looked(verify.product, got, [a, b, None]) == ""
    for at, value in (((3, 1), 0.0), ((1, 7), 1.0), ((1, 9), np.inf), ((1, 1), np.nan)):
        wrong = got.copy()
        wrong[at] = value
        if at[0] == 3:
            wrong[3] = value
        if at[1] in (7, 9):
            wrong[:, at[1]] = value
        assert looked(verify.product, wrong, [a, b, None]), at


def test_sums_that_leave_the_range_may_be_infinite():
    a = np.full((4, 8), 1e30, F32)
    b = np.full((8, 4), 1e30, F32)
    with np.errstate(all="ignore"):
        assert looked(verify.product, a @ b, [a, b, None]) == ""
    tiny = np.full((4, 4), 1e-30, F32)
    assert looked(verify.product, np.zeros((4, 4), F32), [tiny, tiny, None]) == ""


FORMS = [
    {"padding": 1},
    {"padding": 1, "layout": "NHWC"},
    {"stride": 2, "padding": ((1, 0), (2, 1)), "dilation": (2, 1)},
    {"stride": 2, "padding": 1},
    {"groups": 2, "padding": 1},
]


@pytest.mark.parametrize("form", FORMS)
def test_convolutions(form):
    how = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW", **form}
    nhwc = how["layout"] == "NHWC"
    x = CHANCE.standard_normal((2, 9, 11, 4) if nhwc else (2, 4, 9, 11)).astype(F32)
    w = CHANCE.standard_normal((6, 4 // how["groups"], 3, 3)).astype(F32)
    bias = CHANCE.standard_normal(6).astype(F32)
    shape = geometry(x.shape, w.shape, *how.values())
    before, size, span = shape.pad, shape.size, shape.kernel
    full = tuple(
        (before[i], (size[i] - 1) * shape.stride[i] + (span[i] - 1) * shape.dilation[i] + 1
         - before[i] - (shape.h, shape.w)[i])
        for i in (0, 1)
    )  # fmt: skip
    want = ref.conv2d(
        x, w, bias, stride=shape.stride, padding=tuple((a, max(0, b)) for a, b in full),
        dilation=shape.dilation, groups=shape.groups, layout=how["layout"],
    )  # fmt: skip
    got = want.astype(F32)
    assert got.shape == shape.out_shape
    assert looked(verify.convolution, got, [x, w, bias], shape=shape) == ""
    relu = np.maximum(got, 0)
    assert looked(verify.convolution, relu, [x, w, bias], shape=shape, activation="relu") == ""
    for wrong in (got + F32(0.1), got[::-1], np.zeros_like(got)):
        assert looked(verify.convolution, wrong, [x, w, bias], shape=shape)
    hole = got.copy()
    hole[0, 1, 2, 3] = np.nan
    assert "[" in looked(verify.convolution, hole, [x, w, bias], shape=shape)
    far = x.copy()
    far.reshape(-1)[0] = np.nan  # what Winograd's tiles make of it is nobody's fault
    assert (
        looked(verify.convolution, got, [far, w, bias], shape=shape) in ("",) or not shape.winograd
    )


def tried(expression, **values):
    """(what f32 gives, the arrays, the numbers) of an expression."""
    arrays = {k: v for k, v in values.items() if np.ndim(v)}
    numbers = {k: v for k, v in values.items() if not np.ndim(v)}
    stack = ref.map(expression, **values)
    return stack, arrays, numbers


@pytest.mark.parametrize(
    "expression",
    ["x + y", "relu(a*x + y)", "(x + y) - x", "exp(x*x)", "log(abs(x)) / y", "sin(100*x)",
     "where(x > y, x, 0)", "floor(x*3)", "sqrt(x)", "tanh(x) * sigmoid(y)", "x**2.5", "abs(x)**y",
     "max(x, y) * 1e38", "1/x", "min(x, y) / (x - x)", "((x > 0) + (y > 0)) * x"],
)  # fmt: skip
def test_maps_with_cancellation_jumps_and_infinities(expression):
    x, y = CHANCE.standard_normal((2, 4000)).astype(F32) * F32(3)
    x[::97], y[::89] = np.nan, np.inf
    want, arrays, _ = tried(expression, x=x, y=y, **({"a": 2.5} if "a*" in expression else {}))
    numbers = {"a": 2.5} if "a*" in expression else {}
    names = {"x", "y"} & {name for name in arrays if name in expression}
    given = {name: arrays[name] for name in sorted(names)}
    what = {"expression": expression, "names": list(given), "numbers": numbers}
    with np.errstate(all="ignore"):
        got = want.astype(F32)
        # and as f32 computes it, each step rounded
        plain = dict(given, **numbers, where=np.where, relu=lambda v: np.maximum(v, F32(0)),
                     sigmoid=lambda v: 1 / (1 + np.exp(-v)), max=np.maximum, min=np.minimum,
                     **{n: getattr(np, n) for n in ("exp", "log", "abs", "sin", "floor", "sqrt",
                                                    "tanh")})  # fmt: skip
        stepwise = np.asarray(eval(expression, plain), F32)
    for seed in range(5):
        for result in (got, stepwise):
            said = MAP(result, list(given.values()), np.random.default_rng(seed), **what)
            assert said == ""
    if expression in ("x + y", "relu(a*x + y)", "exp(x*x)", "1/x", "x**2.5"):
        assert looked(MAP, got * F32(1.01) + F32(0.01), list(given.values()), **what)
    assert looked(MAP, np.full_like(got, 7e7), list(given.values()), **what)


def test_maps_of_whole_numbers_are_exact():
    x, y = CHANCE.integers(-(2**31), 2**31, (2, 500), np.int32)
    what = {"expression": "x*y + 3", "names": ["x", "y"], "numbers": {}}
    assert looked(MAP, x * y + np.int32(3), [x, y], **what) == ""
    assert looked(MAP, x * y + np.int32(4), [x, y], **what)
    wide = [v.astype(np.int64) << 31 for v in (x, y)]  # float64 does not have them
    assert looked(MAP, wide[0] * wide[1] + 3, wide, **what) == ""
    what["expression"] = "x*0.5 + y"  # numpy makes float64 of it
    assert looked(MAP, x * 0.5 + y, [x, y], **what) == ""


@pytest.mark.parametrize("whole", [np.uint8(200), np.array(200, np.uint8)])
def test_numbers_among_themselves_compute_in_their_own_types(whole):
    y = np.arange(5, dtype=F32)
    for dtype in (F32, np.int32):  # 3*200 is 88 in uint8
        what = {"expression": "3*x + y", "names": ["y"], "numbers": {"x": whole}}
        assert looked(MAP, y.astype(dtype) + dtype(88), [y.astype(dtype)], **what) == ""
        assert looked(MAP, y.astype(dtype) + dtype(600), [y.astype(dtype)], **what)
    what |= {"op": "sum", "axis": None}
    assert looked(FOLD, np.asarray((y + 88).sum()), [y], **what) == ""
    assert looked(FOLD, np.asarray((y + 600).sum()), [y], **what)
    small = np.full(3, 200, np.uint8), np.full(3, 2**30, np.int32)  # int32 wraps around
    what = {"expression": "x*y", "names": ["x", "y"], "numbers": {}}
    assert looked(MAP, small[0] * small[1], small, **what) == ""


@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
@pytest.mark.parametrize("op", ["sum", "max", "min", "mean"])
@pytest.mark.parametrize("dtype", [F32, F64, np.int32, np.int64, np.uint8])
def test_reductions(op, axis, dtype):
    whole = np.dtype(dtype).kind in "iu"
    if op == "mean" and whole:
        return  # there are none
    a = CHANCE.standard_normal((6, 70, 9)) * 100
    a = (np.minimum(abs(a), 200) if dtype is np.uint8 else a).astype(dtype)
    got = np.asarray(getattr(a, op)(axis))
    assert looked(reduction, got, [a], op=op, axis=axis) == ""
    wrong = got.copy()
    wrong.reshape(-1)[-1] += 40
    assert looked(reduction, wrong, [a], op=op, axis=axis)
    if dtype is F32:
        a[1, 2, 3] = np.nan
        assert looked(reduction, got, [a], op=op, axis=axis)
        assert looked(reduction, getattr(a, op)(axis), [a], op=op, axis=axis) == ""


FOLDS = {
    "x*y": lambda x, y, s: x * y,
    "relu(x*s + y)": lambda x, y, s: np.maximum(x * s + y, 0),
    "exp(x) - abs(y)": lambda x, y, s: np.exp(x) - np.abs(y),
    "(x - y)**2": lambda x, y, s: (x - y) ** 2,
}


def folding(expression, op, axis):
    return {"expression": expression, "names": ["x", "y"], "numbers": {"s": 0.5}, "op": op,
            "axis": axis}  # fmt: skip


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("expression", FOLDS)
@pytest.mark.parametrize("dtype", [F32, F64])
def test_reductions_of_expressions(expression, op, dtype):
    x, y = np.random.default_rng(4).standard_normal((2, 5, 40, 9)).astype(dtype)
    y = np.broadcast_to(y[:1], x.shape)
    plain = FOLDS[expression](x, y, dtype(0.5))
    assert plain.dtype == dtype
    for axis in (None, 0, -1, (0, 2), [1]):
        axes = tuple(axis) if isinstance(axis, list) else axis
        got = np.asarray(getattr(plain, op)(axes))
        what = folding(expression, op, axis)
        assert looked(FOLD, got, [x, y], **what) == ""
        far = np.abs(plain).sum(axes) * 1e-3 / (plain.size / got.size if op == "mean" else 1)
        far = far.astype(dtype) if op in ("sum", "mean") else dtype(1e-2)
        for wrong in (got + far, got - far, np.full_like(got, np.nan)):
            assert "is right" in looked(FOLD, wrong, [x, y], **what)


def test_reductions_of_more_terms_than_fit_a_piece():
    x, y = np.random.default_rng(4).uniform(0, 1, (2, 3 * verify.PIECE + 17)).astype(F32)
    got = np.asarray((x * y).sum())
    assert looked(FOLD, got, [x, y], **folding("x*y", "sum", None)) == ""
    left_out = np.asarray((x * y)[: verify.PIECE].sum())
    assert looked(FOLD, left_out, [x, y], **folding("x*y", "sum", None))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
def test_reductions_of_what_is_not_finite_or_may_go_either_way(op):
    x, y = np.random.default_rng(4).uniform(1, 2, (2, 4, 30)).astype(F32)
    what = folding("x*y", op, 1)
    right = getattr(x * y, op)(1)
    x[1, 2], x[2, 3], x[2, 4] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        got = getattr(x * y, op)(1)
    assert looked(FOLD, got, [x, y], **what) == ""
    if op in ("sum", "mean"):
        assert looked(FOLD, right, [x, y], **what)
    x[1:] = 1
    what = folding("where(x*0.1 < 0.1, 1, 1000) * y", op, 1)
    for either in (0, 1e6):  # nothing can be said of those rows, and of the others it can
        got = np.full(4, either, F32)
        got[0] = getattr(np.where(x[0] * 0.1 < 0.1, 1, 1000) * y[0], op)(0)
        assert looked(FOLD, got, [x, y], **what) == ""
        got[0] *= F32(1.01)
        assert "element 0" in looked(FOLD, got, [x, y], **what)


def test_reductions_of_whole_numbers_are_exact():
    large = CHANCE.integers(-(2**62), 2**62, (40, 50))
    assert looked(reduction, large.sum(0), [large], op="sum", axis=0) == ""
    assert looked(reduction, large.sum(0) + 1, [large], op="sum", axis=0)
    x, y = CHANCE.integers(-(2**31), 2**31, (2, 40, 50), np.int32)
    what = {**folding("x*y + 3", "sum", 0), "numbers": {}}
    got = (x * y + np.int32(3)).sum(0, dtype=np.int64)
    assert looked(FOLD, got, [x, y], **what) == ""
    assert looked(FOLD, got + 1, [x, y], **what)
    wide = [v.astype(np.int64) << 31 for v in (x, y)]  # float64 does not have them
    assert looked(FOLD, (wide[0] * wide[1] + 3).sum(0), wide, **what) == ""
    what["expression"] = "x*0.5 + y"  # numpy makes float64 of it
    assert looked(FOLD, (x * 0.5 + y).sum(0), [x, y], **what) == ""


def test_layouts_to_the_bit():
    x = CHANCE.standard_normal((2, 3, 4, 5)).astype(F32)
    x[0, 0, 0, 0] = np.nan
    got = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    assert looked(verify.layout, got, [x], source="NCHW", target="NHWC") == ""
    got[1, 1, 1, 1] = 0
    assert looked(verify.layout, got, [x], source="NCHW", target="NHWC")


def test_nothing_is_said_where_a_step_may_go_either_way():
    x = np.array([1.0, 2.0, 0.1], F32)
    value, bound = bounds.evaluate(parse("where(x*0.1 < 0.1, 1, 2)"), {"x": x}, F32)
    assert np.isinf(bound[0])
    assert bound[1] < 1e-5
    assert value[1] == 2
    _, bound = bounds.evaluate(parse("exp(x*100)"), {"x": x}, F32)
    assert np.isinf(bound[:2]).all()
    _, bound = bounds.evaluate(parse("x + 1"), {"x": x}, F32)
    assert (bound < 1e-6).all()
