"""Alarm and Gate, by which the threads that run a program wait for one another.

A thread may give a time at which its wait ends. It is a time of the real clock, or of a
simulation's virtual clock.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from sparkle_drv.backends.base import Lanes, Waker

SLICE_S = 0.1
"""Seconds between checks of a thread that waits without limit, so that Ctrl-C reaches it."""


class Alarm:
    """Wakes threads that wait for a change.

    A thread reads `turn`, checks for a change, and then passes that `turn` to `wait`. So it does
    not miss a change between its check and `wait`.
    """

    def __init__(self, clock: Callable[[], float], lanes: Lanes | None = None) -> None:
        self.turn = 0
        """How often `ring` was called."""
        self._clock, self._lanes = clock, lanes
        self._lock = threading.Lock()
        self._waiting: list[Waker] = []

    def ring(self) -> None:
        """Announces a change: all waiting threads go on."""
        with self._lock:
            self.turn += 1
            waiting, self._waiting = self._waiting, []
        for waker in waiting:
            waker.set()

    def wait(self, turn: int, until_s: float = math.inf) -> None:
        """Returns when `ring` has been called since `turn` was read, or at time `until_s` of the
        clock.
        """
        with self._lock:
            if self.turn != turn:
                return
            waker = _ThreadWaker(self._clock) if self._lanes is None else self._lanes.waker()
            self._waiting.append(waker)
        waker.wait(until_s)


class _ThreadWaker:
    """Lets one thread wait in real time until `set` is called."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._event = clock, threading.Event()

    def set(self) -> None:
        self._event.set()

    def wait(self, until_s: float) -> None:
        while not self._event.is_set():
            left = until_s - self._clock()
            if left <= 0:
                return
            self._event.wait(min(left, SLICE_S))


class Shut(Exception):
    """Raised by `Gate.acquire` after `Gate.shut`: no thread may enter the gate any more."""


class Gate:
    """A lock for threads that may run by a simulation's virtual clock. A thread that waits for the
    lock does not stop that clock.
    """

    def __init__(self, clock: Callable[[], float], lanes: Lanes | None = None) -> None:
        self._alarm = Alarm(clock, lanes)
        self._lock = threading.Lock()
        self._shut = False

    def acquire(self) -> None:
        """Enters once no other thread is inside. Raises Shut when the gate is shut, even if this
        thread already waits.
        """
        while True:
            turn = self._alarm.turn
            if self._shut:
                raise Shut
            if self._lock.acquire(blocking=False):
                return
            self._alarm.wait(turn)

    def shut(self) -> None:
        """Shuts the gate: no thread may enter any more. A thread inside may leave."""
        self._shut = True
        self._alarm.ring()

    def release(self) -> None:
        """Ends the exclusive use that `acquire` began, so that another thread may enter."""
        self._lock.release()
        self._alarm.ring()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
