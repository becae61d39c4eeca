"""Operators of a Context's arrays: numpy's results, and no order of writes changes one.

When this fails, an expression of a Context's arrays gives a stale or wrong result.
"""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.sched.operations.table import EXPRESSION
from sparkle_drv.sched.run import calls

pytestmark = pytest.mark.usefixtures("short_probes")

HOST = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def ctx():
    with sp.init(devices=["cpu", "egl:0"], profile=False, topology="single") as context:
        yield context


def made(ctx, host=HOST, device="auto"):
    return ctx.array(host.shape, host.dtype, device).fill(host)


@pytest.fixture
def maps(ctx, monkeypatch):
    """The graphs of the maps that the arrays ask for."""
    graphs, usual = [], calls.usual

    def note(executor, operation, args, named):
        if operation is EXPRESSION:
            graphs.append(args[0])
        return usual(executor, operation, args, named)

    monkeypatch.setattr(calls, "usual", note)
    return graphs


def test_an_expression_is_one_map_where_it_is_read(ctx, maps):
    x, y = made(ctx), made(ctx, HOST + 1)
    z = np.sin(x) + y * 2
    assert not maps
    assert z.explain() == "one Context.map: (sin(x0) + (x1 * s0)), float32[3, 4]"
    np.testing.assert_allclose(z.numpy(), np.sin(HOST) + (HOST + 1) * 2, 1e-5)
    assert (len(maps), z.explain(), z.places) == (1, "", ("cpu",))
    assert np.asarray(z) is not None
    assert len(maps) == 1


def by_fill(ctx, x):
    x.fill(7)


def by_an_item(ctx, x):
    x[1:] = 7


def in_place(ctx, x):
    x += 1


def by_out(ctx, x):
    ctx.gemm(made(ctx, np.eye(3, dtype="f4")), x, out=x)


def by_a_kernel(ctx, x):
    ctx.dispatch("saxpy_f32", (x, x, 2.0, x.size), groups=1, devices=["cpu"])


def by_its_array(ctx, x):
    x.on("cpu").buffer.write(HOST * 0)
    x.wrote("cpu")


def by_a_graph(ctx, x):
    with ctx.graph() as g:
        g.map("a * 0", a=made(ctx), out=x)
    g.run()


def by_a_mesh(ctx, x):
    with ctx.create_mesh() as mesh:
        mesh.broadcast([x, made(ctx)], root="cpu")


def closed(ctx, x):
    x.close()


WAYS = (by_fill, by_an_item, in_place, by_out, by_a_kernel, by_its_array, by_a_graph, by_a_mesh)
WAYS += (closed,)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_write_changes_an_expression(ctx, way):
    """Who reads it later has what it meant when it was written down."""
    x = made(ctx)
    z = x * 2 + x
    way(ctx, x)
    np.testing.assert_array_equal(z.numpy(), HOST * 3)


def test_random_expressions_and_writes(ctx):
    """Operators, slices, reductions and writes in any order: numpy's types and elements."""
    draw, numbers = random.Random(26), np.random.default_rng(26)
    twins = []

    def fresh():
        dtype = draw.choice(("f4", "f4", "i4", "f8", "i8", "?", "u1", "f2"))
        host = numbers.integers(0, 9, draw.choice(((3, 4), (4,), (3, 1), ()))).astype(dtype)
        twins.append((made(ctx, np.asarray(host)), np.asarray(host)))

    def check(x, host):
        got = np.asarray(x)
        assert (got.dtype, got.shape) == (host.dtype, host.shape)
        np.testing.assert_array_equal(got, host)

    def keep(x, host):
        if np.abs(np.asarray(host, float)).max(initial=0) < 2**20:
            twins.append((x, np.asarray(host)))

    def binary():
        f = draw.choice((operator.add, operator.mul, np.maximum, operator.lt, operator.floordiv))
        (x, a), (y, b) = draw.choice(twins), draw.choice([*twins, (2, 2), (np.float32(3),) * 2])
        try:
            with np.errstate(all="ignore"):
                wanted = f(a, b)
        except ValueError:
            with pytest.raises(ValueError, match="broadcast"):
                f(x, y)
            return
        keep(f(x, y), wanted)

    def view():
        x, a = draw.choice(twins)
        f = draw.choice((lambda v: v.T, lambda v: v.reshape(-1), lambda v: v[..., None]))
        keep(f(x), f(a).copy())

    def reduced():
        (x, a), name = draw.choice(twins), draw.choice(("sum", "max", "any", "argmin"))
        axis = draw.choice((None, *range(a.ndim)))
        keep(getattr(x, name)(axis), getattr(a, name)(axis))

    def write():
        x, a = draw.choice(twins)
        value = a.dtype.type(draw.randrange(5))
        if draw.random() < 0.5:
            x.fill(value)
        else:
            x[...] = value
        a[...] = value

    for _ in range(120):
        draw.choice((fresh, binary, binary, view, reduced, write) if len(twins) > 3 else (fresh,))()
        if len(twins) > 8:
            check(*twins.pop(draw.randrange(8)))
    for twin in twins:
        check(*twin)


def test_products_and_parts(ctx):
    x, y = made(ctx), made(ctx, device="egl:0")
    np.testing.assert_array_equal((x @ y.T).numpy(), HOST @ HOST.T)
    np.testing.assert_array_equal((x @ HOST[0]).numpy(), HOST @ HOST[0])
    np.testing.assert_array_equal((x + y).numpy(), HOST * 2)
    part = x[1:, ::2]
    part[0] = 9
    np.testing.assert_array_equal(x.numpy(), HOST)  # a copy, where numpy has a view
    np.testing.assert_allclose(x.mean(axis=0).numpy(), HOST.mean(axis=0))
    assert (x.sum(), float(x[2, 3]), bool((x > 10).any())) == (HOST.sum(), 11.0, True)
    assert x.astype("i4").dtype == np.int32
    out = made(ctx)
    assert np.add(x, 1, out=out) is out
    np.testing.assert_array_equal(out.numpy(), HOST + 1)


def test_operands_move_while_other_expressions_wait(ctx):
    """The cpu alone has maps of int64. A move that computes what waits would never end."""
    x = made(ctx, HOST.astype(np.int64), "egl:0")
    y, z = x + 1, x * 2
    np.testing.assert_array_equal(z.numpy(), HOST.astype(np.int64) * 2)
    assert (y.explain(), z.places) == ("one Context.map: (x0 + s0), int64[3, 4]", ("cpu",))
    np.testing.assert_array_equal(y.numpy(), HOST.astype(np.int64) + 1)


def test_truths_that_are_computed_are_read_again(ctx):
    with sp.init(devices=["egl:0"], profile=False) as other:
        for context in (ctx, other):  # maps of egl read no truths
            x = made(context)
            large = x > 4
            both = large & (x < 9)
            for got, want in ((large, HOST > 4), (both, (HOST > 4) & (HOST < 9))):
                assert got.numpy().dtype == bool
                np.testing.assert_array_equal(got, want)


def test_what_is_refused(ctx):
    x = made(ctx)
    with sp.init(devices=["cpu"], profile=False) as other, sp.open("cpu") as cpu:
        with pytest.raises(ValueError, match="of another"):
            x + made(other)
        with pytest.raises(TypeError, match="a ContextArray, a numpy array or a number, got Array"):
            x + cpu.array(HOST)
        waits = made(other) + 1
    with pytest.raises(sp.errors.DeviceLost, match="the Context is closed"):
        waits.numpy()
    with pytest.raises(ValueError, match=r"\(3, 4\) and \(3,\)"):
        x + np.ones(3, "f4")
    with pytest.raises(TypeError, match="got str"):
        x * "2"
    with pytest.raises(TypeError, match=r"x\.numpy\(\)"):
        np.linalg.norm(x)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    x.close()
    with pytest.raises(ValueError, match="closed"):
        x + 1


def test_what_nobody_reads_is_not_computed(ctx, maps):
    x = made(ctx)
    z = x + 1
    z.close()
    del z
    x * 2
    x.fill(0)
    assert not maps
    with pytest.raises(ValueError, match="shape"):
        x += np.ones((2, 3, 4), "f4")


@pytest.mark.parametrize("borrow", ["on", "copies"])
def test_a_copy_that_the_caller_has_is_read_at_once(ctx, borrow):
    """The caller may write the copy at any time, before and after `wrote`."""
    x = made(ctx)
    uri = x.places[0]
    copy = x.on(uri) if borrow == "on" else x.copies[uri]
    for value in (5, 7):
        before = x.numpy().copy()
        y, z = x + 1, x + 2
        z += 1
        copy[...] = value
        x.wrote(uri)
        np.testing.assert_array_equal(y.numpy(), before + 1)
        np.testing.assert_array_equal(z.numpy(), before + 3)


def test_what_is_built_during_a_write_is_computed_before_the_next(ctx, monkeypatch):
    """As by another thread: a write that forgets it would change its result."""
    x = made(ctx)
    first, later = x + 1, []
    waiting = x._executor.waiting
    usual = waiting.compute

    def compute(array):
        usual(array)
        later.append(x * 2)

    with monkeypatch.context() as patch:
        patch.setattr(waiting, "compute", compute)
        x[0] = 5
    x[0] = 7
    assert first.numpy()[0].tolist() == (HOST[0] + 1).tolist()
    assert later[0].numpy()[0].tolist() == [10] * 4


def test_a_failure_before_a_write_is_told_to_who_reads(ctx, monkeypatch):
    x = made(ctx)
    z = x + 1
    with monkeypatch.context() as patch:
        patch.setattr(calls, "usual", lambda *_, **__: 1 / 0)
        x.fill(0)
    with pytest.raises(ZeroDivisionError):
        z.numpy()
