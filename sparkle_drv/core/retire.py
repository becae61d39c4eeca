"""What was closed or forgotten while the device may still use it.

It is freed once every queue has reached what it had been given.
Finalizers run anywhere, also inside our own calls, so nothing here takes a lock: appends, pops and
removals are atomic, and so is a copy of a list; without a GIL that of a deque is not. A list that
still waits when its device has gone is kept in `_unfinished` and looked at when another drains;
what still runs when the process leaves is leaked, because freeing memory or code under a running
kernel is a crash.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import time
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any

from sparkle_drv.backends.base import Backend

SLICE_NS = 100_000_000  # a C wait lasts at most this long, so that Ctrl-C is noticed
BRIEFLY_S = 1.0  # how long a finalizer, or leaving after Ctrl-C, waits for work
SPACED = 20  # a look at the list of a device that is gone lasts t; the next one comes 20 t later
_NEVER = 1 << 64  # no timeline is that long
_UNSETTLED = _NEVER + 1  # what is to be reached has yet to be asked
_CLOSED = _NEVER + 2  # to be reached is that the queue has been closed
_Point = tuple[Backend, Any, int]  # a queue of that backend, and the value it must reach
_Release = Callable[[], object] | tuple[object, ...]  # what is called, or what lives until then
_Entry = tuple[_Release, list[_Point]]


class RetireList:
    """Owned by one device; outlives it as long as something waits."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.queues: dict[int, Any] = {}  # id -> the backend's queue handle, until it is closed
        self._entries: deque[_Entry] = deque()
        # What `drain` looks at: native/hot/launch/fence.c does not call it while all are empty.
        self.pending: tuple[Sized, ...] = (self._entries, _unfinished)
        self._foreign: list[_Point] = []  # other devices' work on memory of this one
        self._gone = False  # is its device?
        self._next_s = 0.0  # of time.monotonic(), when another list that drains looks at this one

    def __len__(self) -> int:
        return len(self._entries)

    def retire(self, release: Callable[[], object]) -> None:
        """Call `release` as soon as nothing submitted so far can touch what it frees."""
        # It waits before it is known for what: an interrupt, too, leaves it here.
        points = [p for p in list(self._foreign) if not _reached(p)]
        points += [(self.backend, queue, _UNSETTLED) for queue in list(self.queues.values())]
        self._entries.append((release, points))
        self.drain()

    def hold(self, queue: Any, value: int, *objects: object) -> None:
        """Keep `objects` alive until `queue` has reached `value`."""
        self._entries.append((objects, [(self.backend, queue, value)]))
        self.drain()

    @contextlib.contextmanager
    def holding(self, queue: Any, *objects: object) -> Iterator[None]:
        """Keep `objects` alive until `queue` has reached what it is given inside.

        From before that on: an interrupt comes between any two lines, also between a launch and a
        `hold`. One that comes in here, of all places, has them kept for ever.
        """
        points: list[_Point] = [(self.backend, queue, _NEVER)]
        self._entries.append((objects, points))
        try:
            yield
        finally:
            points[0] = (self.backend, queue, self.backend.submitted(queue))
            self.drain()

    def keeping(self, queue: Any) -> tuple[Callable[[_Entry], None], Backend, Any]:
        """What native/hot/launch/hold.c does `hold` with, where no interrupt may come between."""
        return self._entries.append, self.backend, queue

    def also(self, backend: Backend, queue: Any, value: int) -> None:
        """What is closed from now on waits for another device's queue too."""
        self._foreign.append((backend, queue, value))
        self._forget_foreign()

    def _forget_foreign(self) -> None:
        """Let go of other devices' queues that have reached what they were given."""
        for point in list(self._foreign):
            if _reached(point):
                with contextlib.suppress(ValueError):  # another thread has seen it, too
                    self._foreign.remove(point)

    def drain(self) -> None:
        """Free what has become free, here and in lists whose device is gone."""
        if self._foreign:
            self._forget_foreign()
        self._look()
        for other in list(_unfinished):
            began_s = time.monotonic()
            if began_s < other._next_s:
                continue  # a device that hangs must not slow the others
            other._look()
            if not other._entries:
                _unfinished.discard(other)
                other._look()  # another thread may have had an entry in its hands
            ended_s = time.monotonic()
            other._next_s = ended_s + SPACED * (ended_s - began_s)

    def _look(self) -> None:
        try:
            for _ in range(len(self._entries)):
                try:
                    entry = self._entries.popleft()
                except IndexError:
                    break
                done = False
                try:
                    done = self._passed(entry[1])
                finally:  # an interrupt must not lose the entry: its memory would go at once
                    if not done:
                        self._entries.append(entry)
                if done and not isinstance(entry[0], tuple):
                    entry[0]()
        finally:
            if self._gone and self._entries:
                _leak(self) if _leaving else _unfinished.add(self)

    def _passed(self, points: list[_Point]) -> bool:
        """Have all been reached?"""
        for i, (backend, queue, value) in enumerate(points):
            if value == _UNSETTLED and (settled := backend.settled(queue)) >= 0:
                points[i] = backend, queue, settled
            elif value == _CLOSED and (id(queue) not in self.queues or self.end(queue, 0)):
                points[i] = backend, queue, 0
        return all(map(_reached, points))

    def end(self, queue: Any, timeout_ns: int) -> bool:
        """Close a queue; False: it still runs and may be tried again. In slices, for Ctrl-C."""
        deadline = time.monotonic_ns() + timeout_ns
        while True:
            rc = self.backend.close_queue(queue, min(timeout_ns, SLICE_NS))
            timeout_ns = deadline - time.monotonic_ns()
            if rc != -errno.ETIMEDOUT or timeout_ns <= 0:
                break
        if rc == -errno.ETIMEDOUT:
            return False
        self.queues.pop(id(queue), None)
        return True

    def forget(self, queue: Any, timeout_ns: int) -> None:
        """Close a queue that nobody refers to any more, later if it still runs."""
        if id(queue) in self.queues and not self.end(queue, timeout_ns):
            self._entries.append(((), [(self.backend, queue, _CLOSED)]))
        self.drain()

    def abandon(self) -> None:
        """The device is gone: free what can be freed, remember or leak the rest, close the backend.

        Of a device that goes in a cycle, buffers, kernels and queues may come afterwards.
        """
        self._gone = True
        self.drain()
        self.backend.close()


def _reached(point: _Point) -> bool:
    backend, queue, value = point
    return backend.reached(queue) >= value


_unfinished: set[RetireList] = set()
_leaving: list[bool] = []  # not empty once the process leaves


def _leak(kept: object) -> None:
    """One reference that nobody gives back: module teardown would drop all others."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


@atexit.register
def _leave() -> None:
    # Finalizers run at exit too, before this or after it, as it happens: both orders end in _leak.
    _leaving.append(True)
    while _unfinished:
        _leak(_unfinished.pop())
