"""The runner: order, overlap, failures, deadlines, interruptions; and no thread is left.

When this fails, a failed device hangs a collective, or leaves threads behind.
"""

from __future__ import annotations

import _thread
import errno
import itertools
import os
import random
import threading
import time
from dataclasses import replace

import pytest

from sparkle_drv.errors import DeviceLost, FenceTimeout, SparkleError
from sparkle_drv.mesh.lanes import runner
from sparkle_drv.mesh.lanes.program import Lane, Program, Step
from sparkle_drv.mesh.lanes.runner import run

SEEDS = 300 if os.environ.get("SPARKLE_FUZZ_MESH") else 12


class Signal:
    """A fence that somebody sets."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def wait(self, timeout_s):
        if not self.event.wait(timeout_s):
            raise FenceTimeout("not yet")


def drawn(seed: int, lanes: int = 6, steps: int = 40) -> Program:
    chance = random.Random(seed)
    made = []
    for n in range(steps):
        after = chance.sample(range(n), min(n, chance.randrange(4)))
        made.append(Step(n, Lane(f"d{chance.randrange(lanes)}"), f"job {n}", tuple(after)))
    return Program(tuple(made))


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("seed", range(20))
def test_steps_begin_when_what_they_wait_for_has_ended(seed):
    program, order, lock = drawn(seed), [], threading.Lock()

    def act(step):
        with lock:
            assert set(step.after) <= {n for n, ended in order if ended}
            order.append((step.number, False))
        time.sleep(random.random() * 1e-4)
        with lock:
            order.append((step.number, True))

    ran = run(program, act)
    assert [r.step.number for r in ran] == list(range(40))
    for lane in {step.lane for step in program.steps}:
        mine = [r for r in ran if r.step.lane == lane]
        assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(mine))


def test_lanes_run_at_once():
    meet = threading.Barrier(3, timeout=5)
    steps = tuple(Step(n, Lane(f"d{n}"), "meeting") for n in range(3))
    run(Program(steps), lambda step: meet.wait() * 0 or None)


def test_one_lane_needs_no_thread():
    seen = []
    run(Program((Step(0, Lane("d"), "a"), Step(1, Lane("d"), "b"))), lambda step: seen.append(
        threading.current_thread()))  # fmt: skip
    assert seen == [threading.current_thread()] * 2
    assert run(Program(()), seen.append) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_failure_names_its_step_and_leaves_out_what_depends_on_it(seed):
    program, begun = drawn(seed), []
    wrong = random.Random(seed).randrange(40)
    left_out = {wrong}
    for step in program.steps:
        if left_out & set(step.after):
            left_out.add(step.number)

    def act(step):
        begun.append(step.number)
        if step.number == wrong:
            raise DeviceLost("it was unplugged")

    with pytest.raises(DeviceLost, match=rf"step {wrong}, job {wrong}: it was unplugged"):
        run(program, act)
    assert sorted(begun) == sorted({*range(40)} - left_out | {wrong})


def test_a_step_without_an_end_fails_at_its_deadline():
    steps = (
        Step(0, Lane("a"), "hung", deadline_s=0.3),
        Step(1, Lane("b"), "its reader", (0,)),
        Step(2, Lane("c"), "another"),
    )
    begun = []

    def act(step):
        begun.append(step.number)
        return Signal() if step.number == 0 else None

    began = time.monotonic()
    with pytest.raises(FenceTimeout, match=r"step 0, hung: expected the work to end within 0.3 s"):
        run(Program(steps), act)
    assert time.monotonic() - began < 2
    assert sorted(begun) == [0, 2]


def test_an_interrupt_ends_all_lanes():
    steps = (Step(0, Lane("a"), "x"), Step(1, Lane("b"), "y"), Step(2, Lane("c"), "z", (0, 1)))

    def act(step):
        if step.number == 1:
            threading.Timer(0.2, _thread.interrupt_main).start()
        return Signal()

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(Program(steps), act)
    assert time.monotonic() - began < 2
    time.sleep(0.3)  # the timer's thread ends, too


@pytest.mark.parametrize("runs", [False, True])
def test_an_interrupt_while_a_thread_starts_ends_all_lanes(runs, monkeypatch):
    """Thread.start may be interrupted before its thread begins, or after."""
    steps = (Step(0, Lane("a"), "x"), Step(1, Lane("b"), "y", (0,)), Step(2, Lane("c"), "z"))
    start, lanes = threading.Thread.start, Counted()

    def interrupted(thread):
        if not thread.name.startswith("sparkle b"):
            return start(thread)
        if runs:
            start(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        run(Program(steps), lambda step: Signal() if step.number == 0 else None, lanes=lanes)
    deadline = time.monotonic() + 2
    while not set(threading.enumerate()) <= before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert set(threading.enumerate()) <= before
    assert (lanes.running, lanes.least) == (0, 0)


def test_a_fence_that_comes_is_waited_for():
    signal = Signal()
    threading.Timer(0.25, signal.event.set).start()
    steps = (Step(0, Lane("a"), "x"), Step(1, Lane("b"), "y", (0,)))
    ran = run(Program(steps), lambda step: signal if step.number == 0 else None)
    assert ran[0].end_s - ran[0].start_s >= 0.2
    assert ran[1].start_s >= ran[0].end_s
    time.sleep(0.1)


def test_a_deadline_counts_what_it_takes_to_begin():
    def act(step):
        time.sleep(0.2)
        return Signal()

    with pytest.raises(FenceTimeout, match=r"step 0, slow: expected the work to end within 0.1 s"):
        run(Program((Step(0, Lane("a"), "slow", deadline_s=0.1),)), act)


def test_a_file_error_names_its_step_and_keeps_its_number():
    def act(step):
        raise OSError(errno.ENOSPC, "no room", "f")

    with pytest.raises(OSError, match=r"\[Errno 28\] step 0, x: no room: 'f'") as caught:
        run(Program((Step(0, Lane("a"), "x"),)), act)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("lanes", ["a", "ab"])
def test_a_failure_is_raised_whatever_the_callback_does(lanes, caplog):
    def act(step):
        raise DeviceLost("it was unplugged")

    def failed(ran):
        raise ZeroDivisionError

    steps = tuple(Step(n, Lane(name), "x") for n, name in enumerate(lanes))
    with pytest.raises(DeviceLost, match=r"step ., x: it was unplugged"):
        run(Program(steps), act, failed=failed)
    assert caplog.text.count("the callback for its failure raised") == len(lanes)


def test_without_threads_the_error_says_so_and_those_that_began_end(monkeypatch):
    start, lanes = threading.Thread.start, Counted()

    def refused(thread):
        if thread.name.startswith("sparkle c"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    steps = tuple(Step(n, Lane(name), "x") for n, name in enumerate("abcd"))
    with pytest.raises(SparkleError, match="a thread for each of 4 lanes, got: can't start new"):
        run(Program(steps), lambda step: Signal(), lanes=lanes)
    assert (lanes.running, lanes.least) == (0, 0)


def test_a_second_interrupt_leaves_no_thread_either(monkeypatch):
    """One in the wait for the lanes that the first one stopped."""
    steps = tuple(Step(n, Lane(name), "x") for n, name in enumerate("abc"))
    await_, lanes, waits = runner._ProgramRun._await, Counted(), itertools.count(1)

    def interrupted(work, made):
        if next(waits) < 3:
            raise KeyboardInterrupt
        await_(work, made)

    monkeypatch.setattr(runner._ProgramRun, "_await", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(Program(steps), lambda step: Signal(), lanes=lanes)
    assert next(waits) == 4
    assert (lanes.running, lanes.least) == (0, 0)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_interrupts_failures_and_deadlines_at_any_moment(seed):
    """Whatever comes when: steps begin in order, none is left, and the error is one of those."""
    chance = random.Random(seed)
    program, begun, lock = drawn(seed), set(), threading.Lock()
    wrong = {n: chance.choice(["fails", "hangs"]) for n in chance.sample(range(40), 2)}
    delays = [chance.random() * 2e-3 for _ in range(40)]
    steps = tuple(replace(s, deadline_s=0.15) if s.number in wrong else s for s in program.steps)

    def act(step):
        with lock:
            assert set(step.after) <= begun
        time.sleep(delays[step.number])
        if wrong.get(step.number) == "fails":
            raise DeviceLost("it was unplugged")
        with lock:
            begun.add(step.number)
        return Signal() if step.number in wrong else None

    lanes, interrupts, ended = Counted(), seed % 2 == 0, None
    timer = threading.Timer(chance.random() * 0.06, _thread.interrupt_main)
    try:
        if interrupts:
            timer.start()
        try:
            run(Program(steps), act, lanes=lanes)
        except (DeviceLost, FenceTimeout) as error:
            ended = error
        while interrupts:  # it comes after the end
            time.sleep(0.01)
    except KeyboardInterrupt:
        assert interrupts
        timer.join()
    else:
        assert int(str(ended).split()[1].rstrip(",")) in wrong
    assert (lanes.running, lanes.least) == (0, 0)


class Counted:
    """A clock's view of lanes: it may jump only when none runs."""

    def __init__(self) -> None:
        self.lock, self.running, self.most, self.least = threading.Lock(), 0, 0, 0

    def _add(self, n):
        with self.lock:
            self.running += n
            self.most, self.least = max(self.most, self.running), min(self.least, self.running)

    def enter(self, n=1):
        self._add(n)

    def attach(self):
        pass

    def leave(self):
        self._add(-1)

    def waits(self):
        self._add(-1)

    def wakes(self, n=1):
        self._add(n)


@pytest.mark.parametrize("seed", range(20))
def test_a_clock_knows_which_lanes_run(seed):
    lanes, program = Counted(), drawn(seed)
    used = len({step.lane for step in program.steps})
    run(program, lambda step: time.sleep(1e-4), lanes=lanes)
    assert (lanes.running, lanes.least, lanes.most) == (0, 0, used)


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ((Step(1, Lane("d"), "x"),), r"steps\[0\].number: expected 0, got 1"),
        ((Step(0, Lane("d"), "x", (0,)),), "expected step 0 to wait"),
        ((Step(0, Lane("d"), "x"), Step(1, Lane("d"), "y", (2,))), "expected step 1 to wait"),
    ],
)
def test_what_is_no_program_is_refused(steps, says):
    with pytest.raises(ValueError, match=says):
        Program(steps)
