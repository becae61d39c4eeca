"""An operand that has copies on several devices: a bad copy leads to the next one.

When this fails, an operand is lost although another device has a copy.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.commands import Commands
from sparkle_drv.errors import FenceTimeout
from sparkle_drv.mesh.lanes.transports import NoWay, Way
from sparkle_drv.sched.run import ways
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
NEAR, FAR, TO = URIS = ("sim:near", "sim:far", "sim:to")
A = np.random.default_rng(3).standard_normal((16, 16)).astype(F32)


@pytest.fixture
def ctx():
    devices = {
        uri: SimDevice(uri, {"gemm_f32": Rate(1e-6, 1e9)}, (latency_s, 1e9))
        for uri, latency_s in zip(URIS, (1e-5, 3e-5, 1e-5), strict=True)
    }
    there = sim.on(SimMachine(devices, random.Random(1)))
    with there, sp.init(list(URIS), profile=False) as made:
        x = made.array(A.shape, F32, device=NEAR).fill(A)  # the probes
        made.gemm(x, A, devices=[TO])
        yield made


def both(ctx):
    """On NEAR and FAR."""
    x = ctx.array(A.shape, F32, device=NEAR).fill(A)
    x.on(FAR)
    return x


def failures(ctx):
    return {uri: ctx._executor.costs.nodes[uri].reliability.failures for uri in URIS}


def test_a_copy_that_comes_late_writes_nothing_that_is_used(ctx, monkeypatch):
    x, late, real = both(ctx), [], ways.fill

    def fill(there, made, source, asks, wait):
        if not late:
            late.append(made)
            asks(source.device.uri)
            raise FenceTimeout("not yet")
        real(there, made, source, asks, wait)

    monkeypatch.setattr(ways, "fill", fill)
    got = x.on(TO)
    late[0].device.default_queue.write(late[0].buffer, np.zeros(A.nbytes, np.uint8)).wait()
    np.testing.assert_array_equal(got.numpy(), A)
    assert failures(ctx)[NEAR] > 0


def blocked(monkeypatch, *sources):
    real = Way.transport

    def transport(way):
        if way.to.uri == TO and way.source.uri in sources:
            raise NoWay(f"{way.source.uri} to {TO}: none")
        return real(way)

    monkeypatch.setattr(Way, "transport", transport)


def test_without_a_transport_the_next_copy_goes_and_nobody_is_to_blame(ctx, monkeypatch):
    x, before = both(ctx), failures(ctx)
    blocked(monkeypatch, NEAR)
    np.testing.assert_array_equal(x.on(TO).numpy(), A)
    assert failures(ctx) == before


def test_without_any_transport_it_says_why(ctx, monkeypatch):
    x, before = both(ctx), failures(ctx)
    blocked(monkeypatch, NEAR, FAR)
    with pytest.raises(NoWay, match="sim:near to sim:to: none; sim:far to sim:to: none"):
        x.on(TO)
    assert failures(ctx) == before


def test_a_copy_that_its_device_failed_to_write_is_not_the_last(ctx):
    x = both(ctx)
    near = x.copies[NEAR]
    sim.apply(Schedule(0, [Fault("job", 1, "pagefault")]), near.device)
    near.fence = near.device.default_queue.submit(Commands().fill(near.buffer, 0))
    before = failures(ctx)
    np.testing.assert_array_equal(x.on(TO).numpy(), A)
    after = failures(ctx)
    assert after[NEAR] > before[NEAR]
    assert (after[FAR], after[TO]) == (before[FAR], before[TO])


@pytest.mark.parametrize("limits_s", [(3.0, 20.0), (20.0, 3.0)], ids=["to", "source"])
def test_a_transfer_may_take_as_long_as_the_slower_device(ctx, limits_s):
    x, waits = both(ctx).copies[NEAR], []
    x.fence = x.device.default_queue.submit(Commands().fill(x.buffer, 0))
    made = next(d for d in ctx.devices if d.uri == TO).empty(A.shape, F32)
    for array, limit_s in zip((x, made), limits_s, strict=True):
        array.device.default_queue.timeout_s = limit_s

    def wait(begun, timeout_s):
        waits.append(timeout_s)
        begun.wait(timeout_s)

    ways.fill(ctx._executor.ways, made, x, wait=wait)
    assert waits == [limits_s[0], 20.0]
    np.testing.assert_array_equal(made.numpy(), np.zeros(A.shape, F32))
