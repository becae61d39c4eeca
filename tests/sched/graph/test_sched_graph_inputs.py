"""Graphs that are run again on other arrays: the plan stays, and the bits are those of a new graph.
Arrays that are not bound, or differ from what was said, are an error at once.

When this fails, a graph that is run again computes with old arrays.
"""

import graphkit
import numpy as np
import pytest
from graphkit import F32, matrices, values
from graphkit import recorder as graph

from sparkle_drv.sched.graph import run as graph_run
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.run import arrays

BOTH = ("cpu", "egl:0")


@pytest.fixture
def made(opened, monkeypatch):
    """(URIs, seed) -> an executor whose costs are drawn."""
    return lambda uris=BOTH, seed=0: graphkit.executor([opened(u) for u in uris], monkeypatch, seed)


@pytest.fixture
def decided(monkeypatch):
    """How often a graph was placed, in a list."""
    found, real = [], graph_run.decide

    def decide(*args):
        found.append(args)
        return real(*args)

    monkeypatch.setattr(graph_run, "decide", decide)
    return found


def network(g, x, w, image, filters, bias):
    """A bit of everything, of these nodes or arrays."""
    y = g.map("tanh(y*s) + x", y=g.gemm(x, w, activation="relu"), s=0.3, x=x)
    z = g.map("relu(z + b) * 0.5", z=g.conv2d(image, filters, padding=1), b=bias)
    g.output(y, g.reduce(z, "max", (2, 3)), g.reduce("x*x", x=y))


SHAPES = ((9, 9), (9, 9), (2, 4, 6, 6), (4, 4, 3, 3), (4, 1, 1))


def given(seed):
    return [values(np.random.default_rng(seed), *shape) for shape in SHAPES]


def copied(results):
    return [np.array(r) for r in results]


@pytest.mark.parametrize("uris", [("cpu",), ("egl:0",), BOTH], ids="+".join)
@pytest.mark.parametrize("fuse", [True, False])
def test_other_arrays_give_what_a_new_graph_gives_and_the_plan_stays(
    made, decided, monkeypatch, uris, fuse
):
    monkeypatch.setattr(Costs, "ran", lambda *_: None)  # what is learnt would move the new graph
    executor = made(uris, 2)
    with graph(executor, fuse) as g:
        nodes = [g.input(shape) for shape in SHAPES]
        network(g, *nodes)
    first = None
    for seed in range(5):
        host = given(seed)
        got = copied(g.run(dict(zip(nodes, host, strict=True))))
        plan = executor.last
        first = first or plan
        assert plan is first
        assert plan.runs == seed + 1
        again = graph(executor, fuse)
        network(again, *host)
        for mine, other in zip(got, copied(again.run()), strict=True):
            np.testing.assert_array_equal(mine, other)
        again.close()
    assert len(decided) == 1 + 5
    with pytest.raises(AssertionError):  # they are not all the same
        np.testing.assert_array_equal(got[0], copied(g.run({nodes[0]: given(0)[0]}))[0])
    g.close()


def test_an_input_stays_bound_and_is_read_as_it_is_then(made):
    a, b, c = matrices()
    with graph(made()) as g:
        x, y = g.input(a.shape), g.input(a.shape)
        g.map("x - 2*y", x=x, y=y)
    np.testing.assert_array_equal(g.run({x: a, y: b}), a - 2 * b)
    np.testing.assert_array_equal(g.run({y: c}), a - 2 * c)
    a += 1
    np.testing.assert_array_equal(g.run(), a - 2 * c)
    np.testing.assert_array_equal(g.run({x: c}), c - 2 * c)
    g.close()


def test_arrays_of_every_kind_and_in_any_place(made, decided):
    executor = made(BOTH, 3)
    a, b, _ = matrices()
    with graph(executor) as g:
        x = g.input(a.shape)
        g.map("x*0.5", x=g.gemm(x, b))
    want = g.run({x: a})
    count = len(decided)
    fixed = b + 0
    fixed.flags.writeable = False
    for host in (fixed, a[::-1], np.asfortranarray(a)):
        np.testing.assert_allclose(g.run({x: host}), host @ b * 0.5, rtol=1e-5, atol=1e-6)
    assert len(decided) == count
    for uri in BOTH:
        dev = executor.devices[uri]
        for i in range(3):
            one = arrays.empty(executor, dev, a.shape, F32, None).fill(a + i)
            np.testing.assert_allclose(g.run({x: one}), (a + i) @ b * 0.5, rtol=1e-5, atol=1e-6)
        assert len(decided) == count + 1 + (uri == BOTH[1])  # it was not in another place
    for uri in BOTH:
        held = executor.devices[uri].array(a)
        np.testing.assert_allclose(g.run({x: held}), want, rtol=1e-5, atol=1e-6)
    g.close()


def test_weights_that_no_longer_take_their_scale_are_fused_anew(made):
    executor = made(("cpu",))
    chance = np.random.default_rng(3)
    image, filters = values(chance, 1, 4, 32, 32), values(chance, 4, 4, 3, 3)
    with graph(executor) as g:
        scale = g.input((4, 1, 1))
        y = g.map("relu(y)*s", y=g.conv2d(image, filters, padding=1), s=scale)
    good = np.abs(values(chance, 4, 1, 1)) + F32(0.5)
    for s in (good, -good, good):
        got = g.run({scale: s}).numpy()
        again = graph(executor)
        again.map("relu(y)*s", y=again.conv2d(image, filters, padding=1), s=s)
        np.testing.assert_array_equal(got, again.run())
        assert len(executor.last.plan.tasks) == (1 if s is good else 2)
    assert y.array is not None
    g.close()


def test_images_in_a_layout(made):
    executor = made()
    chance = np.random.default_rng(3)
    host, filters = values(chance, 1, 5, 6, 4), values(chance, 3, 4, 3, 3)
    with graph(executor) as g:
        x = g.input(host.shape, layout="NHWC")
        y = g.conv2d(x, filters)
    assert y.layout == "NHWC"
    plain = np.array(g.run({x: host}))
    held = arrays.empty(executor, executor.devices["cpu"], host.shape, F32, "NHWC").fill(host)
    np.testing.assert_allclose(g.run({x: held}), plain, rtol=1e-5, atol=1e-6)
    other = arrays.empty(executor, executor.devices["cpu"], host.shape, F32, "NCHW")
    with pytest.raises(ValueError, match="expected layout NHWC, got an array in NCHW"):
        g.run({x: other})
    g.close()


def test_what_is_bound_wrongly_is_told_before_anything_is_done(made, opened):
    executor = made()
    a, b, _ = matrices()
    out = np.zeros_like(a)
    with graph(executor) as g:
        x, y = g.input(a.shape), g.input(a.shape)
        z = g.gemm(x, y)
        g.map("z + 1", z=z, out=out)
    other = graph(executor).input(a.shape)
    closed = arrays.empty(executor, executor.devices["cpu"], a.shape, F32, None)
    closed.close()
    before = [dev.default_queue.submitted for dev in executor.devices.values()]
    for wrong, error, message in (
        ({}, ValueError, "has no array yet: call run"),
        ({x: a}, ValueError, "<Node 1 .* has no array yet"),
        ({x: a, y: b[:4]}, ValueError, r"input 1: expected shape \(8, 8\) for this input"),
        ({x: a, y: b.astype(np.float64)}, TypeError, "input 1: expected float32"),
        ({x: a, y: b.tolist()}, TypeError, "input 1: expected a numpy array or an Array"),
        ({x: a, y: None}, TypeError, "input 1: expected a numpy array or an Array"),
        ({x: a, y: x}, TypeError, "inputs: expected an array, got the node"),
        ({x: a, y: closed}, ValueError, "expected an open array"),
        ({x: a, y: out}, ValueError, "input 1: expected an array apart from"),
        ({x: a, y: b, z: a}, ValueError, "expected an input of the graph, got the result"),
        ({x: a, y: b, other: a}, ValueError, "expected a node of this graph"),
        ({x: a, y: b, "z": a}, TypeError, "inputs: expected a node, got str"),
        ([a, b], TypeError, "expected a dict of arrays by node"),
    ):
        with pytest.raises(error, match=message):
            g.run(wrong)
    assert [dev.default_queue.submitted for dev in executor.devices.values()] == before
    assert not out.any()
    with pytest.raises(ValueError, match="has no array yet"):  # nothing of it was taken in
        g.run()
    g.run({x: a, y: b})
    np.testing.assert_allclose(out, a @ b + 1, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="shape"):
        g.run({x: a, y: b[:4]})
    np.testing.assert_allclose(g.run(), a @ b + 1, rtol=1e-5, atol=1e-6)
    g.close()
