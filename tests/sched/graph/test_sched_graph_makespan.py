"""Two chains on two simulated devices end when the plan predicts, within 2 %.

When this fails, the predicted time of a graph is wrong.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.testing import sim
from sparkle_drv.testing.sim_links import SimLink
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

URIS = ("sim:a", "sim:b")
SIDE, STEPS = 192, 6
LEARN = 8
"""Runs after which nothing is measured task by task any more, for some time."""


def machine(rates, links=False):
    """Two devices of so many operations a second, at 10 GB/s from the host; with `links`, 1 GB/s
    from one to the other.
    """
    made = {
        uri: SimDevice(uri, {"gemm_f32": Rate(1e-5, rate)}, (2e-5, 1e10))
        for uri, rate in zip(URIS, rates, strict=True)
    }
    pairs = {pair: SimLink(1e-5, 1e9) for pair in (URIS, URIS[::-1])} if links else {}
    return SimMachine(made, random.Random(1), links=pairs)


def values(seed=1):
    chance = np.random.default_rng(seed)
    return chance.standard_normal((4, SIDE, SIDE)).astype(np.float32) / SIDE**0.5


def chain(graph, x, weight, steps=STEPS):
    for _ in range(steps):
        x = graph.gemm(x, weight) if graph is not None else x @ weight
    return x


def took(there, ctx, graph, results):
    """(seconds of a run by the machine's clock, what the plan predicted)."""
    for _ in range(LEARN):
        graph.run()
        for device in ctx.devices:
            device.wait_idle()
    begin = there.clock.now_s
    graph.run()
    for device in ctx.devices:
        device.wait_idle()
    end = there.clock.now_s
    assert all(results())
    plan = ctx.last_plan
    assert set(plan.devices) == set(URIS)
    return end - begin, plan.predicted_s


def right(node, want):
    np.testing.assert_allclose(node.numpy(), want, rtol=1e-3, atol=1e-4)
    return True


@pytest.mark.unmeasured
@pytest.mark.parametrize("held", [True, False], ids=["on devices", "numpy"])
@pytest.mark.parametrize("rates", [(1e10, 1e10), (1e10, 8e9)], ids=["equal", "unequal"])
def test_independent_chains_end_as_predicted(rates, held):
    x, y, w, v = values()
    with sim.on(machine(rates)) as there, sp.init([*URIS], profile=False) as ctx:
        given = [x, y, w, v]
        if held:
            places = zip(given, (*URIS, *URIS), strict=True)
            given = [ctx.array(h.shape, h.dtype, device=uri).fill(h) for h, uri in places]
        with ctx.graph() as graph:
            ends = [chain(graph, a, b) for a, b in zip(given[:2], given[2:], strict=True)]
        wants = chain(None, x, w), chain(None, y, v)
        seconds, predicted_s = took(there, ctx, graph, lambda: map(right, ends, wants))
        assert seconds == pytest.approx(predicted_s, rel=0.02)


@pytest.mark.parametrize("links", [False, True], ids=["over the host", "by a link"])
def test_a_chain_that_goes_on_with_what_another_made_ends_as_predicted(links):
    """The second needs what the first one has after half of its steps."""
    x, y, w, v = values()
    with sim.on(machine((1e10, 1e10), links)) as there, sp.init([*URIS], profile=False) as ctx:
        places = zip((x, y, w, v), (*URIS, *URIS), strict=True)
        a, b, p, q = (ctx.array(h.shape, h.dtype, device=uri).fill(h) for h, uri in places)
        with ctx.graph(fuse=False) as graph:
            half = chain(graph, a, p, STEPS // 2)
            ends = [chain(graph, half, p), graph.gemm(chain(graph, b, q), half)]
            ends[1] = chain(graph, ends[1], q, 3)
            graph.output(*ends)
        middle = chain(None, x, w, STEPS // 2)
        wants = chain(None, middle, w), chain(None, chain(None, y, v) @ middle, v, 3)
        seconds, predicted_s = took(there, ctx, graph, lambda: map(right, ends, wants))
        assert ctx.last_plan.moves
        assert seconds == pytest.approx(predicted_s, rel=0.02)
