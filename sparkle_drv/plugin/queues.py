"""The queue half of the Backend protocol for backends written in Python: timelines, epochs, waits,
refusals, and which waits report which failure.

A backend defines two things: how its device gets commands (`start`), and how to ask for the state
of such work (`Work`). The class `Queues` has all other methods that the protocol demands of a
queue:

    self._queues = queues = Queues(self.kernels_loaded, self._start)
    self.launch, self.submit, self.wait = queues.launch, queues.submit, queues.wait   # and so on

This file starts no thread. Each query of a queue's progress polls the work in flight. A wait polls
repeatedly. Between polls, a wait sleeps for a millisecond at most, or until the backend's `News`
arrives.
"""

from __future__ import annotations

import errno
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from sparkle_drv._native import ffi
from sparkle_drv.backends.base import ANY_EPOCH, Progress
from sparkle_drv.core.abi import records
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.plugin.commands import Dispatch, Given, decode
from sparkle_drv.plugin.kernels import Kernels
from sparkle_drv.plugin.ledger import QueueLedger

_FULL_NS = 100_000_000  # how long a submission to a full queue waits; then it fails with -EAGAIN
_SPINS = 20  # polls of a wait before its first sleep
_NAP_S = (20e-6, 1e-3)  # the first and the longest sleep between polls of a wait


class Failed(Exception):
    """Raised by `start` if the device did not get the commands; has an errno and a text.

    >>> raise plugin.Failed(5, "the card is off")
    Traceback (most recent call last):
        ...
    sparkle_drv.plugin.queues.Failed: the card is off
    """

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Work(Protocol):
    """A submission that the device has received.

    >>> abilities.members(plugin.Work)
    ['ended', 'running', 'times', 'words']
    """

    def ended(self) -> int | None:
        """Returns None while the work runs; 0 or -errno once all of it has ended.

        Never blocks, and may be called again. -ENODEV means that the device and all work in flight
        are lost.
        """

    def running(self) -> tuple[int, float]:
        """Returns (index of the running command, seconds since it began).

        The index is -1 if no command has begun.
        """

    def times(self) -> tuple[int, int] | None:
        """Returns (start, end) of ended work in ns of the device clock; None if unknown."""

    def words(self) -> str:
        """Returns the reason why the work failed, as text."""


Start = Callable[[Any, Given, "Sequence[Work]"], Work]
"""start(own, commands, awaited) gives commands to the device, in order, and does not wait.

`own` is the value given to `Queues.open`. `awaited` is work of other queues, still in flight, to
which `Wait`s among the commands refer: no command may begin before all that work has ended. Calls
for one queue do not overlap. Raises Failed.
"""


class News(Protocol):
    """An object that wakes waiting threads, for devices or drivers that can notify.

    >>> abilities.members(plugin.News)
    ['mark', 'wait']
    """

    def mark(self) -> int:
        """Returns a number that grows with each notification."""

    def wait(self, own: Any, mark: int, seconds: float) -> None:
        """Waits until there was a notification since `mark()` returned `mark`.

        Waits at most `seconds`, and may return early. `own` is the backend's part of the queue
        whose work the caller waits for.
        """


class _InFlight:
    __slots__ = ("given", "value", "work")

    work: Work

    def __init__(self, value: int, given: Given) -> None:
        self.value, self.given = value, given


class Timeline:
    """The handle of one queue; `own` is the backend's part of the queue.

    >>> queues = plugin.Queues(plugin.Kernels(dev.info), start=print)
    >>> queues.open(own="mine", timing=True).timing
    True
    """

    def __init__(self, own: Any, timing: bool) -> None:
        self.own = own
        self.timing = timing
        self.submitted = self.reached = 0
        self.closing = False
        self.lock = threading.Lock()  # orders submissions; held while the backend's `start` runs
        self.looking = threading.Lock()  # guards all members below
        self.flight: deque[_InFlight] = deque()
        self.ledger = QueueLedger()


class Queues:
    """All queues of one open device. Any thread may call any method.

    >>> class Done:
    ...     def ended(self): return 0
    ...     def running(self): return -1, 0.0
    ...     def times(self): return None
    ...     def words(self): return ""
    >>> queues = plugin.Queues(plugin.Kernels(dev.info), lambda own, given, awaited: Done())
    >>> queue = queues.open(own="mine", timing=False)
    >>> queues.copy(queue, dst=0x2000, src=0x1000, nbytes=64), queues.reached(queue)
    (1, 1)
    """

    def __init__(
        self, kernels: Kernels, start: Start, *, depth: int = 1024, news: News | None = None
    ) -> None:
        self._kernels = kernels
        self._start = start
        self._depth = depth
        self._news = news
        self._pid = os.getpid()
        self._epoch = 0
        self._epoch_lock = fork_lock()  # reentrant: a signal handler may close objects
        self._open: weakref.WeakValueDictionary[int, Timeline] = weakref.WeakValueDictionary()
        self._lost = ""
        self._closed = False
        self._said = threading.local()

    # The methods from here on are for the backend itself.

    def lose(self, words: str) -> None:
        """Marks the device as lost; `words` is the reason.

        Work in flight fails, and no more work is accepted.
        """
        self._lost = self._lost or words

    def close(self) -> None:
        """Makes all queues refuse new work; work in flight continues."""
        self._closed = True

    @property
    def forked(self) -> bool:
        """True in a forked child of the process that opened the device.

        A forked child must not use the driver.
        """
        return os.getpid() != self._pid

    def open(self, own: Any, timing: bool) -> Timeline:
        """Opens a queue; a backend's `open_queue` calls this."""
        queue = Timeline(own, timing)
        self._open[id(queue)] = queue
        return queue

    def copy(self, queue: Timeline, dst: int, src: int, nbytes: int) -> int:
        """Submits one copy. Returns its timeline value or -errno."""
        return self._submit(queue, records.copy(dst, src, nbytes), ANY_EPOCH)

    def give(self, queue: Timeline, start: Callable[[Any], Work]) -> int:
        """Submits work that has no command record, such as a copy to the host.

        `start(own)` gives the work to the device, as `Start` does. Returns the timeline value of
        the submission or -errno.
        """
        self._said.words = ""
        return self._give(queue, Given(b"", []), ANY_EPOCH, start)

    def queues(self) -> list[Timeline]:
        """Returns all queues whose handles still exist."""
        return [queue for at in self._open.valuerefs() if (queue := at()) is not None]

    def idle(self, queue: Timeline) -> bool:
        """Returns whether all submitted work has ended and more may be submitted."""
        return not self._refusal(queue) and self.reached(queue) == queue.submitted

    # The methods from here on are those of the Backend protocol.

    def close_queue(self, queue: Timeline, timeout_ns: int) -> int:
        if self.forked:
            return -errno.ECHILD
        with queue.lock:
            queue.closing = True
        return self._reach(queue, queue.submitted, timeout_ns)

    def queue_pointer(self, queue: Timeline) -> int:
        return id(queue)

    def epoch(self) -> int:
        return self._epoch

    def advance(self) -> int:
        with self._epoch_lock:
            self._epoch += 1
            return self._epoch

    def check(self, record: bytes, nbytes: int) -> int:
        return self._judge(bytes(record[:nbytes]))[0]

    def launch(self, queue: Timeline, record: bytes, nbytes: int, epoch: int) -> int:
        return self._submit(queue, bytes(record[:nbytes]), epoch)

    def prepare(self, queue: Timeline, record: bytes, epoch: int) -> Any:
        rc = self._refusal(queue) or self._stale(epoch)
        judged, commands = (rc, None) if rc else self._judge(bytes(record))
        if commands is None:
            return judged
        commands.prepared = True
        return queue, commands, epoch

    def run(self, prepared: tuple[Timeline, Given, int]) -> int:
        self._said.words = ""
        return self._give(*prepared)

    def submit(self, queue: Timeline, data: Any, nbytes: int, epoch: int) -> int:
        return self._submit(queue, bytes(ffi.buffer(data, nbytes)) if nbytes else b"", epoch)

    def submitted(self, queue: Timeline) -> int:
        return queue.submitted

    def settled(self, queue: Timeline) -> int:
        # This method must not wait for `queue.lock`, which is held while `start` runs. A finalizer
        # may call this method while `start` runs in the same thread, or in a thread that waits for
        # this one.
        return -errno.EAGAIN if queue.lock.locked() and not self.forked else queue.submitted

    def reached(self, queue: Timeline) -> int:
        if not self.forked and queue.reached < queue.submitted:
            self._try_look(queue)
        return queue.reached

    def _try_look(self, queue: Timeline) -> bool:
        """Polls the queue. Returns False, without a poll, if another thread is polling it."""
        if queue.looking.locked():
            return False
        # acquire(False) is not used: an interrupt just after it would leave the lock held.
        with queue.looking:
            self._look(queue)
        return True

    def wait(self, queue: Timeline, value: int, timeout_ns: int) -> int:
        if self.forked:
            return -errno.ECHILD
        if value > queue.submitted:
            return -errno.EINVAL
        if rc := self._reach(queue, value, timeout_ns):
            return rc
        with queue.looking:
            return queue.ledger.tell(value, queue.submitted)

    def failure(self, queue: Timeline, value: int) -> int:
        if self.forked:
            return -errno.ECHILD
        with queue.looking:
            return queue.ledger.fault(value)[0]

    def fault(self, queue: Timeline, value: int) -> str:
        if self.forked:
            return ""
        with queue.looking:
            return queue.ledger.fault(value)[1]

    def times(self, queue: Timeline, value: int) -> tuple[int, int] | None:
        if self.forked:
            return None
        with queue.looking:
            return queue.ledger.times(value)

    def describe(self, queue: Timeline, value: int) -> Progress | None:
        if self.forked:
            return None
        with queue.looking:
            self._look(queue)
            submission = next((f for f in queue.flight if f.value == value), None)
            if submission is None:
                return None
            index, seconds = (
                submission.work.running() if submission is queue.flight[0] else (-1, 0.0)
            )
        commands = submission.given
        if not 0 <= index < len(commands):
            return Progress(commands.data, len(commands.data), 0, 0, seconds)
        command = commands[index]
        groups = math.prod(command.groups) if isinstance(command, Dispatch) else 0
        return Progress(commands.data, commands.offsets[index], 0, groups, seconds)

    def lost(self) -> str:
        return self._lost

    def said(self) -> str:
        return getattr(self._said, "words", "")

    # Implementation

    def _refusal(self, queue: Timeline) -> int:
        if self.forked:
            return -errno.ECHILD
        if queue.closing or self._closed:
            return -errno.ESHUTDOWN
        return -errno.ENODEV if self._lost else 0

    def _stale(self, epoch: int) -> int:
        return 0 if epoch in (self._epoch, ANY_EPOCH) else -errno.ESTALE

    def _judge(self, data: bytes) -> tuple[int, Given | None]:
        try:
            commands = Given(data, decode(data))
        except ValueError:
            return -errno.EINVAL, None
        for command in commands:
            if isinstance(command, Dispatch) and (rc := self._kernels.check(command)):
                return rc, None
        return 0, commands

    def _submit(self, queue: Timeline, data: bytes, epoch: int) -> int:
        self._said.words = ""
        # -ESTALE means that a close has advanced the device's epoch. The C core then checks the
        # commands again and repeats this call.
        if rc := self._refusal(queue) or self._stale(epoch):
            return rc
        rc, commands = self._judge(data)
        return rc if commands is None else self._give(queue, commands, epoch)

    def _give(
        self, queue: Timeline, commands: Given, epoch: int,
        start: Callable[[Any], Work] | None = None,
    ) -> int:  # fmt: skip
        if rc := self._refusal(queue) or self._stale(epoch) or self._room(queue):
            return rc
        with queue.lock:
            if rc := self._refusal(queue) or self._stale(epoch):
                return rc
            begun = _InFlight(queue.submitted + 1, commands)
            try:
                if start is not None:
                    begun.work = start(queue.own)
                else:
                    begun.work = self._start(queue.own, commands, self._awaited(commands))
            except Failed as error:
                self._said.words = str(error)
                if error.code == errno.ENODEV:
                    self.lose(str(error))
                return -error.code
            # There is no call between `start` and this line. An interrupt during a call would lose
            # the work that `start` has begun.
            queue.submitted = begun.value
            queue.flight.append(begun)
            return begun.value

    def _room(self, queue: Timeline) -> int:
        """Returns 0 if the queue has room, or -EAGAIN if it stays full for 0.1 s."""
        oldest = queue.submitted - self._depth + 1
        if oldest <= queue.reached:
            return 0
        return -errno.EAGAIN if self._reach(queue, oldest, _FULL_NS) else 0

    def _awaited(self, commands: Given) -> list[Work]:
        works: list[Work] = []
        for wait in commands.waits:
            other = self._open.get(wait.queue)
            if other is None:
                continue  # the awaited queue is closed, so its work has ended
            with other.looking:
                self._look(other)
                works += [f.work for f in other.flight if f.value <= wait.value][-1:]
        return works

    def _reach(self, queue: Timeline, value: int, timeout_ns: int) -> int:
        """Waits until submission `value` has ended. Returns 0, even if it failed, or -ETIMEDOUT."""
        deadline = time.monotonic_ns() + timeout_ns
        looks, nap = 0, _NAP_S[0]
        news = self._news
        while queue.reached < value:
            mark = 0 if news is None else news.mark()
            looked = self._try_look(queue)
            if queue.reached >= value:
                break
            left = deadline - time.monotonic_ns()
            if left <= 0:
                return -errno.ETIMEDOUT
            if news is not None and looked:
                news.wait(queue.own, mark, left / 1e9)
                continue
            looks += 1
            if looks > _SPINS:
                time.sleep(min(nap, left / 1e9))
                nap = min(2 * nap, _NAP_S[1])
        return 0

    def _look(self, queue: Timeline) -> None:
        """Updates the queue's `reached` and its QueueLedger (ledger.py) for work that has ended.

        The caller holds the lock `queue.looking`.
        """
        while queue.flight:
            first = queue.flight[0]
            rc = first.work.ended()
            if rc == -errno.ENODEV:
                self.lose(first.work.words())
            if rc is None:
                if not self._lost:
                    return
                rc = -errno.ENODEV
            if rc:
                queue.ledger.failed(first.value, rc, first.work.words() or self._lost)
            elif queue.timing and (span := first.work.times()) is not None:
                queue.ledger.lasted(first.value, span)
            queue.reached = first.value
            queue.flight.popleft()
