"""Runs a program: one thread for each lane, which starts its steps in order and waits for each.

A lane is a device's queue or one direction of a link (program.py). Its thread waits in fences,
which release the GIL. A step starts when all steps that it waits for have ended without error. The
first failure is raised at the end and names its step. Steps that depend on a failed step are left
out, all others run. A step that passes its deadline has failed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sparkle_drv.backends.base import Lanes
from sparkle_drv.core.device import Device
from sparkle_drv.errors import FenceTimeout, SparkleError

from .program import Begun, Lane, Program, Step

log = logging.getLogger("sparkle_drv.mesh")

Act = Callable[[Step], Begun | None]
"""Begins a step. Returns its fence, or None if it has ended. Called in the lane's thread."""
SLICE_S = 0.1
"""Seconds between checks of whether the run was stopped."""


@dataclass(frozen=True)
class Ran:
    """When a step began and ended, in seconds of the run's clock. `well` says that it raised no
    error.
    """

    step: Step
    start_s: float
    end_s: float
    well: bool = True


class Stopped(Exception):
    """The run was stopped because its caller was interrupted. `run` never raises it."""


def clocked(devices: Sequence[Device], clock: Callable[[], float]) -> dict[str, Any]:
    """Returns the arguments `clock` and `lanes` for `run` on these devices.

    Devices of one virtual clock have the same `lanes` (backends/base.py). For such devices, the
    result has these `lanes` and the devices' clock. For others it has `clock` alone.
    """
    lanes = devices[0].lanes if devices else None
    if lanes is None or any(device.lanes is not lanes for device in devices):
        return {"clock": clock}
    return {"clock": devices[0].clock or clock, "lanes": lanes}


def wait(
    begun: Begun, timeout_s: float, stopped: threading.Event, since_s: float | None = None
) -> None:
    """Waits until the work `begun` has ended, and checks `stopped` every SLICE_S seconds.

    Raises FenceTimeout `timeout_s` seconds after `since_s` of time.monotonic (default: now). Raises
    Stopped soon after `stopped` is set.
    """
    deadline = (time.monotonic() if since_s is None else since_s) + timeout_s
    while True:
        left = deadline - time.monotonic()
        try:
            begun.wait(max(0.0, min(SLICE_S, left)))
            return
        except FenceTimeout as error:
            if left <= SLICE_S:
                raise FenceTimeout(
                    f"expected the work to end within {timeout_s:g} s, but it runs on",
                    *error.args[1:],
                ) from error
        if stopped.is_set():
            raise Stopped


def run(
    program: Program,
    act: Act,
    *,
    clock: Callable[[], float] = time.perf_counter,
    lanes: Lanes | None = None,
    failed: Callable[[Ran], object] = lambda ran: None,
    stopped: threading.Event | None = None,
) -> list[Ran]:
    """Runs every step: calls `act(step)`, and waits for what the call returns. Returns a Ran (a
    step with its times) for each step that ran, in the order of step numbers.

    `failed` is called for each step that failed, in the thread of its lane. A program of one lane
    runs in the calling thread. `stopped` is set when the run is stopped. An `act` that waits itself
    must use the function `wait`, which ends soon after `stopped` is set.

    Raises the error of the first step that failed, with the step's name before the text. Raises
    SparkleError if the system gives no thread for a lane. An interrupt, such as KeyboardInterrupt,
    is raised once no thread is left.
    """
    if not program.steps:
        return []
    work = _ProgramRun(program, act, clock, lanes, failed, stopped or threading.Event())
    if len(work.queues) == 1:
        work.lane(next(iter(work.queues)))
    else:
        work.threads()
    if work.failure is not None:
        raise work.failure
    return sorted(work.ran, key=lambda ran: ran.step.number)


class _ProgramRun:
    """The state that lanes of one run share, under one lock."""

    def __init__(
        self, program: Program, act: Act, clock: Callable[[], float], lanes: Lanes | None,
        failed: Callable[[Ran], object], stopped: threading.Event,
    ) -> None:  # fmt: skip
        self.act, self.clock, self.note_failure = act, clock, failed
        self._stopped = stopped
        self.queues: dict[Lane, deque[Step]] = {}
        for step in program.steps:
            self.queues.setdefault(step.lane, deque()).append(step)
        self.ran: list[Ran] = []
        self.failure: BaseException | None = None
        self._lanes = lanes if len(self.queues) > 1 else None
        # For each step that has ended, by its number: whether it ended without error.
        self._well: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._turn = {lane: threading.Condition(self._lock) for lane in self.queues}
        self._asleep: dict[Lane, Step] = {}  # for each sleeping lane, the step that it begins next
        # The lanes that sleep until a step has ended, by the number of the step.
        self._waiting: dict[int, set[Lane]] = {}
        # Lanes that no thread may begin any more: a thread has begun them, or an interrupt
        # stopped the run first.
        self._claimed: set[Lane] = set()
        # Lanes that had not begun when an interrupt stopped the run: they never begin.
        self._never: set[Lane] = set()
        self._over: set[Lane] = set()  # lanes that have ended
        # `_await` sleeps on this lock. A lane that ends releases it, which wakes `_await`.
        self._gate = threading.Lock()
        self._entered = False  # whether the virtual clock counts the lanes as running

    def threads(self) -> None:
        """Runs a thread for each lane. Returns when all have ended, also after an interrupt."""
        threads = [
            threading.Thread(
                target=self._guarded, args=(lane,), name=f"sparkle {lane}", daemon=True
            )
            for lane in self.queues
        ]
        try:
            for thread in threads:
                _start(thread, len(threads))
            self._await(threads)
        except BaseException:
            interrupted: BaseException | None = None
            # A second Ctrl-C may interrupt `_end`. Then `_end` runs again, so that all threads end.
            while True:
                try:
                    self._end(threads)
                    break
                except KeyboardInterrupt as again:
                    interrupted = again
            if interrupted is not None:
                raise interrupted from None
            raise

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Stops all lanes and waits for those that began; may be called again."""
        self._stop()
        with self._lock:  # After an interrupted start() it is unknown whether its thread will run.
            never = self.queues.keys() - self._claimed
            self._claimed |= never
            self._never |= never
        self._await(threads)
        while self._entered and self._lanes is not None and self._never - self._over:
            self._over.add(next(iter(self._never - self._over)))
            self._lanes.leave()

    def _await(self, threads: Sequence[threading.Thread]) -> None:
        """Returns when all lanes have ended, except those that had not begun when the run was
        stopped.

        Thread.join alone is not enough: until Python 3.12 an interrupt in it marks a running thread
        as ended (CPython's bpo-45274).
        """
        while self.queues.keys() - self._never - self._over:
            self._gate.acquire(timeout=SLICE_S)
        for thread, lane in zip(threads, self.queues, strict=True):
            if lane not in self._never:
                thread.join(SLICE_S)  # the thread has finished its lane and only needs to end

    def lane(self, lane: Lane) -> None:
        """Runs all steps of a lane, in order."""
        for step in self.queues[lane]:
            if not self._may_begin(step):
                self._ended(step, False)
                continue
            start_s = self.clock()
            try:
                self._done(step)
            except Stopped:
                self._ended(step, False)
                return
            except Exception as error:  # `run` raises the error in the caller's thread
                self._failed(step, error)
                self._tell(Ran(step, start_s, self.clock(), False))
                continue
            self.ran.append(Ran(step, start_s, self.clock()))
            self._ended(step, True)

    def _guarded(self, lane: Lane) -> None:
        with self._lock:
            if lane in self._claimed:
                return
            self._claimed.add(lane)
            # The first lane announces all lanes to the virtual clock, before any lane waits for
            # another. The caller's thread does not do this: Ctrl-C could interrupt it between
            # `enter` and the setting of `_entered`.
            if self._lanes is not None and not self._entered:
                self._lanes.enter(len(self.queues))
                self._entered = True
        if self._lanes is not None:
            self._lanes.attach()
        try:
            self.lane(lane)
        except BaseException as error:  # an error must not leave other lanes waiting
            with self._lock:
                self.failure = self.failure or error
            self._stop()
        finally:
            if self._lanes is not None:
                self._lanes.leave()
            self._over.add(lane)
            with suppress(RuntimeError):  # another lane has released the lock `_gate` already
                self._gate.release()

    def _tell(self, ran: Ran) -> None:
        try:
            self.note_failure(ran)
        except Exception:  # the caller's callback raised; `run` still raises the step's error
            log.exception(
                "step %d, %s: the callback for its failure raised", ran.step.number, ran.step
            )

    def _done(self, step: Step) -> None:
        begin_s = time.monotonic()
        begun = self.act(step)
        if begun is not None:
            wait(begun, step.deadline_s, self._stopped, begin_s)

    def _may_begin(self, step: Step) -> bool:
        """Waits for the steps that this one depends on. Returns False if one of them failed or the
        run was stopped.
        """
        lane = step.lane
        with self._lock:
            while True:
                if self._stopped.is_set() or any(self._well.get(n) is False for n in step.after):
                    return False
                missing = [n for n in step.after if n not in self._well]
                if not missing:
                    return True
                self._asleep[lane] = step
                self._waiting.setdefault(missing[0], set()).add(lane)
                if self._lanes is not None:
                    self._lanes.waits()
                while lane in self._asleep:
                    self._turn[lane].wait()

    def _ended(self, step: Step, well: bool) -> None:
        with self._lock:
            self._well[step.number] = well
            self._wake(self._waiting.pop(step.number, ()))

    def _wake(self, lanes: Sequence[Lane] | set[Lane] | tuple[()]) -> None:
        """Wakes these lanes; the caller holds the lock. A simulation's virtual clock is told first
        that these lanes run, so that it does not advance before they do.
        """
        sleeping = [lane for lane in lanes if self._asleep.pop(lane, None) is not None]
        if sleeping and self._lanes is not None:
            self._lanes.wakes(len(sleeping))
        for lane in sleeping:
            self._turn[lane].notify()

    def _failed(self, step: Step, error: Exception) -> None:
        explain(error, f"step {step.number}, {step}: ")
        with self._lock:
            self.failure = self.failure or error
        self._ended(step, False)

    def _stop(self) -> None:
        with self._lock:
            self._stopped.set()
            self._wake(list(self._asleep))
            # Lanes may wait for a `notify` that an interrupt has prevented.
            for turn in self._turn.values():
                turn.notify()


def _start(thread: threading.Thread, count: int) -> None:
    try:
        thread.start()
    except RuntimeError as error:
        raise SparkleError(f"expected a thread for each of {count} lanes, got: {error}") from error


def explain(error: BaseException, before: str, after: str = "") -> None:
    """Adds text before and after the message of an error."""
    if isinstance(error, OSError) and error.strerror is not None:
        error.strerror = f"{before}{error.strerror}{after}"
        return
    usual = "interrupted" if isinstance(error, KeyboardInterrupt) else ""
    first, *more = error.args or (usual,)
    error.args = (f"{before}{first}{after}", *more)
