"""Threads wait for a change or for a time, on the clock of their run."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from sparkle_drv.backends.base import Lanes, Waker

SLICE_S = 0.1
"""Between looks of a thread that waits with no limit: Ctrl-C reaches it then."""


class Alarm:
    """`turn` is read before one looks whether something has changed, and given to `wait` after."""

    def __init__(self, clock: Callable[[], float], lanes: Lanes | None = None) -> None:
        self.turn = 0
        """How often it rang."""
        self._clock, self._lanes = clock, lanes
        self._lock = threading.Lock()
        self._waiting: list[Waker] = []

    def ring(self) -> None:
        """Something has changed: all who wait go on."""
        with self._lock:
            self.turn += 1
            waiting, self._waiting = self._waiting, []
        for waker in waiting:
            waker.set()

    def wait(self, turn: int, until_s: float = math.inf) -> None:
        """Return once it rang after `turn` was read, or at `until_s` of the clock."""
        with self._lock:
            if self.turn != turn:
                return
            waker = _Waker(self._clock) if self._lanes is None else self._lanes.waker()
            self._waiting.append(waker)
        waker.wait(until_s)


class _Waker:
    """Of real time."""

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
    """Nobody is let in any more."""


class Gate:
    """A lock that lets a virtual clock pass while threads wait for it."""

    def __init__(self, clock: Callable[[], float], lanes: Lanes | None = None) -> None:
        self._alarm = Alarm(clock, lanes)
        self._lock = threading.Lock()
        self._shut = False

    def acquire(self) -> None:
        """Enter, once nobody else is inside. Raises Shut, also in who waits already."""
        while True:
            turn = self._alarm.turn
            if self._shut:
                raise Shut
            if self._lock.acquire(blocking=False):
                return
            self._alarm.wait(turn)

    def shut(self) -> None:
        """Who is inside may leave; nobody enters."""
        self._shut = True
        self._alarm.ring()

    def release(self) -> None:
        """Leave."""
        self._lock.release()
        self._alarm.ring()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
