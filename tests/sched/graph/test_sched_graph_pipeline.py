"""A chain of layers on three simulated devices, as a pipeline of micro-batches. It ends within 3 %
of the plan, and with 16 of them near the bound.

When this fails, a pipeline over several devices is slower than planned.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.testing import sim
from sparkle_drv.testing.sim_links import SimLink
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

URIS = ("sim:a", "sim:b", "sim:c")
ROWS, SIDE = 128, 128
LEARN = 8
"""Runs after which nothing is measured task by task any more, for some time."""


def machine(rates, links):
    made = {
        uri: SimDevice(uri, {"gemm_f32": Rate(5e-6, rate)}, (1e-5, 1e10))
        for uri, rate in zip(URIS, rates, strict=True)
    }
    pairs = {(a, b): SimLink(1e-5, 1e9) for a in URIS for b in URIS if a != b and links}
    return SimMachine(made, random.Random(1), links=pairs)


def took(micro, layers, rates, links=True, held=True, rows=ROWS):
    """(seconds of a run by the machine's clock, the plan)."""
    chance = np.random.default_rng(1)
    x = chance.standard_normal((rows, SIDE)).astype(np.float32)
    ws = [chance.standard_normal((SIDE, SIDE)).astype(np.float32) / SIDE**0.5] * layers
    want = x  # of the first run; later ones are given a multiple
    for w in ws:
        want = want @ w
    with sim.on(machine(rates, links)) as there, sp.init([*URIS], profile=False) as ctx:
        with ctx.graph(micro_batches=micro, fuse=False) as g:
            y = given = g.input(x.shape)
            for w in ws:
                y = g.gemm(y, ctx.constant(w))
        for scale in range(1, LEARN + 2):
            begin = there.clock.now_s
            held_x = ctx.array(x.shape, x.dtype, device=URIS[0]).fill(x * scale) if held else None
            begin = there.clock.now_s
            g.run({given: x * scale if held_x is None else held_x})
            for device in ctx.devices:
                device.wait_idle()
            seconds = there.clock.now_s - begin
            np.testing.assert_allclose(y.numpy(), want * scale, rtol=1e-3, atol=1e-2)
        return seconds, ctx.last_plan


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("layers", "rates", "links", "held"),
    [
        (3, (1e8, 1e8, 1e8), True, True),
        (4, (1e8, 1e8, 2e8), True, False),
        (6, (1e8, 1e8, 1e8), False, True),
        (5, (1e8, 1.5e8, 0.7e8), False, False),
    ],
)
def test_a_pipeline_ends_as_predicted_and_near_the_bound(layers, rates, links, held):
    seconds, plan = took(16, layers, rates, links, held)
    assert seconds == pytest.approx(plan.predicted_s, rel=0.03)
    assert plan.micro.bound_s <= seconds <= 1.15 * plan.micro.bound_s
    whole_s, _ = took(1, layers, rates, links, held)
    assert plan.micro.bound_s < whole_s
    assert seconds < 0.7 * whole_s


def test_auto_takes_what_is_predicted_to_take_least():
    seconds, plan = took("auto", 3, (1e8, 1e8, 1e8))
    assert seconds == pytest.approx(plan.predicted_s, rel=0.03)
    assert plan.micro.count == 64 == min(plan.micro.predicted_s, key=plan.micro.predicted_s.get)
    assert seconds <= 1.05 * plan.micro.bound_s
    assert all(plan.micro.bound_s <= s for s in plan.micro.predicted_s.values())


def test_an_uneven_batch_ends_as_predicted():
    micro = 3
    seconds, plan = took(micro, 3, (1e8, 1e8, 1e8), rows=100)
    assert plan.micro.count == micro
    assert seconds == pytest.approx(plan.predicted_s, rel=0.03)


def test_a_batch_too_small_to_be_worth_it_stays_whole():
    """Two rows of 16 numbers: a launch takes longer than all of them."""
    seconds, plan = took("auto", 3, (1e12, 1e12, 1e12), rows=2)
    assert plan.micro.count == 1
    assert plan.micro.predicted_s[1] < plan.micro.predicted_s[2]
    assert seconds == pytest.approx(plan.predicted_s, rel=0.03)
