"""Writing graphs down: shapes and dtypes are known at once, and what is wrong is told at once.

When this fails, a mistake in a graph shows only when it runs.
"""

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv import ops
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.run.local import LocalExecutor, default_clock

F32 = np.float32
A = np.ones((4, 6), F32)
B = np.ones((6, 5), F32)
X = np.ones((2, 3, 8, 8), F32)
W = np.ones((4, 3, 3, 3), F32)


def new():
    return TaskGraph(LocalExecutor([], default_clock()), ())


def test_what_comes_out_is_known_when_it_is_written_down():
    g = new()
    y = g.gemm(A, B)
    assert (y.shape, y.dtype, y.layout) == ((4, 5), F32, None)
    z = g.conv2d(X, W, stride=2, padding="same", activation="relu")
    assert (z.shape, z.layout, z.nbytes) == ((2, 4, 4, 4), "NCHW", 4 * 128)
    m = g.map("where(z > c, z, 1)", z=z, c=np.ones((4, 1, 1), F32))
    assert (m.shape, m.layout) == ((2, 4, 4, 4), "NCHW")
    n = g.layout(m, "NHWC")
    assert (n.shape, n.layout, n.nbytes) == ((2, 4, 4, 4), "NHWC", m.nbytes)
    k = g.layout(X, "NCHW8c")
    assert (k.shape, k.layout) == ((2, 1, 8, 8, 8), "NCHW8c")
    assert g.conv2d(g.layout(X, "NHWC"), W).layout == "NHWC"
    assert g.conv2d(k, W).layout == "NCHW"
    assert (g.conv2d(k, W, layout="NHWC", padding=1).shape) == (2, 8, 8, 4)
    assert g.map("x*d", x=y, d=np.ones(5)).dtype == np.float64
    assert g.reduce(np.ones((3, 4), np.int32), "sum", 0).dtype == np.int64
    assert g.reduce(m, "max", (1, 2), keepdims=True).shape == (2, 1, 1, 4)
    assert g.reduce("x*y", x=y, y=y).shape == ()
    assert g.reduce(ops.lazy("x*y", y, y), axis=1).shape == (4,)
    assert g.reduce(lambda v: v * 2, v=y, axis=0).shape == (5,)
    assert repr(y) == "<Node 2 float32[4, 5]>"
    assert repr(g) == "<TaskGraph of 17 operations>"


WRONG = [
    (lambda g: g.gemm(A, A), ValueError, r"b: expected shape \(6, 6\) to go with a"),
    (lambda g: g.gemm(A, g.gemm(A, B)), ValueError, r"b: expected shape \(6, 5\)"),
    (lambda g: g.gemm(A, B.astype(np.float64)), TypeError, "b: expected float32, the dtype of a"),
    (lambda g: g.gemm(A, B, bias=np.ones(4, F32)), ValueError, r"bias: expected shape \(5,\)"),
    (lambda g: g.gemm(A, B, activation="gelu"), ValueError, "activation: "),
    (lambda g: g.gemm(A, B, algo="fast"), ValueError, "algo: "),
    (lambda g: g.gemm(A, [[1.0]]), TypeError, "b: expected a numpy array or an Array, got list"),
    (lambda g: g.gemm(np.ma.masked_array(A), B), TypeError, "a: expected an array without a mask"),
    (lambda g: g.conv2d(X, W[:, :2]), ValueError, "w: expected shape .* for 3 channels"),
    (lambda g: g.conv2d(g.conv2d(X, W), W), ValueError, "w: expected shape .* for 4 channels"),
    (lambda g: g.conv2d(X, W, layout="NCDHW"), ValueError, "layout: "),
    (lambda g: g.conv2d(g.conv2d(X, W), np.ones((1, 6, 1, 1), F32), layout="NHWC"),
     ValueError, r"w: expected shape \(1, 4, 1, 1\) for 4 channels"),
    (lambda g: g.conv2d(g.layout(X, "NCHW8c"), np.ones((1, 9, 1, 1), F32)),
     ValueError, "channels: expected 1 to 8"),
    (lambda g: g.conv2d(g.layout(X, "NCHW8c"), W, layout="NCHW8c"), ValueError, "layout: "),
    (lambda g: g.layout(X, "CHWN"), ValueError, "target: "),
    (lambda g: g.layout(X.astype(np.float64), "NHWC"), TypeError, "a: layout takes float32"),
    (lambda g: g.layout(g.conv2d(X, W), "NHWC", source="NHWC"), ValueError, "source: expected"),
    (lambda g: g.layout(X, "NHWC", channels=3), ValueError, "channels: expected an array in a"),
    (lambda g: g.layout(X, "NHWC", out=np.zeros((2, 8, 3, 8), F32)), ValueError, "out: expected"),
    (lambda g: g.layout([1.0], "NHWC"), TypeError, "a: expected a numpy array or an Array"),
    (lambda g: g.gemm(None, B), TypeError, "a: expected a numpy array or an Array, got NoneType"),
    (lambda g: g.conv2d(X, None), TypeError, "w: expected a numpy array or an Array, got NoneT"),
    (lambda g: g.reduce(None), TypeError, "a: expected a numpy array or an Array, got NoneType"),
    (lambda g: g.conv2d(X, W, algo="winograd", stride=3), ValueError, "needs filters of 3 x 3"),
    (lambda g: g.conv2d(X, W, np.ones(3, F32)), ValueError, r"bias: expected shape \(4,\)"),
    (lambda g: g.map("x + y", x=A, y=B), ValueError, "expected shapes that broadcast"),
    (lambda g: g.map("x +", x=A), ValueError, r"\^"),
    (lambda g: g.map("x + y", x=A), TypeError, "y: it stands in the expression and has no value"),
    (lambda g: g.map("x", x=A, z=A), TypeError, "z: the expression has no such name"),
    (lambda g: g.map("s + 1", s=2.0), TypeError, "map: expected at least one array"),
    (lambda g: g.map("x", x=A.astype(np.int8)), TypeError, "x: map takes float32"),
    (lambda g: g.map("x", x="A"), TypeError, "x: expected a numpy array or an Array, got str"),
    (lambda g: g.map("+".join(f"x{i}" for i in range(9)), *[A + i for i in range(9)]),
     ValueError, "expected at most 8 arrays, got 9"),
    (lambda g: g.map("x + y", x=g.conv2d(X, W), y=g.conv2d(
        X.transpose(0, 2, 3, 1), W, layout="NHWC")), ValueError, "expected arrays of one layout"),
    (lambda g: g.reduce(A, "median"), ValueError, "op: "),
    (lambda g: g.reduce(A, "sum", 2), ValueError, "axis: expected -2 to 1"),
    (lambda g: g.reduce(A[:0], "max"), ValueError, "a: max over no elements"),
    (lambda g: g.reduce(A, x=1), TypeError, "x: expected no named operands beside an array"),
    (lambda g: g.reduce("x*2", x=np.ones(3, np.int32), op="mean"), TypeError, "a: mean takes"),
    (lambda g: g.reduce("2", "sum"), TypeError, "reduce: expected at least one array"),
    (lambda g: g.softmax(A), AttributeError, "no operation 'softmax': expected one of gemm"),
    (lambda g: g.gemm(new().gemm(A, B), B), ValueError, "a: expected a node of this graph"),
    (lambda g: g.output(new().gemm(A, B)), ValueError, "output: expected a node of this graph"),
    (lambda g: g.input((2, -1)), ValueError, "expected dimensions of 0 or more"),
    (lambda g: g.input("ab"), TypeError, "shape: expected whole numbers"),
    (lambda g: g.input(3, np.int8), TypeError, "dtype: a graph takes float32"),
    (lambda g: g.input((2, 3), layout="NHWC"), ValueError, "shape: expected 4 dimensions"),
    (lambda g: g.input((2, 3, 4, 5), layout="HWC"), ValueError, "layout: "),
    (lambda g: g.input((1, 2, 3, 3, 4), layout="NCHW8c"), ValueError, "shape .* for NCHW8c"),
    (lambda g: g.gemm(g.input((2, 4)), B), ValueError, r"b: expected shape \(4, 5\)"),
    (lambda g: g.output(g.input(3)), ValueError, "output: expected a result, got an input"),
    (lambda g: g.input(3).numpy(), ValueError, "expected a graph that was run"),
    (lambda g: g.output(A), TypeError, "output: expected a node, got ndarray"),
    (lambda g: g.run(), ValueError, "run: expected at least one operation in the graph, got none"),
    (lambda g: g.gemm(A, B).numpy(), ValueError, "expected a graph that was run"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "kind", "message"), WRONG)
def test_what_is_wrong_is_told_when_it_is_written_down(wrong, kind, message):
    with pytest.raises(kind, match=message):
        wrong(new())


def test_an_out_that_is_read_would_be_a_cycle():
    square, other = np.ones((4, 4), F32), np.ones((4, 4), F32)
    g = new()
    with pytest.raises(ValueError, match=r"out: expected .* no operand of this graph, .* a cycle"):
        g.gemm(square, other, out=square)
    with pytest.raises(ValueError, match="out: expected an array that is no operand of this graph"):
        g.map("x + y", x=square, y=other, out=square[::-1])
    into = np.ones((4, 4), F32)
    y = g.gemm(square, other, out=into)
    with pytest.raises(ValueError, match=r"a: expected an array apart from .* a cycle"):
        g.gemm(into, other)
    with pytest.raises(ValueError, match="out: expected an array of its own, got the out"):
        g.map("y + 1", y=y, out=into)
    with pytest.raises(TypeError, match="out: expected an array, got a node"):
        g.map("y + 1", y=y, out=y)


@pytest.mark.parametrize(
    ("out", "kind", "message"),
    [
        (np.ones((4, 6), F32), ValueError, r"out: expected shape \(4, 5\)"),
        (np.ones((4, 5)), TypeError, "out: expected float32"),
        (np.broadcast_to(F32(1), (4, 5)), ValueError, "out: expected a writable array"),
        ([1], TypeError, "out: expected a numpy array or an Array"),
    ],
)
def test_an_out_that_does_not_suit(out, kind, message):
    with pytest.raises(kind, match=message):
        new().gemm(A, B, out=out)


def test_nothing_is_added_behind_the_block_and_nothing_done_when_closed():
    with new() as g:
        y = g.gemm(A, B)
    with pytest.raises(ValueError, match="the graph is complete"):
        g.map("y", y=y)
    g.close()
    for use in (lambda: g.gemm(A, B), g.run, y.numpy, lambda: g.output(y)):
        with pytest.raises(ValueError, match="closed"):
            use()
    assert repr(g) == "<TaskGraph of closed>"
    with pytest.raises(ZeroDivisionError), new() as broken:
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="closed"):
        broken.gemm(A, B)


def test_a_context_gives_graphs():
    a = np.random.default_rng(1).random((64, 16), F32)
    b = a[:16].copy()
    with sp.init(["cpu"], profile=False) as ctx:
        with ctx.graph() as g:
            y = g.gemm(a, b)
            z = g.map("relu(y) * 2", y=y)
        got = g.run()
        np.testing.assert_allclose(got, 2 * (a @ b), rtol=1e-5)
        assert ctx.last_plan.devices == ("cpu",)
        assert "gemm + relu(y) * 2 on cpu" in ctx.explain_last_plan()
        assert got is z.array
        with pytest.raises(ValueError, match=r"is no output and was not kept: call graph.output"):
            y.numpy()
        ctx.gemm(a, b)
        assert ctx.last_plan.device == "cpu"
        with ctx.graph(fuse=False, devices=["cpu"]) as g:
            y = g.gemm(a, b)
            z = g.map("relu(y) * 2", y=y)
            g.output(y)
        np.testing.assert_allclose(g.run(), a @ b, rtol=1e-5)
        assert len(ctx.last_plan.tasks) == 1
        with pytest.raises(ValueError, match="expected one of cpu"):
            ctx.graph(devices=["egl:0"])
