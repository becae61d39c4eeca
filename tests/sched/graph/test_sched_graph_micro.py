"""Graphs in micro-batches have numpy's results on real devices, however they are cut. A graph that
cannot be cut is an error before anything is measured.

When this fails, a graph in micro-batches gives other results.
"""

from __future__ import annotations

import random

import graphkit
import numpy as np
import pytest
from graphkit import F32, values

import sparkle_drv as sp
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.ops import ref
from sparkle_drv.sched.graph.record import TaskGraph
from sparkle_drv.sched.run import probe
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.constants import ContextConstant

SPREAD = 1
"""A seed of costs with which layers are on several devices."""
URIS = ("cpu:c0", "cpu:c1", "egl:0")


@pytest.fixture
def made(opened, monkeypatch):
    return lambda seed=0: graphkit.executor([opened(uri) for uri in URIS], monkeypatch, seed)


def graph(executor, micro, fuse=True):
    return TaskGraph(executor, URIS, fuse, micro)


class Chain:
    """A random chain of layers over a batch: nodes of `g` and numpy's values, step by step."""

    def __init__(self, executor, g, seed):
        self.executor, self.g = executor, g
        self.draw, self.chance = random.Random(seed), np.random.default_rng(seed)
        self.batch = self.draw.randint(2, 9)
        image = self.draw.random() < 0.6
        self.shape = (self.batch, self.draw.randint(1, 5), 7, 6) if image else (self.batch, 11)
        self.input = self.at = g.input(self.shape)
        self.layers = []
        for _ in range(self.draw.randint(2, 5)):
            self.layers.append(self._image() if len(self.at.shape) == 4 else self._matrix())
        if self.draw.random() < 0.3:
            self.at = g.reduce(self.at, "max", -1)
            self.layers.append(lambda x: x.max(-1))

    def operand(self, *shape):
        host = values(self.chance, *shape)
        kind = self.draw.choice(["numpy", "constant", "held"])
        if kind == "numpy":
            return host, host
        if kind == "constant":
            return host, ContextConstant(self.executor, host)
        device = self.executor.devices[self.draw.choice(URIS)]
        return host, ContextArray(self.executor, device.uri, device.array(host))

    def _image(self):
        c = self.at.shape[1]
        kind = self.draw.choice(["conv", "conv", "map", "mean", "whole"])
        if kind == "conv":
            (w, there), (b, bias) = self.operand(self.draw.randint(1, 6), c, 3, 3), (None, None)
            if self.draw.random() < 0.5:
                b, bias = self.operand(len(w))
            self.at = self.g.conv2d(self.at, there, bias, padding=1, activation="relu")
            pad = ((1, 1), (1, 1))
            return lambda x: ref.conv2d(x, w, b, padding=pad, activation="relu")
        if kind == "mean":
            self.at = self.g.reduce(self.at, "mean", (2, 3))
            return lambda x: x.mean((2, 3))
        return self._map(kind, (c, 1, 1))

    def _matrix(self):
        kind = self.draw.choice(["gemm", "gemm", "map", "column", "whole"])
        if kind == "gemm":
            w, there = self.operand(self.at.shape[1], self.draw.randint(3, 13))
            made = w
            if self.draw.random() < 0.3:  # weights are made in the graph, once for all parts
                there, made = self.g.map("w * 2 - 1", w=there), w * 2 - 1
            self.at = self.g.gemm(self.at, there, activation="tanh")
            return lambda x: np.tanh(x @ made)
        return self._map(kind, (self.batch, 1) if kind == "column" else (self.at.shape[1],))

    def _map(self, kind, broadcast):
        s, there = self.operand(*(self.at.shape if kind == "whole" else broadcast))
        self.at = self.g.map("tanh(x * s) + x", x=self.at, s=there)
        return lambda x: np.tanh(x * s) + x

    def want(self, x):
        found = x.astype(np.float64)
        for layer in self.layers:
            found = layer(found)
        return found

    def draws(self):
        """The input of a run: numpy's, or held by a device."""
        host, given = values(self.chance, *self.shape), None
        if self.draw.random() < 0.5:
            device = self.executor.devices[self.draw.choice(URIS)]
            array = device.array(host)
            given = array if self.draw.random() < 0.5 else None
            if given is None:
                given = ContextArray(self.executor, device.uri, array)
        return host, host if given is None else given


@pytest.mark.unmeasured
@pytest.mark.parametrize("part", range(3))
def test_random_chains_give_numpys_results(made, part):
    several = 0
    for seed in range(10 * part, 10 * part + 10):
        executor = made(seed)
        g = graph(executor, 1, fuse=bool(seed % 3))
        with g:
            chain = Chain(executor, g, seed)
        g._micro = count = chain.draw.choice([2, chain.batch, chain.draw.randint(2, chain.batch)])
        for _ in range(3):
            host, given = chain.draws()
            result = g.run({chain.input: given})
            assert result.shape == chain.at.shape
            np.testing.assert_allclose(
                result.numpy(), chain.want(host), 2e-4, 2e-4, err_msg=f"seed {seed}"
            )
        plan = executor.last.so_far
        assert plan.micro.count == count
        homes = dict(zip(plan.micro.layers, plan.tasks, strict=True))
        for layer, task in zip(plan.micro.layers, plan.tasks, strict=True):
            assert task.device == homes[layer].device
        several += len(plan.devices) > 1
        g.close()
    assert several >= 2


def network(g, x, w, v):
    y = g.gemm(x, w, activation="relu")
    return g.map("a + b", a=g.gemm(y, v), b=y), g.reduce(y, "sum", 1)


@pytest.mark.parametrize("micro", [3, 7])
def test_runs_in_lanes_and_measured_ones_give_the_same(made, micro, monkeypatch):
    """The seventh run and others are not measured: devices then go on beside one another."""
    ran, right = [], runner.run
    monkeypatch.setattr(runner, "run", lambda *a, **k: ran.append(a) or right(*a, **k))
    rng, executor = np.random.default_rng(4), made(SPREAD)
    w, v = (values(rng, 9, 9) / 3 for _ in range(2))
    g = graph(executor, micro, fuse=False)
    with g:
        x = g.input((7, 9))
        g.output(*network(g, x, w, v))
    for _ in range(14):
        host = values(rng, 7, 9)
        y = np.maximum(host @ w, 0)
        for got, want in zip(g.run({x: host}), (y @ v + y, y.sum(1)), strict=True):
            np.testing.assert_allclose(got.numpy(), want, 1e-4, 1e-5)
    assert len(ran) >= 5
    g.close()


@pytest.mark.parametrize("kind", ["numpy", "context", "cpu:c1", "egl:0"])
def test_an_out_is_filled_part_by_part(made, kind):
    rng, executor = np.random.default_rng(5), made(2)
    a, w = values(rng, 7, 5), values(rng, 5, 3)
    out = np.zeros((7, 3), F32)
    if kind != "numpy":
        device = executor.devices[kind if ":" in kind else "cpu:c0"]
        out = device.array(out)
        out = ContextArray(executor, device.uri, out) if kind == "context" else out
    with graph(executor, 4) as g:
        node = g.gemm(a, w, out=out)
    for _ in range(2):
        g.run()
        np.testing.assert_allclose(np.asarray(out), a @ w, 1e-4, 1e-5)
        np.testing.assert_allclose(node.numpy(), a @ w, 1e-4, 1e-5)
        np.multiply(a, 2, out=a)
    g.close()


def test_one_micro_batch_is_the_graph_as_it_is(made):
    executor = made()
    a, w = values(np.random.default_rng(6), 6, 6), values(np.random.default_rng(7), 6, 6)
    plans = []
    for options in ({}, {"micro_batches": 1}):
        with TaskGraph(executor, URIS, **options) as g:
            g.map("tanh(y)", y=g.gemm(a, w))
        g.run()
        plans.append(executor.last.plan)
        g.close()
    assert plans[0] == plans[1]
    assert plans[0].micro is None


def test_the_plan_in_words_and_a_trace_know_micro_batches(tmp_path):
    rng = np.random.default_rng(8)
    a, w = values(rng, 8, 16), values(rng, 16, 16)
    with sp.init(list(URIS), profile=False) as ctx:
        with ctx.graph(micro_batches=4, fuse=False) as g:
            node = g.map("tanh(y)", y=g.gemm(a, w))
        with ctx.trace("parts"):
            g.run()
        np.testing.assert_allclose(node.numpy(), np.tanh(a @ w), 1e-4, 1e-5)
        text, plan = ctx.explain_last_plan(), ctx.last_plan
        path = tmp_path / "t.json"
        ctx.save_trace(path)
        assert all(one.same for one in sp.replay(path))
        done = [s for s in ctx._traces[0].spans if s.track[1] == "compute"]
        assert [s.name for s in done].count("gemm") == 4
    assert "8 tasks" in text
    assert "4 micro-batches of a batch of 8" in text
    assert "stage 1, " in text
    assert plan.micro.bound_s <= plan.predicted_s
    assert plan.gap >= 0
    assert f"{plan.gap:.1%} above" in text


@pytest.mark.parametrize("wrong", [0, -1, True, False, 1.5, None, "all", "AUTO", [2]])
def test_other_words_are_typed_errors(wrong):
    with sp.init(["cpu"], profile=False) as ctx:
        kind = ValueError if isinstance(wrong, str) or wrong in (0, -1) else TypeError
        kind = TypeError if isinstance(wrong, bool) else kind
        with pytest.raises(kind, match="micro_batches"):
            ctx.graph(micro_batches=wrong)


@pytest.mark.parametrize(
    ("why", "build"),
    [
        ("expected axis 0, the batch, to stay", lambda g, x, w: g.reduce(g.gemm(x, w), "sum", 0)),
        ("expected axis 0, the batch, to stay", lambda g, x, w: g.reduce(x, "max")),
        (r"\(gemm\): every part reads all of b, which depends",
         lambda g, x, w: g.gemm(g.gemm(x, w), g.map("x*2", x=x))),
        (r"task 0 \(gemm\): every part reads all of b", lambda g, x, w: g.gemm(x, x)),
        ("the same axis 0 of all arrays, got",
         lambda g, x, w: (g.gemm(x, w), g.map("y + 1", y=np.ones(4, F32)))),
        ("at most 6, the batch of this graph, got 9", lambda g, x, w: g.gemm(x, w)),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_refused_before_anything_is_measured(opened, why, build, monkeypatch):
    executor = graphkit.executor([opened(uri) for uri in URIS], monkeypatch)
    monkeypatch.setattr(probe, "speeds", lambda *_: pytest.fail("something was measured"))
    rng = np.random.default_rng(9)
    with graph(executor, 9 if "at most" in why else 2) as g:
        build(g, values(rng, 6, 6), values(rng, 6, 6))
    with pytest.raises(ValueError, match=f"micro_batches: .*{why}"):
        g.run()
    g.close()
