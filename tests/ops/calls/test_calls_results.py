"""A repeated call has the result, or the error, of the first one.

When this fails, the second call of an operation gives another result or error than the first.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings

import numpy as np
import pytest
from agree import agree
from callkit import CALLS, VIEWS, odd_strides, readonly

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.ops.calls import table

pytestmark = pytest.mark.opens(threads=1)

EACH = pytest.mark.parametrize("name", CALLS)


@pytest.fixture(scope="module")
def fresh():
    """A device without a call table."""
    with sp.open("cpu", threads=1) as device, pytest.MonkeyPatch.context() as patch:
        there = table._there
        patch.setattr(table, "_there", lambda queue: queue._device is not device and there(queue))
        yield device
        assert device._calls is None


def outcome(call, **given):
    """The result with its looks, or the class and the words of what is raised."""
    try:
        made = call(**given)
    except Exception as error:
        return type(error), str(error)
    return type(made), made.dtype, made.shape, made.flags.c_contiguous, made.tobytes()


@EACH
def test_it_is_made_again_in_c(dev, slowly, name):
    call = CALLS[name]
    run, given = call.on(dev), call.operands()
    want = call.result(**given)
    first = run(**given)
    assert len(slowly) == 1
    agree(first, want)
    outs = [None, np.full_like(first, 9)] if call.takes_out else []
    for out in outs:
        run(**given, out=out)
    del slowly[:]
    second = run(**given)
    assert second is not first
    np.testing.assert_array_equal(second, first)
    assert second.flags.owndata
    for out in outs:
        made = run(**given, out=out)
        assert made is out or out is None
        np.testing.assert_array_equal(made, first)
    assert slowly == []


@EACH
def test_operands_are_read_in_each_call(dev, slowly, name):
    call = CALLS[name]
    run, given = call.on(dev), call.operands()
    run(**given)
    del slowly[:]
    for seed in (2, 3):
        for which, x in call.operands(seed).items():
            if which not in call.constants:
                given[which][...] = x  # in place
                agree(run(**given), call.result(**given))
                given[which] = x  # elsewhere
    assert slowly == []


@EACH
@pytest.mark.parametrize("place", range(4))
def test_anything_in_the_place_of_an_operand_or_of_out(dev, fresh, name, place):
    call = CALLS[name]
    known, first, given = call.on(dev), call.on(fresh), call.operands()
    names = [*given, *["out"] * call.takes_out]
    if place >= len(names):
        return
    out = np.asarray(known(**given))
    if call.takes_out:
        given["out"] = out
    known(**given)
    which = names[place]
    for what, view in VIEWS.items():
        if which in call.constants and what in ("None", "a list", "a number", "one element"):
            continue  # none can be made
        changed = given | {which: view(given[which])}
        for _ in range(2):
            before = outcome(first, **changed)
            assert outcome(known, **changed) == before, what
            assert outcome(known, **changed) == before, what
        agree(known(**given), call.result(**{k: x for k, x in given.items() if k != "out"}))


@EACH
def test_out_over_an_operand(dev, fresh, name):
    """At the same place, a few elements further, and with as many bytes between."""
    call = CALLS[name]
    if not call.takes_out:
        return
    known, first, given = call.on(dev), call.on(fresh), call.operands()
    shape, dtype = call.result(**given).shape, call.dtype
    known(**given, out=np.empty(shape, dtype))
    size = int(np.prod(shape))
    for which in set(given) - set(call.constants):
        for shift in (0, 1, given[which].size, -1, -size):
            found = []
            for run in (first, known, known):
                base = np.zeros(3 * max(size, given[which].size), dtype)
                at = base.size // 3
                over = base[at : at + given[which].size].reshape(given[which].shape)
                over[...] = given[which]
                out = base[at + shift : at + shift + size].reshape(shape)
                found.append((outcome(run, **given | {which: over}, out=out), base.tobytes()))
            assert found[1:] == found[:1] * 2


def test_the_same_array_twice(dev):
    for name, (one, two) in {"gemm": "ab", "map": "xy", "map of a function": "xy"}.items():
        call = CALLS[name]
        for order in ((1, 2, 1, 2, 2, 1), (2, 1, 2, 1, 1, 2)):
            run = call.on(dev)
            for distinct in order:
                given = call.operands(distinct)
                if distinct == 1:
                    given[two] = given[one]
                agree(run(**given), call.result(**given))


@EACH
def test_strides_that_mean_nothing(dev, fresh, name):
    call = CALLS[name]
    given = {k: odd_strides(x[:1]) for k, x in call.operands().items()}
    for _ in range(3):
        assert outcome(call.on(dev), **given) == outcome(call.on(fresh), **given)


ONE = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}
EQUALS = [
    1, True, 1.0, [1, 1], (1, 1), np.int64(1), "1", None, 2, [1], (1, 2), ((1, 1), (1, 1)),
    [[1, 1], (1, 1)], (1, True), [1.0, 1], 0, -1, 2**70, ((((1,),),),), [1, [1]], "same", "valid",
]  # fmt: skip
ACTIVATIONS = ["relu", "tanh", "sigmoid", "gelu", None, 1, ["relu"], np.str_("relu")]
ALGOS = ["direct", "im2col", "naive", "winograd", "blocked", "auto", "fast", ["auto"], None]
PARAMETERS = {
    "conv2d": {
        **dict.fromkeys(ONE, EQUALS), "activation": ACTIVATIONS, "algo": ALGOS,
        "layout": ["NHWC", "NCHW", None, 1],
    },
    "gemm": {"activation": ACTIVATIONS, "algo": ALGOS},
    "reduce": {
        "axis": [0, 1, -1, True, 1.0, np.int64(1), [1], (1,), (1, 0), [0, 1], [1, 1], None, "1", 7],
        "keepdims": [True, False, 1, 0, None, ""],
        "op": ["sum", "max", "min", "mean", "Sum", None, ["sum"]],
    },
    "layout": {
        "target": ["NHWC", "NCHW", "NCHW4c", "NCHW8c", "nhwc", None, 3],
        "source": ["NCHW", "NHWC", None, "NCHW4c"],
        "channels": [None, 4, True, 3],
    },
}  # fmt: skip
RUNS = {
    "conv2d": (
        lambda dev, x, **more: ops.conv2d(dev, x, np.ones((4, 4, 3, 3), x.dtype), **ONE | more),
        (4, 4, 6, 6),
    ),
    "gemm": (lambda dev, x, **more: ops.gemm(dev, x, x, **more), (5, 5)),
    "reduce": (lambda dev, x, **more: ops.reduce(dev, x, **more), (5, 7)),
    "layout": (
        lambda dev, x, **more: ops.layout(dev, x, **{"target": "NHWC"} | more), (2, 4, 4, 4)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_parameters(dev, fresh, name):
    """True and 1.0 are not 1, whatever was called before; a list may stand for a tuple."""
    run, shape = RUNS[name]
    x = np.random.default_rng(4).standard_normal(shape, np.float32)
    each = [{which: value} for which, values in PARAMETERS[name].items() for value in values]
    for options in (*each, *reversed(each)):
        before = outcome(run, dev=fresh, x=x, **options)
        assert outcome(run, dev=dev, x=x, **options) == before, options
        assert outcome(run, dev=dev, x=x, **options) == before, options


def test_a_list_stands_for_a_tuple(dev, slowly):
    run, shape = RUNS["conv2d"]
    x = np.ones(shape, np.float32)
    run(dev, x, padding=[[1, 0], (2, 1)], stride=[1, 2])
    del slowly[:]
    for padding in ([[1, 0], [2, 1]], ((1, 0), (2, 1)), ([1, 0], (2, 1))):
        for stride in ([1, 2], (1, 2)):
            run(dev, x, padding=padding, stride=stride)
    assert slowly == []


NUMBERS = [
    2, True, 2.0, np.float32(2), np.float64(2), np.int32(2), np.int64(2), np.bool_(True), -0.0,
    2**31, -(2**31) - 1, 2**40, 2**100, 10**400, 1e39, -1e39, float("inf"), float("nan"),
    np.float64(1e300), np.uint8(2), 1 + 0j, "2", None, np.array(2, np.float32), np.array(2),
    type("Mine", (float,), {})(2),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("text", ["x*a + b", "where(x > a, x, b)", "x + a*b", "x**a - b"])
def test_numbers_of_a_map(dev, fresh, dtype, text):
    x = np.arange(-3, 4).astype(dtype)
    for _ in range(2):
        for a, b in itertools.product(NUMBERS, (1, 1.0, np.float32(1), np.int32(1))):
            with np.errstate(all="ignore"):
                before = outcome(ops.map, dev=fresh, given=(x, a, b), text=text)
                found = outcome(ops.map, dev=dev, given=(x, a, b), text=text)
            assert found == before, (a, b)


@pytest.mark.parametrize("count", [8, 20, 24, 25, 40, 70])
def test_any_number_of_values(dev, count):
    names = {f"n{i}": i for i in range(count)}
    x = np.arange(3, dtype=np.float32)
    for _ in range(3):
        found = ops.map(dev, "x + " + " + ".join(names), x=x, **names)
        agree(found, x + sum(names.values()))


@pytest.mark.parametrize("ndim", [0, 1, 8, 20, 30, 32])
def test_any_number_of_dimensions(dev, ndim):
    x = np.arange(4 if ndim else 1, dtype=np.float32)
    given = {f"x{i}": x.reshape((1,) * (ndim - 1) + (-1,) * (ndim > 0)) for i in range(8)}
    if ndim:
        given = {name: x[..., ::-1] for name, x in given.items()}
    for _ in range(3):
        agree(ops.map(dev, " + ".join(given), **given), sum(given.values()))


def test_more_calls_than_places(dev):
    dev._calls = sp._hot.Table(2)
    for _ in range(2):
        for m, n, k in itertools.product(range(1, 6), repeat=3):
            for _ in range(2):
                assert (ops.gemm(dev, np.full((m, k), 2.0), np.full((k, n), 0.5)) == k).all()


def test_results_of_every_size(dev, slowly):
    """numpy's own memory, and that of former results (recycled.py)."""
    edge = (128 << 10) // 4
    for m, n in ((1, 1), (1, edge), (edge - 1, 1), (181, 182), (0, 4)):
        a, b = np.full((m, 2), 3, np.float32), np.full((2, n), 5, np.float32)
        ops.gemm(dev, a, b)
        del slowly[:]
        got = ops.gemm(dev, a, b)
        assert (got.shape, got.flags.owndata, got.flags.c_contiguous) == ((m, n), True, True)
        assert (got == 30).all()
        assert slowly == []
    with pytest.raises(sp.OutOfDeviceMemory):
        ops.gemm(dev, np.ones((10**6, 1), np.float32), np.ones((1, 10**6), np.float32))


def test_strides_set_in_place_are_noticed(dev):
    x, y = np.arange(16.0).reshape(4, 4), np.ones((4, 4))
    for _ in range(4):
        for _ in range(2):
            agree(ops.gemm(dev, y, x), y @ x)
        with warnings.catch_warnings():  # NumPy 2.4 says that it will not always be possible
            warnings.simplefilter("ignore", DeprecationWarning)
            x.strides = x.strides[::-1]


def test_an_address_that_something_else_has_now(dev):
    """Of a dtype, of an array, of a function, of a constant."""
    x = np.arange(6, dtype=np.float32)
    for i in range(60):
        field = np.dtype(np.float32 if i % 2 else np.float64, metadata={"i": i})
        agree(ops.map(dev, "2*x", x=x.astype(field)), 2 * x)
        made = ops.traced(lambda x, i=i: x + i)
        agree(ops.map(dev, made, x), x + i)
        agree(ops.map(dev, lambda x, i=i: x * i, x), x * i)
        held = ops.constant(dev, np.full((6, 1 + i % 2), i, np.float32))
        agree(ops.gemm(dev, x[None], held), 15 * i)
        agree(ops.map(dev, "".join(["x +", f" {i % 7}"]), x), x + i % 7)


def test_the_signature_says_what_a_call_means():
    names, npositional, defaults = table.meaning(lambda self, a, b=1, *, c=2: None, 1)
    assert (names, npositional, defaults) == (("a", "b", "c"), 2, {"b": 1, "c": 2})
    assert list(inspect.signature(ops.gemm).parameters)[1:4] == ["a", "b", "out"]


def test_read_only_operands_made_writeable(dev, slowly):
    x = readonly(np.ones((4, 4), np.float32))
    ops.gemm(dev, x, x)
    x = x.copy()
    ops.gemm(dev, x, x)
    x[0] = 5
    agree(ops.gemm(dev, x, x), x.copy() @ x)
    assert len(slowly) == 2


def test_a_text_among_the_values_of_a_map_is_no_name(dev):
    x = np.arange(4, dtype=np.float32)
    agree(ops.map(dev, "a*x + b", x, a=2.0, b=1.0), 2 * x + 1)
    for wrong in (("a", "b", x, 2.0, 1.0), ("a", "b", 0, x, 2.0, 1.0)):
        with pytest.raises(TypeError, match="values by position are given, 3 names are left"):
            ops.map(dev, "a*x + b", *wrong)
    with pytest.raises(TypeError, match="2 names are left"):
        ops.map(dev, "a*x + b", "b", x, 1.0, a=2.0)


def test_expressions_that_are_called_as_operations_are(dev):
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    for _ in range(2):
        for name in ("reduce", "layout"):
            agree(ops.map(dev, name, image), image)
            agree(ops.map(dev, name, **{name: image}), image)
        agree(ops.reduce(dev, image), image.sum())
        agree(ops.layout(dev, image, "NHWC"), image.reshape(1, 4, 4, 1))
    with pytest.raises(TypeError):
        ops.map(dev, "reduce", image, "sum", None, out=False)
    with pytest.raises(TypeError, match="op: "):
        ops.reduce(dev, "reduce", 0, image, keepdims=None)


@pytest.mark.parametrize("base", [int, float, np.float32])
def test_a_number_that_shrinks_an_operand_as_it_is_converted(dev, base):
    """Between the look at the arrays and their addresses no code of the caller runs."""
    x, out = np.ones(1 << 20, np.float32), np.empty(1 << 20, np.float32)
    shrinks = []

    class Mine(base):
        def __float__(self):
            for array in shrinks:
                array.resize(1, refcheck=False)
            return 3.0

    for _ in range(2):
        agree(ops.map(dev, "a*x", x, a=Mine(3), out=out), 3)
    shrinks.append(out)
    with contextlib.suppress(ValueError):  # out: its shape is wrong by then
        ops.map(dev, "a*x", x, a=Mine(3), out=out)
    shrinks[:] = [x]
    agree(ops.map(dev, "a*x", x, a=Mine(3)), 3)
