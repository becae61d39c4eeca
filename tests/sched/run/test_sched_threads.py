"""Several threads on one Context: what they decided stands in the journal in the order in which it
was decided, so that it replays.

When this fails, a trace of several threads does not replay.
"""

import contextlib
import sys
import threading

import numpy as np
import pytest

import sparkle_drv as sp
from sparkle_drv.sched.journal import journal
from sparkle_drv.sched.run import call_plan, probe, trace_files

F32 = np.float32
SIDES = (8, 12, 16, 24, 33, 40, 57, 64)


@pytest.fixture
def hasty():
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_what_threads_decide_together_replays(hasty):
    wrong = []

    def work(ctx, seed):
        chance = np.random.default_rng(seed)
        try:
            for _ in range(150):
                side = int(chance.choice(SIDES))
                a = chance.standard_normal((side, side)).astype(F32)
                np.testing.assert_allclose(ctx.gemm(a, a), a @ a, rtol=1e-3, atol=1e-3)
        except BaseException as error:
            wrong.append(error)

    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        ctx.gemm(np.ones((8, 8), F32), np.ones((8, 8), F32))  # the probes
        with ctx._executor.deciding:  # late times of earlier calls would change the first costs
            notes = ctx._executor.journal = journal.Journal(ctx._executor.costs)
        threads = [threading.Thread(target=work, args=(ctx, seed)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert not wrong, wrong[0]
    pairs = list(journal.replay(notes.lines))
    assert len(pairs) >= len(SIDES) - 1
    assert all(stands == now for stands, now in pairs)


def test_what_is_told_while_a_trace_begins_stands_in_it(monkeypatch):
    ran = ("gemm_f32", "cpu", 1e6, 1e-3)
    threads = []

    class Journal(journal.Journal):
        def __init__(self, costs):
            super().__init__(costs)
            told = threading.Thread(target=ctx._executor.tell, args=("ran", *ran))
            threads.append(told)
            told.start()
            told.join(0.2)  # here another thread has the turn

    monkeypatch.setattr(trace_files, "Journal", Journal)
    with sp.init(["cpu"], profile=False) as ctx:
        with ctx.trace("beginning") as trace:
            threads[0].join()
        assert sum('"told"' in line for line in trace.journal) == 1
        assert ctx._executor.costs.runs == {"gemm_f32": 1}


def test_a_trace_that_begins_in_the_middle_of_a_call_holds_what_comes_after(monkeypatch):
    """In another thread, that is."""
    a = np.ones((8, 8), F32)
    real, begun = call_plan.kept_plan, contextlib.ExitStack()
    traces = []

    def kept_plan(*args):
        if not traces:
            traces.append(begun.enter_context(ctx.trace("in the middle")))
        return real(*args)

    monkeypatch.setattr(call_plan, "kept_plan", kept_plan)
    with sp.init(["cpu"], profile=False) as ctx, begun:
        ctx.gemm(a, a)
        ctx.gemm(a, a)
    (trace,) = traces
    spans, _ = trace.copies()
    assert spans
    assert all(trace.begin_ns <= span.begin_ns for span in spans)


@pytest.fixture
def held(monkeypatch):
    """(begun, let go on, classes probed): from now on a probe blocks until it may go on."""
    begun, free, probed = threading.Event(), threading.Event(), []
    real = probe.speeds

    def speeds(device, kind, clock):
        probed.append((kind.name, device.uri))
        begun.set()
        assert free.wait(60)
        return real(device, kind, clock)

    def hold():
        monkeypatch.setattr(probe, "speeds", speeds)
        return begun, free, probed

    yield hold
    free.set()


def begun(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_calls_of_known_work_do_not_wait_for_a_probe(held, monkeypatch):
    a, other = np.ones((8, 8), F32), np.ones((8, 8))
    with sp.init(["cpu", "egl:0"], profile=False) as ctx:
        x = ctx.array(a.shape, F32, device="egl:0").fill(a)
        with ctx.graph() as graph:
            graph.gemm(x, a)
        known = {
            "numpy": lambda: ctx.gemm(a, a),
            "another shape": lambda: ctx.gemm(a[:5], a),
            "a ContextArray": lambda: ctx.gemm(x, x).numpy(),
            "a graph": graph.run,
            "a journal": lambda: ctx._executor.tell("ran", "gemm_f32", "cpu", 1e3, 1e-6),
        }
        for call in known.values():
            call()
        with ctx._executor.deciding:  # late times of earlier calls would change the first costs
            notes = ctx._executor.journal = journal.Journal(ctx._executor.costs)
        monkeypatch.setattr(call_plan, "is_busy", lambda *_: True)  # each call is decided anew
        started, free, probed = held()
        threads = [begun(lambda: ctx.gemm(other, other))]
        assert started.wait(60)
        for name, call in known.items():
            ctx._executor.forget()
            one = begun(call)
            one.join(20)
            assert not one.is_alive(), f"{name} waits for a probe of something else"
        threads.append(begun(lambda: ctx.gemm(other, other)))  # what is being measured: it waits
        threads[1].join(0.2)
        assert [thread.is_alive() for thread in threads] == [True, True]
        free.set()
        for thread in threads:
            thread.join(60)
        assert sorted(probed) == sorted(set(probed))  # once
        assert ("gemm_f64", "cpu") in probed
    pairs = list(journal.replay(notes.lines))
    assert len(pairs) >= 5
    assert all(stands == now for stands, now in pairs)
