"""Graphs on several devices run in lanes: whatever conflicts is in order, all else runs at once.

When this fails, a graph reads a value before it is written, or runs one task at a time.
"""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from graphkit import executor, grown, matrices, recorder

from sparkle_drv.errors import DeviceLost, KernelFault
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.graph import lanes
from sparkle_drv.sched.graph.place.steps import Bring, Do
from sparkle_drv.sched.graph.run import GraphRun

BOTH = ("cpu", "egl:0")
IN_LANES = 12
"""Runs after which some were not measured task by task."""


@pytest.fixture
def made(opened, monkeypatch):
    return lambda seed=0, uris=BOTH: executor([opened(uri) for uri in uris], monkeypatch, seed)


@pytest.fixture
def programs(monkeypatch):
    """Those that were run."""
    seen, right = [], runner.run

    def run(program, act, **options):
        seen.append(program)
        return right(program, act, **options)

    monkeypatch.setattr(runner, "run", run)
    return seen


def uses(tasks, steps, step):
    """[(key, the step writes it)]: what a step touches."""
    if isinstance(step, Bring):
        from_there = [((step.value.number, step.source), False)] if step.source else []
        return [*from_there, ((step.value.number, step.uri), True)]
    task = tasks[step.task]
    read = [((value.number, step.uri), False) for value in task.reads.values()]
    return [*read, ((task.out.number, step.uri), True)]


def conflict(steps, one, other):
    """Do two uses meet, one of them writing?"""
    (key, writes), (again, rewrites) = one, other
    if not (writes or rewrites):
        return False
    if key == again:
        return True
    if key[1] != again[1] or key not in steps.offsets or again not in steps.offsets:
        return False
    spans = [
        range(steps.offsets[k], steps.offsets[k] + steps.values[k[0]].nbytes) for k in (key, again)
    ]
    return max(s.start for s in spans) < min(s.stop for s in spans)


def before(program):
    """By step, all that have ended, or were begun in its own lane, when it begins."""
    found: list[set[int]] = []
    last: dict = {}
    for step in program.steps:
        direct = {*step.after, *([last[step.lane]] if step.lane in last else [])}
        found.append(direct.union(*(found[n] for n in direct)))
        last[step.lane] = step.number
    return found


@pytest.mark.parametrize("seed", range(12))
def test_whatever_conflicts_is_in_order(made, seed):
    g = recorder(made(seed), fuse=bool(seed % 2))
    with g:
        grown(g, seed, 14)
    g.run()
    tasks, steps = g._run._now.tasks, g._run._now.steps
    program = lanes.program(tasks, steps)
    ordered, touched = before(program), [uses(tasks, steps, step) for step in steps.steps]
    pairs = 0
    for i, j in itertools.combinations(range(len(touched)), 2):
        if any(conflict(steps, a, b) for a in touched[i] for b in touched[j]):
            pairs += 1
            assert i in ordered[j], (steps.steps[i], steps.steps[j])
    assert pairs >= len(tasks) - 1
    g.close()


@pytest.mark.unmeasured
@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_steps_one_by_one(made, programs, seed, monkeypatch):
    def results(seed):
        g = recorder(made(seed))
        with g:
            pairs = grown(g, seed, 12)
        for _ in range(IN_LANES):
            g.run()
        kept = [p for p in pairs if p.node._value.number in g._run.results]
        made_ones = [np.array(p.node.numpy()) for p in kept]
        g.close()
        return made_ones

    in_lanes = results(seed)
    count = len(programs)
    monkeypatch.setattr(GraphRun, "_in_lanes", lambda *_: False)
    one_by_one = results(seed)
    assert len(programs) == count
    for a, b in zip(in_lanes, one_by_one, strict=True):
        np.testing.assert_array_equal(a, b)
    assert count >= IN_LANES // 2 or seed not in (0, 1), "no graph used both devices"


def crossing(executor):
    """Products on egl:0 and maps on the cpu; two chains that know nothing of one another."""
    for to in ((HOST, "egl:0"), ("egl:0", HOST)):
        executor.costs.linked(*to, [(n, 1e-6 + n * 1e-11) for n in (1e3, 1e6)])
    a, b, c = matrices()
    g = recorder(executor)
    with g:
        x = g.gemm(a, b)
        y = g.map("tanh(x)", x=c)
        for _ in range(3):
            x, y = g.gemm(x, b), g.map("tanh(x) + 1", x=y)
        g.output(x, y)
    executor.costs.probed("gemm_f32", "egl:0", [(n, 1e-6 + n * 1e-10) for n in (1e3, 1e6)])
    executor.costs.probed("gemm_f32", "cpu", [(n, 1e-3 + n * 1e-6) for n in (1e3, 1e6)])
    return g


def test_a_chain_does_not_wait_for_another(made, programs, monkeypatch):
    """The way to egl:0 stands still until the cpu has begun all of its tasks."""
    g = crossing(made())
    for _ in range(IN_LANES):
        g.run()
    steps = g._run._now.steps.steps
    on = {uri: sum(isinstance(s, Do) and s.uri == uri for s in steps) for uri in BOTH}
    if not all(on.values()):
        pytest.fail(f"expected tasks on both devices, got {on}")
    left, free, right = [on["cpu"]], threading.Event(), GraphRun._done
    brought = GraphRun._brought

    def done(run, task, step, *more):
        found = right(run, task, step, *more)
        if step.uri == "cpu":
            left[0] -= 1
            if left[0] == 0:
                free.set()
        return found

    def bring(run, step, *more):
        if step.uri == "egl:0":
            assert free.wait(20), "the cpu waited for the way to egl:0"
        return brought(run, step, *more)

    programs.clear()
    monkeypatch.setattr(GraphRun, "_done", done)
    monkeypatch.setattr(GraphRun, "_brought", bring)
    g.run()
    assert programs
    g.close()


def test_a_device_that_fails_in_its_lane_is_left_out(made, programs, monkeypatch):
    executor = made()
    g = crossing(executor)
    for _ in range(IN_LANES):
        g.run()
    want = [np.array(node.numpy()) for node in g.run()]
    right, failed = GraphRun._done, []

    def done(run, task, step, *more):
        if step.uri == "egl:0" and not failed:
            failed.append(threading.current_thread().name)
            raise DeviceLost("egl:0: it was unplugged")
        return right(run, task, step, *more)

    monkeypatch.setattr(GraphRun, "_done", done)
    for got, expected in zip(g.run(), want, strict=True):
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5)
    assert failed == ["sparkle egl:0"]
    assert executor.costs.nodes["egl:0"].lost
    assert not executor.costs.nodes["cpu"].lost
    g.close()


def test_of_two_devices_that_fail_each_has_its_own_error(made, monkeypatch):
    """egl:0 fails first, and the failure of the cpu is the first that the runner knows of."""
    executor = made()
    g = crossing(executor)
    for _ in range(IN_LANES):
        g.run()
    first, second, left = threading.Event(), threading.Event(), set(BOTH)
    done, failed, told = GraphRun._done, runner._ProgramRun._failed, []

    def doing(run, task, step, *more):
        if step.uri not in left:
            return done(run, task, step, *more)
        left.remove(step.uri)
        if step.uri == "egl:0":
            raise DeviceLost("egl:0: it was unplugged")
        assert first.wait(20)
        raise KernelFault("cpu: a wrong address")

    def failing(work, step, error):
        if isinstance(error, DeviceLost):
            first.set()
            assert second.wait(20)
        failed(work, step, error)
        second.set()

    monkeypatch.setattr(GraphRun, "_done", doing)
    monkeypatch.setattr(runner._ProgramRun, "_failed", failing)
    monkeypatch.setattr(executor, "failed", lambda uri, error: told.append((uri, type(error))))
    g.run()
    assert told == [("cpu", KernelFault)]
    g.close()
