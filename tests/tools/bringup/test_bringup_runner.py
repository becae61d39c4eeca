"""The runner of a ladder: what blocks what, limits, crashes; on rungs that use no device.

When this fails, one hung rung stops the whole ladder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import gc
import os
import signal
import threading
import time
import weakref

import pytest
from _bringup.causes.matching import Cause
from _bringup.ladder import child, runner
from _bringup.results.rung import Rung, Skip, Unmet, Wrong


class Bench:
    """Notes what is asked of it."""

    def __init__(self):
        self.facts = {"device": "test"}
        self.causes = (Cause("any", "something", "here", weight=-1, next="look at {rung}"),)
        self.calls = []

    def begin(self, rung):
        self.calls.append(f"begin {rung.name}")

    def settle(self):
        self.calls.append("settle")

    def recover(self):
        self.calls.append("recover")

    def abandon(self):
        self.calls.append("abandon")

    def autopsy(self, error):
        return {"dump": {"a": "b"}}

    def close(self):
        self.calls.append("close")


def well(b):
    return "well"


def raising(error):
    def run(b):
        raise error

    return run


def forever(b):
    threading.Event().wait(30)
    return ""


def test_what_stands_on_a_failure_is_blocked():
    rungs = [
        Rung("a", "", well),
        Rung("b", "", raising(Wrong("no", bits=3)), ("a",)),
        Rung("c", "", well, ("b",)),
        Rung("d", "", well, ("c",)),
        Rung("e", "", well, ("a",)),
    ]
    bench = Bench()
    got = list(runner.run_rungs(rungs, bench, timeout_s=5))
    assert [r.status for r in got] == ["PASS", "FAIL", "BLOCKED", "BLOCKED", "PASS"]
    assert got[1].facts == {"bits": 3, "raised": "Wrong", "dump": {"a": "b"}}
    assert got[1].next == "look at b"
    assert "b" in got[2].text
    assert bench.calls == ["begin a", "settle", "begin b", "recover", "begin e", "settle"]


def test_a_skip_blocks_nothing():
    rungs = [Rung("a", "", raising(Skip("not here"))), Rung("b", "", well, ("a",))]
    got = list(runner.run_rungs(rungs, Bench(), timeout_s=5))
    assert [(r.status, r.text) for r in got] == [("SKIP", "not here"), ("PASS", "well")]


def test_a_device_that_is_gone_blocks():
    got = list(runner.run_rungs([Rung("a", "", raising(Unmet("gone")))], Bench(), timeout_s=5))
    assert [(r.status, r.text) for r in got] == [("BLOCKED", "gone")]


def test_a_call_that_does_not_come_back():
    bench = Bench()
    rungs = [Rung("a", "", forever), Rung("b", "", well, limit_s=60)]
    got = list(runner.run_rungs(rungs, bench, timeout_s=0.1))
    assert [r.status for r in got] == ["FAIL", "PASS"]
    assert got[0].facts["hung"]
    assert bench.calls == ["begin a", "abandon", "begin b", "settle"]


def test_a_rung_may_have_a_limit_of_its_own():
    slow = Rung("a", "", lambda b: time.sleep(0.2) or "", limit_s=5)
    assert [r.status for r in runner.run_rungs([slow], Bench(), timeout_s=0.01)] == ["PASS"]


def test_a_dump_that_fails_costs_nothing(monkeypatch):
    bench = Bench()
    monkeypatch.setattr(bench, "autopsy", raising(OSError("no")))
    [got] = runner.run_rungs([Rung("a", "", raising(Wrong("x")))], bench, timeout_s=5)
    assert "no" in got.facts["dump"]["dump"]


def test_a_settling_that_fails_is_the_rungs_failure(monkeypatch):
    bench = Bench()

    def settle():
        raise Wrong("reset")

    monkeypatch.setattr(bench, "settle", settle)
    [got] = runner.run_rungs([Rung("a", "", well)], bench, timeout_s=5)
    assert (got.status, got.text) == ("FAIL", "reset")


def killed(b):
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGBUS)
    time.sleep(10)


def deaf(b):
    """Stuck beyond what a thread can be left behind for: the process says nothing any more."""
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.parametrize(
    ("run", "fact"), [(killed, {"died": "SIGBUS"}), (deaf, {"hung": True})], ids=["bus", "stuck"]
)
def test_a_child_that_ends_costs_one_rung(monkeypatch, run, fact):
    monkeypatch.setattr(child, "GRACE_S", 0.5)
    told = []
    rungs = [Rung("a", "", well, limit_s=60), Rung("b", "", run),
             Rung("c", "", well, ("a",), limit_s=60)]  # fmt: skip
    got = child.run(rungs, Bench, timeout_s=0.5, tell=told.append, facts={})
    assert [r.status for r in got] == ["PASS", "FAIL", "PASS"]
    assert got[1].facts == fact
    assert [dataclasses.asdict(r) for r in told] == [dataclasses.asdict(r) for r in got]


def test_a_child_that_never_begins():
    def no_bench():
        raise OSError("no")

    calls = []

    def make():
        calls.append(1)
        return no_bench() if os.getpid() != parent else Bench()

    parent = os.getpid()
    facts = {}
    rungs = [Rung("a", "", well), Rung("b", "", well)]
    got = child.run(rungs, make, timeout_s=1, tell=lambda r: None, facts=facts)
    assert [(r.status, r.text) for r in got] == [
        ("FAIL", "no"), ("BLOCKED", "not run: no process begins"),
    ]  # fmt: skip
    assert facts["trouble"] == "no"


def test_what_an_errors_frames_hold_goes_without_a_garbage_collection():
    """Collecting views of views in a cycle crashes CPython before 3.12.7."""
    seen = []

    def work():
        held = threading.Event()
        seen.append(weakref.ref(held))
        raise ValueError("no")

    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            runner.bounded(work, 30)
        assert seen[0]() is None
    finally:
        gc.enable()
