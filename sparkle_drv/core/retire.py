"""RetireList: objects that were closed or forgotten while their device may still use them.

Each queue has a newest value at the time when the object is closed. The object is freed when every
queue has reached that value.

KeyboardInterrupt and MemoryError may arrive between any two steps, so no step takes an entry out of
one place before another place has it. The list keeps an object from the moment when the device
makes it. An entry stays in the list until it is freed. One atomic `pop` from the entry itself
decides which thread frees it.

Finalizers may run anywhere, also inside calls of this package, so nothing here takes a lock.
Changes of lists, dicts and sets are atomic, and so are copies of a list and of a dict's values.

If the device of a retire list is gone and the list still has entries, the list stays in
`_unfinished`. Other retire lists check such a list when they drain. Entries still in use at the end
of the process are leaked, because freeing memory or code under a running kernel would crash.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeAlias

from sparkle_drv.backends.base import Backend

SLICE_NS = 100_000_000  # one wait in C is at most this long, so that Ctrl-C is noticed
# How long a finalizer waits for work, and how long an `__exit__` waits after Ctrl-C.
BRIEFLY_S = 1.0
# Concerns a retire list whose device is gone. If one check of such a list took t seconds, the next
# check comes at least SPACED * t seconds later.
SPACED = 20
_UNSETTLED = 1 << 64  # stands for a timeline value that the backend does not know yet
_CLOSED = _UNSETTLED + 1  # stands for a timeline value; reached once the queue is closed
_Point: TypeAlias = tuple[Backend, Any, int]  # (backend, queue handle, value it must reach)
# An entry waits for its points. A reference to a Pin counts as reached once the pin has ended.
_Points: TypeAlias = "list[_Point | weakref.ref[Pin]]"
# A list of one function to call, or objects to release.
_Release: TypeAlias = list[Callable[[], object]] | tuple[object, ...]
Entry: TypeAlias = tuple[_Release, _Points]


class Pin:
    """Lives as long as a call that uses an entry's memory: a local variable of the call has the
    only reference. So every way out of the call ends it, without another step. Only a traceback
    keeps the variable longer, so the call clears it in a `finally`.
    """

    __slots__ = ("__weakref__",)


class RetireList:
    """The retire list of one device. It outlives the device while it has entries."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        # id(handle) -> (the backend's queue handle, its owner, the entry that closes it), until the
        # queue is closed
        self.queues: dict[int, tuple[Any, weakref.ref[Any], Entry]] = {}
        # The entries of objects that exist, with the objects. id(entry) is the key here and below.
        self._existing: dict[int, tuple[Entry, weakref.ref[Any]]] = {}
        self._entries: dict[int, Entry] = {}
        # native/hot/launch/fence.c calls `drain` only while one of these is not empty.
        self.pending: tuple[Sized, ...] = (self._entries, _unfinished)
        self._gone = False  # True once the Device object is gone
        # The retire lists of other devices drain this list too, but not before this time
        # (time.monotonic()).
        self._next_s = 0.0
        _lists.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    def own(self, owner: object, release: Callable[[], object]) -> Entry:
        """Returns an entry that keeps the memory of `owner`, which `release` frees, for `retire`.

        The list has the entry from now on. So no interrupt of a finalizer can lose the memory.
        """
        entry: Entry = [release], []
        self._existing[id(entry)] = entry, weakref.ref(owner)
        return entry

    def retire(self, entry: Entry, *pins: weakref.ref[Pin]) -> None:
        """Frees an entry of `own` once `pins` have ended and no earlier submission can use it.

        A second call for the same entry does nothing.
        """
        # _UNSETTLED stands for the values that the device's own queues must reach. They are looked
        # up once the pins have ended, because their calls may submit until then.
        points = entry[1]
        points += pins
        points += [(self.backend, queue, _UNSETTLED) for queue, *_ in list(self.queues.values())]
        self._entries[id(entry)] = entry
        self._existing.pop(id(entry), None)
        self.drain()

    def retire_forgotten(self) -> None:
        """Retires the entries and closes the queues whose owners are gone. There are such only if
        an interrupt ended a constructor or a finalizer.
        """
        for entry, owner in list(self._existing.values()):
            if owner() is None:
                self.retire(entry)
        for queue in self.ownerless():
            self.forget(id(queue), 0)

    def ownerless(self) -> list[Any]:
        """Returns the open queues whose owners are gone. Their work may go on."""
        return [queue for queue, owner, _ in list(self.queues.values()) if owner() is None]

    def hold(self, queue: Any, value: int, *objects: object) -> None:
        """Keeps `objects` alive until `queue` has reached `value`."""
        self._add((objects, [(self.backend, queue, value)]))
        self.drain()

    @contextlib.contextmanager
    def holding(self, queue: Any, *objects: object) -> Iterator[None]:
        """Keeps `objects` alive until `queue` has reached the submissions of the `with` block.

        The entry is added before the block begins. If a `hold` followed the launch instead, an
        interrupt between them would lose the objects. After an interrupt inside this function the
        entry waits for all submissions up to the next `drain`.
        """
        pin = Pin()
        points: _Points = [weakref.ref(pin), (self.backend, queue, _UNSETTLED)]
        self._add((objects, points))
        try:
            yield
        finally:
            points[1] = (self.backend, queue, self.backend.submitted(queue))
            points[0] = points[1]
            objects = ()  # a traceback may keep the variables of this call
            self.drain()

    def _add(self, entry: Entry) -> None:
        self._entries[id(entry)] = entry

    def keeping(self, queue: Any) -> tuple[Callable[[int, Entry], None], Backend, Any]:
        """Returns (function that adds an entry by its id to this list, backend, queue).
        native/hot/launch/keep_alive.c does `hold` with these, where no interrupt can stop it
        halfway.
        """
        return self._entries.__setitem__, self.backend, queue

    def drain(self) -> None:
        """Frees the entries that no queue uses any more, also in lists whose device is gone."""
        self._look()
        for other in list(_unfinished):
            began_s = time.monotonic()
            if began_s < other._next_s:
                continue  # a device that hangs must not slow down the others
            other._look()
            if not other._entries:
                try:
                    _unfinished.discard(other)
                finally:  # another thread may have added an entry just before `discard`
                    if other._entries:
                        _unfinished.add(other)
            ended_s = time.monotonic()
            other._next_s = ended_s + SPACED * (ended_s - began_s)

    def _look(self) -> None:
        try:
            for entry in list(self._entries.values()):
                if not self._passed(entry[1]):
                    continue
                release = entry[0]
                if isinstance(release, list):
                    try:
                        free = release.pop()
                    except IndexError:  # another call has popped the function
                        pass
                    else:
                        free()
                self._entries.pop(id(entry), None)
        finally:
            if self._gone and self._entries:
                _leak(self) if _leaving else _unfinished.add(self)

    def _passed(self, points: _Points) -> bool:
        """Returns whether each point (backend, queue, value) is reached: the queue's timeline has
        the value or more.
        """
        for point in points:
            if isinstance(point, weakref.ref) and point() is not None:
                return False
        for i, point in enumerate(points):
            if isinstance(point, weakref.ref):
                continue
            backend, queue, value = point
            if value == _UNSETTLED and (settled := backend.settled(queue)) >= 0:
                points[i] = backend, queue, settled
            elif value == _CLOSED and (id(queue) not in self.queues or self.end(queue, 0)):
                points[i] = backend, queue, 0
        return all(isinstance(p, weakref.ref) or p[0].reached(p[1]) >= p[2] for p in points)

    def opened(self, owner: object, queue: Any) -> int:
        """Adds the open queue of `owner`, until `end` has closed it. Returns a key for `forget`."""
        entry: Entry = (), [(self.backend, queue, _CLOSED)]
        self.queues[id(queue)] = queue, weakref.ref(owner), entry
        return id(queue)

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

    def forget(self, key: int, timeout_ns: int) -> None:
        """Closes the queue of a key from `opened`, to which nothing refers. If work still runs in
        the queue after `timeout_ns`, a later call of `drain` closes the queue.

        A finalizer that an interrupt ends stays in the registry of `weakref`, with its arguments.
        So its argument is the key, because the handle keeps the native queue.
        """
        if (known := self.queues.get(key)) and not self.end(known[0], timeout_ns):
            self._add(known[2])
        self.drain()

    def abandon(self, children: Iterable[object] = ()) -> None:
        """Closes the backend of a device that is gone, and frees the entries that are not in use.

        Other entries are kept for later checks, or leaked at exit. If the device was freed in a
        reference cycle, its buffers, kernels and queues may be freed after this call.

        `children` are the objects of the device that still exist, as they do at exit. If work of a
        queue did not end, they are leaked, because it may use their memory and code.
        """
        self._gone = True
        self.retire_forgotten()
        if self._entries:
            _unfinished.add(self)
        _lists.discard(self)
        self.drain()
        if self.queues:
            for child in list(children):
                _leak(child)
        self.backend.close()


_lists: set[RetireList] = set()  # the lists of devices that are not gone
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
