"""Fusing: what becomes one task and what does not, that it means the same, and what it moves.

When this fails, a fused graph computes something else.
"""

import graphkit
import numpy as np
import pytest
from graphkit import computed

from sparkle_drv.ops import traced
from sparkle_drv.sched.graph.fuse.fold import folded
from sparkle_drv.sched.graph.fuse.merge import fuse, plain
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.operations.compose import written
from sparkle_drv.sched.operations.traffic import traffic
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.local import LocalExecutor, default_clock

F32 = np.float32


@pytest.fixture
def g():
    return TaskGraph(LocalExecutor([], default_clock()), ())


def arrays(*shapes, seed=1):
    return [
        np.random.default_rng(seed + i).standard_normal(s).astype(F32) for i, s in enumerate(shapes)
    ]


def fused(g, *nodes, plainly=False):
    outputs = frozenset(n._value.number for n in nodes) or frozenset(v.number for v in g._unread())
    if plainly:
        return plain(g._tasks, outputs)
    return fuse(g._tasks, outputs, lambda task: folded(task, g._given) is not None)


def nbytes(tasks):
    return sum(traffic(task, fuses=True).nbytes for task in tasks)


def same(g, tasks, *nodes, tolerance=1e-5):
    want = computed(fused(g, *nodes, plainly=True), g._given)
    got = computed(tasks, g._given)
    for value in (n._value for n in nodes) if nodes else g._unread():
        scale = np.abs(want[value.number]).max() + 1e-30
        assert np.abs(got[value.number] - want[value.number]).max() <= tolerance * scale


def test_a_chain_of_maps_is_one(g):
    (x, y) = arrays((5, 7), (5, 7))
    a = g.map("x*2 + y", x=x, y=y)
    b = g.map("relu(a) - s", a=a, s=F32(0.5))
    g.map("p*p/q", p=b, q=x)
    (task,) = tasks = fused(g)
    assert len(task.reads) == 2
    assert task.made_of == ("x * 2 + y", "relu(a) - s", "p * p / q")
    same(g, tasks)
    assert nbytes(tasks) == 3 * x.nbytes
    assert nbytes(fused(g, plainly=True)) == (3 + 2 + 3) * x.nbytes


def test_what_two_read_and_what_is_an_output_stays(g):
    (x,) = arrays((6,))
    a = g.map("x + 1", x=x)
    b = g.map("a * 2", a=a)
    c = g.map("relu(a)", a=a)
    assert len(fused(g)) == 3
    assert len(fused(g, c)) == 1  # nobody wants b
    tasks = fused(g, a, b)
    assert len(tasks) == 2
    same(g, tasks, a, b)


def test_a_map_that_is_broadcast_is_computed_once(g):
    x, c = arrays((9, 6), (6,))
    small = g.map("exp(c)", c=c)
    g.map("x * s", x=x, s=small)
    assert [task.op for task in fused(g)] == ["map", "map"]


def test_one_that_reads_the_same_twice_is_one_reader(g):
    (x,) = arrays((6,))
    a = g.map("tanh(x)", x=x)
    g.map("a*a + b", a=a, b=a)
    (task,) = tasks = fused(g)
    assert len(task.reads) == 1
    same(g, tasks)


def test_more_arrays_than_a_map_takes_are_two_maps(g):
    x = arrays(*[(4,)] * 10)
    left = g.map("a+b+c+d+e+f", *x[:6])
    g.map("l+a+b+c+d", left, *x[6:])
    tasks = fused(g)
    assert len(tasks) == 2
    same(g, tasks)


def test_traced_functions_and_text_become_the_same(g):
    (x,) = arrays((6,))
    a = g.map(lambda v: v * 2 + 1, x)
    g.map(traced(lambda out: out * out), a)  # a name that ops.map has for something else
    (task,) = tasks = fused(g)
    same(g, tasks)
    h = TaskGraph(g._executor, ())
    h.map("(v*2+1)*(v*2+1)", v=x)
    assert fused(h)[0].expression == task.expression


def chain(g, scale, constant=False, layout="NCHW", big=False):
    """conv + bias + relu + scale, an operation each."""
    side, channels = (4, 64) if big else (32, 16)
    image = (1, channels, side, side) if layout == "NCHW" else (1, side, side, channels)
    each = (channels, 1, 1) if layout == "NCHW" else (channels,)
    x, w, b = arrays(image, (channels, channels, 3, 3), each)
    s = np.abs(arrays(each, seed=9)[0]) + F32(0.1) if scale is None else scale
    if constant:
        w, b, s = (ContextConstant(g._executor, x) for x in (w, b, s))
    y = g.conv2d(x, w, padding=1, layout=layout)
    z = g.map("y + b", y=y, b=b)
    r = g.map("relu(z)", z=z)
    return g.map("r * s", r=r, s=s)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("scale", [None, 0.5, F32(0.3), 3])
def test_a_convolution_takes_bias_relu_and_scale(g, scale, layout):
    chain(g, scale, layout=layout)
    (task,) = tasks = fused(g)
    assert task.options["activation"] == "relu"
    assert len(task.made_of) == 4
    same(g, tasks)
    assert nbytes(fused(g, plainly=True)) >= 2.5 * nbytes(tasks)


@pytest.mark.parametrize("scale", [-0.5, 0, F32(0), np.full((16, 1, 1), -1, F32), float("nan")])
def test_a_scale_that_is_not_positive_stays_behind_the_relu(g, scale):
    chain(g, scale)
    conv, rest = tasks = fused(g)
    assert conv.options["activation"] == "relu"
    assert conv.fold is None
    assert "bias" in conv.reads
    assert conv.made_of == ("conv2d", "relu(x0 + x1)")
    if not np.isnan(scale).any():
        same(g, tasks)
    assert rest.op == "map"


def test_weights_that_are_larger_than_the_result_are_scaled_only_when_they_are_constant(g):
    chain(g, None, big=True)
    assert [task.op for task in fused(g)] == ["conv2d", "map"]
    other = TaskGraph(g._executor, ())
    chain(other, None, big=True, constant=True)
    (task,) = tasks = fused(other)
    assert task.fold.positive
    same(other, tasks)


@pytest.mark.parametrize(
    ("text", "activation", "bias", "scaled", "left"),
    [
        ("y + c", None, True, False, None),
        ("tanh(y + c)", "tanh", True, False, None),
        ("c + sigmoid(y)", "sigmoid", False, False, "x0 + x1"),
        ("(y - c) / d", None, True, True, None),
        ("relu(d*y - c)*0.5", "relu", True, True, None),
        ("max(0, y)", "relu", False, False, None),
        ("relu(c - y)", "relu", True, True, None),
        ("-y", None, False, True, None),
        ("y*y", None, False, False, "whole"),
        ("y*sigmoid(y)", None, False, False, "whole"),
        ("relu(y + x)", None, False, False, "whole"),
        ("relu(y) + x", "relu", False, False, "x0 + x1"),
        ("relu(y + c) * relu(y + c)", "relu", True, False, "x0 * x0"),
        ("tanh(y)*2", "tanh", False, False, "x0 * 2"),
        ("relu(tanh(y))", "tanh", False, False, "relu(x0)"),
        ("relu(y)*2 + 1", "relu", False, False, "x0 * 2 + 1"),
        ("y*(c > 0) + d", None, False, False, "whole"),
        ("exp(y + exp(c)*sqrt(abs(d)))", None, True, False, "exp(x0)"),
        ("y + row", None, False, False, "whole"),
    ],
)
def test_what_a_product_takes_of_a_map(g, text, activation, bias, scaled, left):
    a, b, x, c, d, row = arrays((24, 6), (6, 5), (24, 5), (5,), (1, 5), (24, 1))
    d[:] = np.abs(d) + 0.5
    y = g.gemm(a, b)
    given = {"c": c, "d": d, "x": x, "row": row}
    words = "".join(ch if ch.isalpha() else " " for ch in text).split()
    g.map(text, y=y, **{n: v for n, v in given.items() if n in words})
    product, *rest = tasks = fused(g)
    assert product.options["activation"] == activation
    took_bias = "bias" in product.reads or (
        product.fold is not None and product.fold.shift is not None
    )
    assert took_bias == bias
    assert (product.fold is not None and product.fold.scale is not None) == scaled
    if left == "whole":
        assert rest[0].made_of[0] == written(g._tasks[1].expression)
        assert product.made_of == ("gemm",)
    else:
        assert [written(task.expression) for task in rest] == ([left] if left else [])
    same(g, tasks)


def test_a_product_that_has_bias_and_activation_already(g):
    a, b, c = arrays((24, 6), (6, 5), (5,))
    y = g.gemm(a, b, bias=c)
    g.map("relu(y*2 + 1)", y=y)
    z = g.gemm(a, b, bias=c, activation="relu")
    g.map("z*3", z=z)
    t = g.gemm(a, b, activation="tanh")
    g.map("relu(t + c)", t=t, c=c)
    tasks = fused(g)
    assert [task.op for task in tasks] == ["gemm", "gemm", "gemm", "map"]
    same(g, tasks)


def test_a_bias_that_is_made_in_the_graph_is_taken_as_it_is(g):
    a, b, x = arrays((8, 6), (6, 5), (4, 5))
    c = g.reduce(x, "mean", 0)
    y = g.gemm(a, b)
    g.map("relu(y + c)", y=y, c=c)
    reduction, product = tasks = fused(g)
    assert product.reads["bias"] is reduction.out
    same(g, tasks)
    h = TaskGraph(g._executor, ())
    c = h.reduce(x, "mean", 0)
    h.map("relu(y + c*2)", y=h.gemm(a, b), c=c)  # to compute it beforehand it would have to be here
    assert [task.op for task in fused(h)] == ["reduce", "gemm", "map"]


def test_weights_of_another_type_or_shape_take_nothing(g):
    a, b, c = arrays((6, 6), (6, 6), (6,))
    y = g.gemm(a, b)
    g.map("y + c", y=y, c=c.astype(np.float64))
    z = g.gemm(a, b)
    g.map("z + c", z=z, c=np.zeros((3, 6, 6), F32))
    assert [task.op for task in fused(g)] == ["gemm", "map", "gemm", "map"]


def test_maps_go_into_the_reduction_that_reads_them(g):
    (x, y) = arrays((5, 7), (5, 7))
    a = g.map("x*y", x=x, y=y)
    b = g.map("abs(a)", a=a)
    g.reduce(b, "sum", 1)
    (task,) = tasks = fused(g)
    assert task.op == "reduce"
    assert written(task.expression) == "abs(x0 * x1)"
    same(g, tasks)
    assert traffic(task, fuses=False).nbytes == traffic(task, fuses=True).nbytes + 2 * x.nbytes


@pytest.mark.parametrize("value", [1e38, 1e-38, float("inf")])
def test_weights_that_would_leave_their_range_take_no_scale(g, value):
    a, b = arrays((8, 6), (6, 5))
    b[2, 2] = 1e10 if value == 1e38 else 1e-10
    g.map("y*s", y=g.gemm(a, b), s=value)
    assert [task.op for task in fused(g)] == ["gemm", "map"]


def test_a_bias_that_would_leave_its_range_is_not_computed_beforehand(g):
    a, b, c = arrays((8, 6), (6, 5), (5,))
    c[1] = 3e38
    g.map("y + c + c", y=g.gemm(a, b), c=c)
    product, _ = fused(g)
    assert product.fold is None


def test_what_no_output_needs_is_not_there(g):
    (x,) = arrays((4,))
    a = g.map("x + 1", x=x)
    g.map("a + 1", a=a)
    assert len(fused(g, a)) == 1


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_mean_the_same(g, seed):
    pairs = graphkit.grown(g, seed, 14)
    tasks = fused(g)
    assert len(tasks) < len(g._tasks)
    same(g, tasks)
    assert nbytes(tasks) < nbytes(fused(g, plainly=True))
    got = computed(tasks, g._given)
    for pair in pairs:
        if pair.node._value.number in got:
            np.testing.assert_allclose(
                got[pair.node._value.number], pair.want, rtol=1e-4, atol=1e-4
            )


def test_expressions_in_words(g):
    (x, y) = arrays((4,), (4,))
    for text in ("x - (y - x)", "(x + y) * x ** y", "-(x + y)", "(x ** y) ** x", "x ** (-2.5)",
                 "where(x < y, x / (x * y), 3)", "min(x, y) - x - y"):  # fmt: skip
        node = g.map(text, **{n: v for n, v in {"x": x, "y": y}.items() if n in text})
        assert g._tasks[-1].made_of == (text,)
        assert node.shape == (4,)
    g.map("+".join(["x"] * 60), x=x)
    assert g._tasks[-1].made_of == ("59 operations on x",)
