"""The clock of a simulated machine: virtual seconds, which pass when every actor waits.

This is a discrete-event simulation whose actors are real threads. Threads that run the lanes of a
program (mesh/lanes/runner.py) register. The clock jumps to the next event only when every lane
waits. Thus the timeline does not depend on which thread runs first. An unregistered thread lets
time pass by waiting.

All events of one instant happen before any thread that they wake continues. The effects of events
must therefore not depend on their order. For example, sim_links.py sorts the transfers in progress
before it divides the rates of links among them.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable

from sparkle_drv.fork_lock import fork_lock

POLL_S = 0.05
"""Real seconds between checks of a waiting thread: the one that let time pass may have ended."""
STALL_S = 2.0
"""Real seconds in which no lane waited, began or ended. Then a lane probably waits for a lock that
a sleeping lane holds. Time passes although that lane runs; another run may give another order."""


class SimEvent:
    """An event that happens once, at `at_s` of the clock. `at_s` is None while the time
    is unknown.
    """

    __slots__ = ("_then", "at_s")

    def __init__(self, at_s: float | None = None) -> None:
        self.at_s = at_s
        self._then: list[Callable[[float], object]] = []

    def known(self, at_s: float) -> None:
        """Sets the event's time and calls the registered functions."""
        self.at_s = at_s
        told, self._then = self._then, []
        for call in told:
            call(at_s)

    def then(self, call: Callable[[float], object]) -> None:
        """Calls `call(at_s)` now, or when the event's time is known."""
        if self.at_s is None:
            self._then.append(call)
        else:
            call(self.at_s)

    def forget(self, call: Callable[[float], object]) -> None:
        """Takes back `then(call)`, unless `call` was called already."""
        if call in self._then:
            self._then.remove(call)


class _Sleeper:
    def __init__(self, lane: bool, lock: threading.RLock) -> None:
        self.lane, self.woken, self.turn = lane, False, threading.Condition(lock)
        self.counts = True  # whether Clock._asleep counts this wait


class Clock:
    """A clock whose seconds pass only while threads wait. Lanes are threads that the clock counts:
    no time passes while one of them runs. mesh/lanes/runner.py starts such threads.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lock = fork_lock()
        """Held while a SimEvent changes."""
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._here = threading.local()
        self._running = 0  # number of lanes that run
        # numbers of threads that wait for an event: of lanes (True), and of others (False)
        self._asleep = {True: 0, False: 0}
        self._outlives: set[int] = set()  # ids of threads that run on after their lane has ended
        self._sleepers: dict[int, _Sleeper] = {}  # the waits for events, by thread id
        self._woke = False  # whether a waiting thread was woken since the last call of _pass began
        self._stirred = time.monotonic()

    # Threads of lanes call the following methods.

    def enter(self, n: int = 1) -> None:
        """Counts `n` lanes as running. Called before their threads start."""
        self._count(n)

    def attach(self) -> None:
        """Marks the calling thread as a lane."""
        self._here.lane = True
        self._outlives.discard(threading.get_ident())  # a new thread may get an ended one's id

    def leave(self) -> None:
        """Counts one lane fewer as running. The calling thread was that lane, or the lane's thread
        will never begin.
        """
        self._here.lane = False
        self._outlives.discard(threading.get_ident())
        self._count(-1)

    def waits(self) -> None:
        """Marks this thread's lane as waiting for another lane."""
        self._count(-1)

    def wakes(self, n: int = 1) -> None:
        """Counts `n` waiting lanes as running, since they are about to be woken."""
        self._count(n)

    def _count(self, n: int) -> None:
        with self.lock:
            self._running += n
            self._stirred = time.monotonic()
            self._pass()

    def outlives(self, thread: int) -> None:
        """Stops counting the waits of `thread`, which runs on although its lane has ended. From now
        on the clock does not advance because this thread waits.
        """
        with self.lock:
            self._outlives.add(thread)
            sleeper = self._sleepers.get(thread)
            if sleeper is not None and sleeper.counts:
                sleeper.counts = False
                self._asleep[sleeper.lane] -= 1

    def waker(self) -> SimWaker:
        """Returns a SimWaker, which lets a thread wait for another thread or for a time."""
        return SimWaker(self)

    # Time

    def at(self, at_s: float, call: Callable[[], object]) -> None:
        """Schedules `call()` for `at_s`, or for now if that time is past. The clock calls it with
        its lock held.
        """
        heapq.heappush(self._due, (max(at_s, self.now_s), next(self._numbers), call))

    def advance(self, seconds: float, since_s: float = 0.0) -> float:
        """Waits for `seconds` from now, or from `since_s` if that is later. Returns the time at the
        end.
        """
        with self.lock:
            end_s = max(self.now_s, since_s) + seconds
            if not self._due and not self._running:  # no other thread uses the clock
                self.now_s = end_s
                return end_s
        self.sleep(SimEvent(end_s))
        return end_s

    def past(self, event: SimEvent) -> bool:
        """Returns whether the event has happened. While lanes run, it has happened when the clock
        has reached the event's time. Without lanes no thread moves the clock on, so an event counts
        as past as soon as its time is known.
        """
        with self.lock:
            laned = self._running or self._asleep[True]
        if event.at_s is None and not laned:
            self.sleep(event, 0.0)
        return event.at_s is not None and (not laned or event.at_s <= self.now_s)

    def sleep(self, event: SimEvent, timeout_s: float = math.inf) -> bool:
        """Waits for an event. Returns False if it has not happened within `timeout_s`
        real seconds.
        """
        end = time.monotonic() + timeout_s
        with self.lock:
            if event.at_s is not None and event.at_s <= self.now_s:
                return True
            sleeper = _Sleeper(getattr(self._here, "lane", False), self.lock)
            me = threading.get_ident()
            sleeper.counts = me not in self._outlives
            self._asleep[sleeper.lane] += sleeper.counts
            self._sleepers[me] = sleeper

            def known(at_s: float) -> None:
                self.at(at_s, lambda: self._wake(sleeper))

            event.then(known)
            self._count(-sleeper.lane)
            while not sleeper.woken:
                left = end - time.monotonic()
                if left <= 0:
                    event.forget(known)
                    self._wake(sleeper)
                    return False
                sleeper.turn.wait(min(left, POLL_S))
                if not sleeper.woken:
                    self._pass(time.monotonic() - self._stirred > STALL_S)
            return True

    def _wake(self, sleeper: _Sleeper) -> None:
        if not sleeper.woken:
            sleeper.woken = self._woke = True
            self._sleepers = {at: one for at, one in self._sleepers.items() if one is not sleeper}
            self._asleep[sleeper.lane] -= sleeper.counts
            self._running += sleeper.lane
            self._stirred = time.monotonic()
            sleeper.turn.notify()

    def _pass(self, stalled: bool = False) -> None:
        """Lets events happen, one instant after the other, until a thread may run. The caller holds
        the lock.
        """
        self._woke = False
        while self._due and (stalled or not self._running) and sum(self._asleep.values()):
            if self._woke and not self._asleep[True]:
                return  # time passes again when the woken thread waits
            stalled = False
            self.now_s = max(self.now_s, self._due[0][0])
            while self._due and self._due[0][0] <= self.now_s:
                heapq.heappop(self._due)[2]()


class SimWaker:
    """Lets one thread wait until another thread calls `set`, or until a given time."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._event = clock, SimEvent()

    def set(self) -> None:
        """Makes `wait` return now. A later call of `wait` returns at once."""
        with self._clock.lock:
            if self._event.at_s is None:
                self._event.known(self._clock.now_s)

    def wait(self, until_s: float) -> None:
        """Waits until `set` is called, at most until the time `until_s`."""
        with self._clock.lock:
            if until_s < math.inf:
                self._clock.at(until_s, self.set)
        self._clock.sleep(self._event)
