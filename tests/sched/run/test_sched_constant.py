"""Constants of a Context: one copy for each device that reads them, in calls and in graphs.

When this fails, constants of a Context are copied at every call, or stale.
"""

import copy
import threading

import numpy as np
import pytest
from agree import agree

import sparkle_drv as sp
from sparkle_drv.ops import ref

pytestmark = pytest.mark.usefixtures("short_probes")

BOTH = ["cpu", "egl:0"]


@pytest.fixture(scope="module")
def ctx():
    with sp.init(BOTH, profile=False) as context:
        yield context


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("uri", BOTH)
def test_every_operation_takes_it_on_every_device(ctx, uri):
    a, b, x, w = normal(1, 20, 30), normal(2, 30, 40), normal(3, 1, 6, 7, 7), normal(4, 8, 6, 3, 3)
    A, B, X, W = (ctx.constant(given) for given in (a, b, x, w))
    image = ref.conv2d(x, w)
    moved = ctx.array(a.shape, a.dtype).fill(a)
    for _ in range(3):
        for found in (ctx.gemm(a, B, devices=[uri]), ctx.gemm(A, b, devices=[uri])):
            assert type(found) is np.ndarray
            agree(found, a @ b)
        agree(ctx.gemm(moved, B, devices=[uri]), a @ b)
        agree(ctx.conv2d(x, W, devices=[uri]), image)
        agree(ctx.conv2d(X, W, devices=[uri]), image)
        agree(
            ctx.map("x*y + s", x=A, y=a, s=ctx.constant(np.array(2, np.float32)), devices=[uri]),
            a * a + 2,
        )
        agree(ctx.map("x*y", x=A, y=moved, devices=[uri]), a * a)
        agree(ctx.reduce(A, devices=[uri]), a.sum())
        agree(ctx.reduce("x*x", x=A, devices=[uri]), (a * a).sum())
        agree(ctx.layout(X, "NHWC", devices=[uri]), x.transpose(0, 2, 3, 1))
    assert B.places == (uri,)
    with ctx.trace("constants"):
        agree(ctx.gemm(a, B, devices=[uri]), a @ b)


def test_it_is_a_copy_and_gives_out_copies(ctx):
    w = normal(1, 30, 40)
    for given in (w, np.asfortranarray(w), w[::-1][::-1], ctx.device.array(w), ctx.constant(w),
                  ctx.array(w.shape, w.dtype).fill(w), sp.ops.constant(ctx.device, w)):  # fmt: skip
        held = ctx.constant(given)
        np.testing.assert_array_equal(held.numpy(), w)
        held.numpy()[:] = 0
        np.asarray(held)[:] = 0
        np.testing.assert_array_equal(held, w)
    held, before = ctx.constant(w), w.copy()
    w[:] = 0
    agree(ctx.gemm(before.T.copy(), held), before.T @ before)
    for name in ("buffer", "address", "__dlpack__", "__array_interface__", "fill"):
        assert not hasattr(held, name), name
    with pytest.raises(TypeError, match=r"use its numpy\(\)"):
        copy.copy(held)
    with pytest.raises(TypeError):
        ctx.constant([1.0])


def test_the_short_way(ctx):
    """Small products with a constant take it, and their results stay right."""
    a, b = normal(1, 16, 16), normal(2, 16, 16)
    held = ctx.constant(b)
    for _ in range(100):
        agree(ctx.gemm(a, held, devices=None), a @ b)


@pytest.mark.parametrize("uris", [["cpu"], ["egl:0"], BOTH], ids="+".join)
@pytest.mark.parametrize("scaled", [False, True])
def test_graphs(ctx, uris, scaled):
    a, b, row = normal(1, 20, 30), normal(2, 30, 40), np.abs(normal(3, 40)) + np.float32(0.1)
    B, R = ctx.constant(b), ctx.constant(row)
    x, w, each = normal(4, 1, 6, 7, 7), normal(5, 8, 6, 3, 3), normal(6, 8, 1, 1)
    W, E = ctx.constant(w), ctx.constant(each)
    with ctx.graph(devices=uris) as g:
        given = g.input(a.shape)
        y = g.map("relu(y)*r" if scaled else "y + r", y=g.gemm(given, B), r=R)
        z = g.map("relu(z + e)", z=g.conv2d(x, W), e=E)
        g.output(y, z)
    image = np.maximum(ref.conv2d(x, w) + each, 0)
    for factor in (1, 2, 1):
        left = a * np.float32(factor)
        made = np.maximum(left @ b, 0) * row if scaled else left @ b + row
        found = g.run({given: left})
        agree(found[0], made)
        agree(found[1], image)
    g.close()
    agree(ctx.gemm(a, B), a @ b)  # a graph that is closed leaves its constants open


def test_an_input_that_is_another_constant_in_each_run(ctx):
    a = normal(1, 20, 30)
    with ctx.graph() as g:
        right = g.input((30, 40))
        g.map("relu(y) * 2", y=g.gemm(a, right))
    for seed in range(4):
        b = normal(seed, 30, 40)
        agree(g.run({right: ctx.constant(b)}), np.maximum(a @ b, 0) * 2)


def test_a_closed_one_and_one_of_another_context_are_refused(ctx):
    a, b = normal(1, 20, 30), normal(2, 30, 40)
    held = ctx.constant(b)
    with ctx.graph() as g:
        g.gemm(a, held)
    g.run()
    ctx.gemm(a, held)
    held.close()
    held.close()
    uses = [
        lambda c, x: c.gemm(a, x), lambda c, x: c.gemm(x, b), lambda c, x: c.map("x", x=x),
        lambda c, x: c.reduce(x), lambda c, x: c.graph().gemm(a, x),
        lambda c, x: c.conv2d(a[None, None], x), lambda c, x: c.layout(x, "NHWC"),
    ]  # fmt: skip
    for use in (*uses, lambda c, x: x.numpy(), lambda c, x: x.on("cpu")):
        with pytest.raises(ValueError, match="closed"):
            use(ctx, held)
    with pytest.raises(ValueError, match="closed"):
        g.run()
    with sp.init(["cpu"], profile=False) as other:
        strange = other.constant(b)
        for use in uses:
            with pytest.raises(ValueError, match="Context"):
                use(ctx, strange)
        with pytest.raises(ValueError, match="expected one of"):
            strange.on("egl:0")
        bound = sp.ops.constant(other.device, b)
        with pytest.raises(ValueError, match="cpu"):
            ctx.gemm(a, bound)
        with pytest.raises(TypeError, match="its Array"):
            sp.ops.gemm(other.device, a, strange)
    with pytest.raises(sp.errors.DeviceLost):
        other.constant(b)
    with pytest.raises(TypeError, match="out"):
        ctx.graph().gemm(a, b, out=ctx.constant(a @ b))


def test_a_constant_of_one_device_is_used_there(ctx):
    a, b = normal(1, 20, 30), normal(2, 30, 40)
    for device in ctx.devices:
        held = sp.ops.constant(device, b)
        agree(ctx.gemm(a, held), a @ b)
        with ctx.graph() as g:
            g.gemm(a, held)
        agree(g.run(), a @ b)


def test_several_threads_make_one_copy(ctx):
    a, b, wrong = normal(1, 20, 300), normal(2, 300, 400), []
    held, at_once, made = ctx.constant(b), threading.Barrier(4), []

    def work():
        at_once.wait(10)
        made.append(held.on("cpu"))
        if not np.allclose(ctx.gemm(a, held), a @ b, atol=1e-3):
            wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong
    assert len(set(map(id, made))) == 1


def test_results_are_looked_at(ctx):
    a, b = normal(1, 20, 30), normal(2, 30, 40)
    with sp.init(["cpu"], profile=False, validate=1.0) as looking:
        held = looking.constant(b)
        out = np.empty((20, 40), np.float32)
        for _ in range(2):
            agree(looking.gemm(a, held, out), a @ b)
            agree(looking.map("x*2", x=held), b * 2)


@pytest.mark.parametrize("uri", BOTH)
def test_one_without_dimensions_is_a_number(ctx, uri):
    x, held = normal(1, 6), ctx.constant(np.array(3, np.float32))
    with ctx.graph(devices=[uri]) as graph:
        made = graph.map("k*x", k=held, x=x)
    for _ in range(2):
        graph.run()
        agree(made.numpy(), 3 * x)
        agree(ctx.map("k*x", k=held, x=x, devices=[uri]), 3 * x)
        agree(ctx.reduce("k*x", k=held, x=x, devices=[uri]), (3 * x).sum())
