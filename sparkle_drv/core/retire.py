"""RetireList: objects that were closed or forgotten while their device may still use them.

Each queue has a newest value at the time when the object is closed. The object is freed when every
queue has reached that value.

Finalizers may run anywhere, also inside calls of this package, so nothing here takes a lock.
Appends, pops and removals are atomic, and so are copies of a list. Without a GIL, a copy of a deque
is not atomic, so deques are not copied here.

If the device of a retire list is gone and the list still has entries, the list stays in
`_unfinished`. Other retire lists check such a list when they drain. Entries still in use at the end
of the process are leaked, because freeing memory or code under a running kernel would crash.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from sparkle_drv.backends.base import Backend

SLICE_NS = 100_000_000  # one wait in C is at most this long, so that Ctrl-C is noticed
# How long a finalizer waits for work, and how long an `__exit__` waits after Ctrl-C.
BRIEFLY_S = 1.0
# Concerns a retire list whose device is gone. If one check of such a list took t seconds, the next
# check comes at least SPACED * t seconds later.
SPACED = 20
_NEVER = 1 << 64  # above every timeline value
_UNSETTLED = _NEVER + 1  # stands for a timeline value that the backend does not know yet
_CLOSED = _NEVER + 2  # stands for a timeline value; reached once the queue is closed
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
        # The submissions of other devices that use this device's memory.
        self._foreign: list[_Point] = []
        self._gone = False  # True once the Device object is gone
        # The retire lists of other devices drain this list too, but not before this time
        # (time.monotonic()).
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def retire(self, release: Callable[[], object]) -> None:
        """Calls `release` as soon as no earlier submission can use the memory that it frees."""
        # The entry is put into the list at once. _UNSETTLED stands for the values that the device's
        # own queues must reach. They are looked up later, so an interrupt cannot lose the entry.
        points = [p for p in list(self._foreign) if not _reached(p)]
        points += [(self.backend, queue, _UNSETTLED) for queue in list(self.queues.values())]
        self._entries.append((release, points))
        self.drain()

    def hold(self, queue: Any, value: int, *objects: object) -> None:
        """Keeps `objects` alive until `queue` has reached `value`."""
        self._entries.append((objects, [(self.backend, queue, value)]))
        self.drain()

    @contextlib.contextmanager
    def holding(self, queue: Any, *objects: object) -> Iterator[None]:
        """Keeps `objects` alive until `queue` has reached the submissions of the `with` block.

        The entry is added before the block begins. If a `hold` followed the launch instead, an
        interrupt between them would lose the objects. An interrupt inside this function itself
        keeps the objects forever.
        """
        points: list[_Point] = [(self.backend, queue, _NEVER)]
        self._entries.append((objects, points))
        try:
            yield
        finally:
            points[0] = (self.backend, queue, self.backend.submitted(queue))
            self.drain()

    def keeping(self, queue: Any) -> tuple[Callable[[_Entry], None], Backend, Any]:
        """Returns (function that adds an entry to this list, backend, queue).
        native/hot/launch/keep_alive.c does `hold` with these, where no interrupt can stop it
        halfway.
        """
        return self._entries.append, self.backend, queue

    def also(self, backend: Backend, queue: Any, value: int) -> None:
        """Makes objects that are closed from now on wait for another device.

        The objects are freed after `queue` of that device has reached `value`.
        """
        self._foreign.append((backend, queue, value))
        self._forget_foreign()

    def _forget_foreign(self) -> None:
        """Drops from `_foreign` each point (queue, value) of another device that is reached."""
        for point in list(self._foreign):
            if _reached(point):
                with contextlib.suppress(ValueError):  # another thread has removed the point
                    self._foreign.remove(point)

    def drain(self) -> None:
        """Frees the entries that no queue uses any more, also in lists whose device is gone."""
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
                # Another thread may have put an entry back just before `discard`. So look again.
                other._look()
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
                # Even after an interrupt, the entry is put back into the list: if it were lost,
                # memory that is still in use would be freed.
                finally:
                    if not done:
                        self._entries.append(entry)
                if done and not isinstance(entry[0], tuple):
                    entry[0]()
        finally:
            if self._gone and self._entries:
                _leak(self) if _leaving else _unfinished.add(self)

    def _passed(self, points: list[_Point]) -> bool:
        """Returns whether each point (backend, queue, value) is reached: the queue's timeline has
        the value or more.
        """
        for i, (backend, queue, value) in enumerate(points):
            if value == _UNSETTLED and (settled := backend.settled(queue)) >= 0:
                points[i] = backend, queue, settled
            elif value == _CLOSED and (id(queue) not in self.queues or self.end(queue, 0)):
                points[i] = backend, queue, 0
        return all(map(_reached, points))

    def end(self, queue: Any, timeout_ns: int) -> bool:
        """Closes a queue. Returns False if work of the queue still runs; the call may be repeated.

        The wait is cut into slices, so that Ctrl-C is noticed.
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
        """Closes a queue that nothing refers to. If work still runs in the queue after
        `timeout_ns`, a later call of `drain` closes the queue.
        """
        if id(queue) in self.queues and not self.end(queue, timeout_ns):
            self._entries.append(((), [(self.backend, queue, _CLOSED)]))
        self.drain()

    def abandon(self, children: Iterable[object] = ()) -> None:
        """Closes the backend of a device that is gone, and frees the entries that are not in use.

        Other entries are kept for later checks, or leaked at exit. If the device was freed in a
        reference cycle, its buffers, kernels and queues may be freed after this call.

        `children` are the objects of the device that still exist, as they do at exit. If work of a
        queue did not end, they are leaked, because it may use their memory and code.
        """
        self._gone = True
        self.drain()
        if self.queues:
            for child in list(children):
                _leak(child)
        self.backend.close()


def _reached(point: _Point) -> bool:
    backend, queue, value = point
    return backend.reached(queue) >= value


_unfinished: set[RetireList] = set()
_leaving: list[bool] = []  # not empty once the process exits


def _leak(kept: object) -> None:
    """Adds a reference to `kept` that is never released, not even by the teardown of modules."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


@atexit.register
def _leave() -> None:
    # At exit, the finalizer of a device may run before or after this function. If it ran before,
    # its list is in _unfinished, and this function leaks the list. If it runs after, it finds
    # _leaving set and leaks its list itself.
    _leaving.append(True)
    while _unfinished:
        _leak(_unfinished.pop())
