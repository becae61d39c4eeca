"""A device that hangs for ever: its work is done elsewhere, into memory that it does not have. It
gets no work until its queue goes on. A simulated device hangs, real time passes.

When this fails, a device that hangs takes the whole program with it.
"""

from __future__ import annotations

import _thread
import gc
import random
import threading
import time

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.errors import DeviceLost, FenceTimeout
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.run.failures import may_be_redone
from sparkle_drv.testing import sim
from sparkle_drv.testing.faults import Fault, Schedule
from sparkle_drv.testing.simulated import Rate, SimDevice, SimMachine

F32 = np.float32
FAST, SLOW = BOTH = ("sim:fast", "sim:slow")
SIDE = 96
RUNS = 8
"""Of a graph, after which some are not measured task by task."""


@pytest.fixture
def ctx():
    """Two devices; a wait for either may take 0.2 s."""
    devices = {
        uri: SimDevice(uri, {"gemm_f32": Rate(1e-5, rate)}, (1e-5, 1e10))
        for uri, rate in zip(BOTH, (1e10, 6e9), strict=True)
    }
    there = sim.on(SimMachine(devices, random.Random(1)))
    with there, sp.init(list(BOTH), profile=False) as made:
        for device in made.devices:
            device.default_queue.timeout_s = 0.2
        devices = made.devices
        yield made
    for device in devices:
        sim.resume(device)  # else its memory is kept for good
    gc.collect()


def hang(ctx, uri, at=1):
    device = next(d for d in ctx.devices if d.uri == uri)
    return sim.apply(Schedule(0, [Fault("job", at, "hang", recovery="none")]), device)


def matrices(seed=1):
    return np.random.default_rng(seed).standard_normal((2, SIDE, SIDE)).astype(F32) / SIDE**0.5


def right(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


def test_a_call_is_done_elsewhere_and_the_device_left_alone(ctx, caplog):
    a, b = matrices()
    ctx.gemm(a, b)
    assert ctx.last_plan.device == FAST
    notes = ctx._executor.journal = journal.Journal(ctx._executor.costs)
    hung = hang(ctx, FAST)
    for _ in range(3):
        right(ctx.gemm(a, b), a @ b)
        assert ctx.last_plan.device == SLOW
    assert hung.happened == {"hang": 1}
    assert hung.counts["job"] == 1, "a device that hangs was asked again"
    assert "sim:fast: cannot: it hangs: a wait for it timed out" in ctx.explain_last_plan()
    node = ctx._executor.costs.nodes[FAST]
    assert node.reliability.failures > 0
    assert not node.lost
    assert all(stands == now for stands, now in journal.replay(notes.lines))


def test_the_first_call_that_knows_of_nothing_ends(ctx):
    """Its probes hang."""
    a, b = matrices()
    hang(ctx, FAST)
    right(ctx.gemm(a, b), a @ b)
    assert ctx.last_plan.device == SLOW


def test_alone_it_says_what_it_waited_for(ctx):
    a, b = matrices()
    ctx.gemm(a, b, devices=[FAST])
    hang(ctx, FAST)
    for _ in range(2):  # with nobody else it is asked again
        with pytest.raises(FenceTimeout, match=r"sim:fast: value .* was not reached within 0.2 s"):
            ctx.gemm(a, b, devices=[FAST])


def test_what_is_given_as_out_may_still_be_written(ctx):
    a, b = matrices()
    out = np.empty((SIDE, SIDE), F32)
    ctx.gemm(a, b, out)
    hang(ctx, FAST)
    with pytest.raises(FenceTimeout, match="sim:fast"):
        ctx.gemm(a, b, out)
    fresh = np.empty_like(out)
    right(ctx.gemm(a, b, fresh), a @ b)
    assert ctx.last_plan.device == SLOW


def test_memory_of_the_caller_is_not_written_by_another_after_a_timeout(ctx):
    with ctx.devices[0].array(matrices()[0]) as array:
        for out in (array, np.empty(1, F32)):
            assert not may_be_redone(FenceTimeout("not yet"), out)
            assert may_be_redone(DeviceLost("it went"), out)
    assert may_be_redone(FenceTimeout("not yet"), None)


def test_another_device_hangs_while_it_is_asked_who_does(ctx, monkeypatch):
    executor = ctx._executor
    executor.failed(SLOW, FenceTimeout("not yet"))

    def idle(device):
        executor._hung.add(FAST)
        return False

    monkeypatch.setattr(Device, "idle", property(idle))
    assert set(executor.hung((*BOTH, "another"))) == set(BOTH)


@pytest.mark.parametrize("error", [FenceTimeout("not yet"), DeviceLost("it went")])
def test_no_plan_stays_that_was_made_while_a_device_failed(ctx, monkeypatch, error):
    a, b = matrices()
    ctx.gemm(a, b)
    executor = ctx._executor
    ((key, kept),) = executor.plans.items()
    real, told = executor.tell, []

    def tell(call, *args):  # another thread keeps its plan just before it
        told.append(call)
        executor.plans[key] = kept
        real(call, *args)

    monkeypatch.setattr(executor, "tell", tell)
    executor.failed(FAST, error)
    assert "failed" in told
    assert not executor.plans


def test_surveys_and_probes_take_turns(ctx):
    assert ctx._executor.probing is ctx._executor.ways.measuring


def test_an_operand_that_is_there_alone_went_with_it(ctx):
    a, b = matrices()
    x = ctx.array(a.shape, F32, device=FAST).fill(a)
    for _ in range(RUNS):
        y = ctx.gemm(x, b, devices=[FAST])
    y.on(SLOW)  # the way is known
    hang(ctx, FAST)
    y = ctx.gemm(x, b, devices=[FAST])
    with pytest.raises(
        DeviceLost, match="sim:fast: an operand was lost with the device: sim:fast: value"
    ):
        ctx.gemm(y, b, devices=[SLOW])


def joined(ctx):
    """Two chains, and a sum of both: one device waits for the other. (graph, what it gives)"""
    (a, b), (c, d) = matrices(), matrices(2)
    with ctx.graph() as graph:
        x, y = graph.gemm(graph.gemm(a, b), b), graph.gemm(graph.gemm(c, d), d)
        graph.map("x + y", x=x, y=y)
    want = a @ b @ b + c @ d @ d
    right(graph.run().numpy(), want)
    assert set(ctx.last_plan.devices) == set(BOTH)
    return graph, want


@pytest.mark.parametrize("job", [1, 2], ids=["its task", "its transfer"])
@pytest.mark.parametrize("runs", [0, RUNS], ids=["measured", "lanes"])
def test_a_graph_is_done_elsewhere(ctx, runs, job, caplog):
    graph, want = joined(ctx)
    for _ in range(runs):
        right(graph.run().numpy(), want)
    source = ctx.last_plan.moves[0].source
    hung = hang(ctx, source, at=job)
    for _ in range(3):
        right(graph.run().numpy(), want)
        assert source not in ctx.last_plan.devices
    assert hung.happened == {"hang": 1}
    assert f"{source}: the graph runs again on other devices: " in caplog.text
    if runs:
        assert f"bytes from {source} to " in caplog.text  # the step that waited
    graph.close()


def test_a_graph_whose_last_device_hangs_tells_who_reads_the_result(ctx):
    graph, want = joined(ctx)
    for _ in range(RUNS):
        right(graph.run().numpy(), want)
    (move,) = ctx.last_plan.moves
    jobs = hang(ctx, move.to, at=4)  # behind three products
    result = graph.run()
    with pytest.raises(FenceTimeout, match=f"{move.to}: value"):
        result.numpy()
    right(graph.run().numpy(), want)  # what goes there waits for it, and then the graph goes on
    assert ctx.last_plan.devices == (move.source,)
    assert jobs.happened == {"hang": 1}
    graph.close()


@pytest.fixture
def patient(ctx):
    """A device may take a minute, and Ctrl-C comes once `begin` was called; then `ends` looks."""
    before, began = set(threading.enumerate()), []
    timer = threading.Timer(0.5, _thread.interrupt_main)

    def begin():
        for device in ctx.devices:
            device.default_queue.timeout_s = 60.0
        timer.start()
        began.append(time.monotonic())

    yield begin
    assert time.monotonic() - began[0] < 2.5
    timer.join()
    assert set(threading.enumerate()) <= before
    for device in ctx.devices:
        device.default_queue.timeout_s = 0.2


def test_an_interrupt_ends_a_graph_whose_transfer_hangs(ctx, patient):
    """And it uses no memory again that the transfer may fill."""
    graph, want = joined(ctx)
    for _ in range(RUNS):
        right(graph.run().numpy(), want)
    hung = hang(ctx, ctx.last_plan.moves[0].source, at=2)
    arenas = list(graph._run._arenas.values())
    patient()
    with pytest.raises(KeyboardInterrupt):
        graph.run()
    assert hung.happened == {"hang": 1}
    assert arenas
    assert all(arena.closed for arena in arenas)
    graph.close()


def test_an_interrupt_ends_a_graph_whose_operand_does_not_come(ctx, patient):
    a, b = matrices()
    x = ctx.array(a.shape, F32, device=SLOW).fill(a)
    with ctx.graph() as graph:
        one, other = graph.gemm(graph.gemm(x, b), b), graph.gemm(graph.gemm(x, a), a)
        graph.map("x + y", x=one, y=other)
    for _ in range(RUNS):
        x.fill(a)  # the copy on the other device is no longer valid
        right(graph.run().numpy(), a @ b @ b + a @ a @ a)
        assert x.places == BOTH[::-1]
    x.fill(a)
    hung = hang(ctx, SLOW)
    copy = x.copies[SLOW]
    copy.fence = copy.device.queue().submit(Commands().fill(copy.buffer, 0))
    patient()
    with pytest.raises(KeyboardInterrupt):
        graph.run()
    assert hung.happened == {"hang": 1}
    assert x.places == (SLOW,)
    graph.close()
