"""RetireList: objects that were closed or forgotten while their device may still use them.

An object is freed when every queue has reached the value it had when the object was closed.

Finalizers may run anywhere, also inside calls of this package, so nothing here takes a lock.
Appends, pops and removals are atomic, and so is a copy of a list. Without a GIL, a copy of a deque
is not atomic.

A list with entries whose device is gone stays in `_unfinished`, and other lists check it when they
drain. Entries still in use at the end of the process are leaked: freeing memory or code under a
running kernel would crash.
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
SPACED = 20  # a check of a gone device's list that took t is repeated 20 t later at the earliest
_NEVER = 1 << 64  # above every timeline value
_UNSETTLED = _NEVER + 1  # the value to reach is still to be asked of the backend
_CLOSED = _NEVER + 2  # the queue must be closed
_Point = tuple[Backend, Any, int]  # (backend, queue handle, value that the queue must reach)
_Release = Callable[[], object] | tuple[object, ...]  # a function to call, or objects to release
_Entry = tuple[_Release, list[_Point]]


class RetireList:
    """The retire list of one device. It outlives the device while it has entries."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.queues: dict[int, Any] = {}  # id -> the backend's queue handle, until it is closed
        self._entries: deque[_Entry] = deque()
        # native/hot/launch/fence.c calls `drain` only while one of these is not empty.
        self.pending: tuple[Sized, ...] = (self._entries, _unfinished)
        self._foreign: list[_Point] = []  # other devices' work on memory of this device
        self._gone = False  # is the device gone?
        self._next_s = 0.0  # other lists check this one from then on (time.monotonic())

    def __len__(self) -> int:
        return len(self._entries)

    def retire(self, release: Callable[[], object]) -> None:
        """Call `release` as soon as no earlier submission can use the memory that it frees."""
        # Appended before its values are known, so that an interrupt cannot lose it.
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
        """Keep `objects` alive until `queue` has reached the submissions of the `with` block.

        The entry exists before the block begins, because an interrupt may come between a launch and
        a `hold`. An interrupt inside this function itself keeps the objects forever.
        """
        points: list[_Point] = [(self.backend, queue, _NEVER)]
        self._entries.append((objects, points))
        try:
            yield
        finally:
            points[0] = (self.backend, queue, self.backend.submitted(queue))
            self.drain()

    def keeping(self, queue: Any) -> tuple[Callable[[_Entry], None], Backend, Any]:
        """The arguments with which native/hot/launch/hold.c does `hold`, safe from interrupts."""
        return self._entries.append, self.backend, queue

    def also(self, backend: Backend, queue: Any, value: int) -> None:
        """From now on, closed objects also wait until `queue` of another device reaches `value`."""
        self._foreign.append((backend, queue, value))
        self._forget_foreign()

    def _forget_foreign(self) -> None:
        """Drop the entries of other devices' queues that have reached their value."""
        for point in list(self._foreign):
            if _reached(point):
                with contextlib.suppress(ValueError):  # another thread has removed it
                    self._foreign.remove(point)

    def drain(self) -> None:
        """Free the entries that no queue uses any more, also in lists whose device is gone."""
        if self._foreign:
            self._forget_foreign()
        self._look()
        for other in list(_unfinished):
            began_s = time.monotonic()
            if began_s < other._next_s:
                continue  # a device that hangs must not slow down the others
            other._look()
            if not other._entries:
                _unfinished.discard(other)
                other._look()  # another thread may have put an entry back meanwhile
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
                finally:  # an interrupt must not lose the entry, which would free its memory
                    if not done:
                        self._entries.append(entry)
                if done and not isinstance(entry[0], tuple):
                    entry[0]()
        finally:
            if self._gone and self._entries:
                _leak(self) if _leaving else _unfinished.add(self)

    def _passed(self, points: list[_Point]) -> bool:
        """Have all points been reached?"""
        for i, (backend, queue, value) in enumerate(points):
            if value == _UNSETTLED and (settled := backend.settled(queue)) >= 0:
                points[i] = backend, queue, settled
            elif value == _CLOSED and (id(queue) not in self.queues or self.end(queue, 0)):
                points[i] = backend, queue, 0
        return all(map(_reached, points))

    def end(self, queue: Any, timeout_ns: int) -> bool:
        """Close a queue. False if it still runs; the call may be repeated.

        Waits in slices, so that Ctrl-C is noticed.
        """
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
        """Close a queue that nobody refers to any more; if it still runs, a later drain does it."""
        if id(queue) in self.queues and not self.end(queue, timeout_ns):
            self._entries.append(((), [(self.backend, queue, _CLOSED)]))
        self.drain()

    def abandon(self) -> None:
        """The device is gone: free entries, remember or leak the rest, and close the backend.

        If the device was freed in a reference cycle, its buffers, kernels and queues may follow.
        """
        self._gone = True
        self.drain()
        self.backend.close()


def _reached(point: _Point) -> bool:
    backend, queue, value = point
    return backend.reached(queue) >= value


_unfinished: set[RetireList] = set()
_leaving: list[bool] = []  # not empty once the process exits


def _leak(kept: object) -> None:
    """Adds a reference that is never released; module teardown would drop all others."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


@atexit.register
def _leave() -> None:
    # At exit, finalizers may run before or after this function. Both orders end in _leak.
    _leaving.append(True)
    while _unfinished:
        _leak(_unfinished.pop())
