"""NodeLane: one queue of a session. One thread submits the work in order. Another thread waits for
the submissions in order and reports to the client that they have ended.

The client chooses the timeline values. Work that fails before it runs also reaches its value, with
a fault.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.node import faults
from sparkle_drv.cluster.wire.requests import MOST_WORDS
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue
from sparkle_drv.core.retire import SLICE_NS
from sparkle_drv.errors import SparkleError

log = logging.getLogger("sparkle_drv.cluster")

TOGETHER = 64
"""Ends in one report at most: it carries their faults and times."""
BACKLOG = 4 << 20
"""Bytes of reports and replies that may wait for a client; then the node waits, too."""
BACKLOG_S = 30.0
"""Seconds after which a client that takes nothing is given up."""
_ROOM_S = 3600.0  # the most seconds that a submission waits for room in a full queue


class LaneWork(Protocol):
    """One submission of a lane."""

    def go(self) -> Fence | list[Fence | Exception]:
        """Submits the work. Returns its fence, or for work with several values a list: a fence or
        an error for each value. Raises an exception if the work cannot run.
        """

    def ended(self) -> bool:
        """Called once, when the work has succeeded. Sends to the client what the work produced,
        such as a download's bytes. Returns whether anything was sent.
        """


class NodeLane:
    """A queue of the node's device with its two threads: one submits the client's work, the other
    reports how it ended. The client knows the queue by `number`. Only one thread calls `give`.
    """

    def __init__(self, channel: Channel, number: int, queue: Queue) -> None:
        self._channel, self.number, self.queue = channel, number, queue
        queue.timeout_s = _ROOM_S
        self.given = 0
        """The newest value that it was given."""
        self.reached = 0
        self.lost = ""
        """How the device was lost, if its work noticed that."""
        self._closing: Callable[[], None] | None = None
        self._taken = 0
        self._fences: dict[int, Fence] = {}
        self._changed = threading.Condition()
        self._todo: SimpleQueue[tuple[int, int, LaneWork | Exception] | None] = SimpleQueue()
        self._ends: SimpleQueue[tuple[int, Any, Fence | Exception] | None] = SimpleQueue()
        self._stopped = False
        self._news = _LaneNews(channel, number)
        self.threads = [
            threading.Thread(target=loop, name=f"sparkle-{name}-{number}", daemon=True)
            for name, loop in (("submit", self._submit), ("ends", self._finish))
        ]
        for thread in self.threads:
            thread.start()

    def give(self, value: int, work: LaneWork | Exception, count: int = 1) -> None:
        """Queues `work` for the `count` timeline values that end with `value`. If `work` is an
        exception, these values are reached with that fault. Raises ValueError unless they are
        the queue's next values.
        """
        first = self.given + 1
        if value - count + 1 != first:
            raise ValueError(
                f"value: expected {first}, the next one of queue {self.number}, got {value}"
            )
        self.given = value
        self._todo.put((first, count, work))

    def close(self, closed: Callable[[], None]) -> None:
        """Stops accepting work. The lane's thread calls `closed` when all work has ended."""
        self._closing = closed
        self._todo.put(None)

    def stop(self) -> None:
        """Stops without further reports, since the session is over."""
        self._stopped = True
        with self._changed:
            self._changed.notify_all()
        self._todo.put(None)

    def say(self) -> None:
        """Reports the highest reached value to the client again."""
        self._news.say(self.reached, again=True)

    def fence(self, value: int, timeout_s: float) -> Fence | None:
        """Waits until `value` is submitted. Returns its fence, or None if that submission has
        ended.

        Raises TimeoutError after `timeout_s` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._taken >= value or self._stopped, timeout_s):
                raise TimeoutError(
                    f"wait: expected value {value} of queue {self.number} to be submitted within "
                    f"{timeout_s:g} s, got none"
                )
            return self._fences.get(value)

    def _submit(self) -> None:
        while (item := self._todo.get()) is not None and not self._stopped:
            first, count, work = item
            every: list[Fence | Exception]
            try:
                if isinstance(work, Exception):
                    raise work
                went = work.go()
                every = went if isinstance(went, list) else [went]
            except Exception as error:  # every value of this work fails with this error
                every = [error] * count
            with self._changed:
                self._taken = first + count - 1
                for value, came in enumerate(every, first):
                    if isinstance(came, Fence):
                        self._fences[value] = came
                self._changed.notify_all()
            for value, came in enumerate(every, first):
                if isinstance(came, Exception) and faults.errno_of(came) == errno.EIO:
                    log.error("queue %d: value %d failed", self.number, value, exc_info=came)
                self._ends.put((value, work, came))
            del item, work, every, came
        self._ends.put(None)

    def _finish(self) -> None:
        while True:
            try:
                item = self._ends.get_nowait()
            except Empty:
                self._news.say(self.reached)
                item = self._ends.get()
            if item is None or self._stopped:
                break
            value, work, came = item
            if not self._await(value, came):
                break
            if isinstance(came, Fence) and self._news.well(value):
                self._say_work(value, work)
            self.reached = value
            with self._changed:
                self._fences.pop(value, None)
            if self._news.many:
                self._news.say(value)
            del item, work, came
        if not self._stopped and self._closing is not None:
            self._news.say(self.reached)
            self._closing()

    def _say_work(self, value: int, work: LaneWork) -> None:
        try:
            if work.ended():
                self._news.barrier()
        except Exception as error:
            log.exception("queue %d: value %d ended badly", self.number, value)
            self._news.fault(value, faults.errno_of(error), faults.words_of(error))

    def _await(self, value: int, came: Fence | Exception) -> bool:
        """Waits until the submission with the client's number `value` has ended. `came` is its
        fence, or the exception of submitting it. Tells the client if the submission failed, and
        its start and end times if the queue records times. Returns False if the session is over.
        """
        if isinstance(came, Exception):
            self._fail(value, faults.errno_of(came), faults.words_of(came))
            return True
        backend, handle = self.queue._backend, self.queue._handle
        if not came.done:
            self._news.say(self.reached)
        while (rc := backend.wait(handle, came.value, SLICE_NS)) == -errno.ETIMEDOUT:
            if self._stopped or self._channel.ended:
                return False
        if rc:
            told = self.queue.device._abilities.tells_fault
            words = told.fault(handle, came.value) if told is not None else ""
            self._fail(value, -rc, words)
        # `wait` also raises the failures of other queues for which this queue waited. They are
        # ignored here, because the lanes of those queues report them.
        with contextlib.suppress(SparkleError):
            came.wait(0)  # lets the device release what it keeps for the fence
        if self.queue.timing and (times := backend.times(handle, came.value)) is not None:
            self._news.time(value, *times)
        return True

    def _fail(self, value: int, code: int, words: str) -> None:
        if code in (errno.ENODEV, errno.ESHUTDOWN, errno.ECANCELED) and not self.lost:
            self.lost = words or errno.errorcode[code]
            self._news.lost(self.lost)
        self._news.fault(value, code, words)


class _LaneNews:
    """The reports of one lane. A report without faults and times may replace the report before it.
    It does so if the older report is unsent and has no faults and times, either. All other reports
    are sent.

    Call `barrier` after posting an item that must arrive before the next report. Otherwise the next
    report might take the place of a report that was queued before that item.
    """

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel, self._number = channel, number
        self._lock = threading.Lock()
        self._generation = 0
        self._faults: list[list[Any]] = []
        self._times: list[list[int]] = []
        self._ends = 0
        self._said = 0

    @property
    def many(self) -> bool:
        """Counts one more reached value. Returns whether the count of unreported values is so high
        that the lane must report now.
        """
        self._ends += 1
        return self._ends >= TOGETHER

    def fault(self, value: int, code: int, words: str) -> None:
        with self._lock:
            self._faults.append([value, code, words[:MOST_WORDS]])

    def time(self, value: int, start: int, end: int) -> None:
        with self._lock:
            self._times.append([value, start, end])

    def well(self, value: int) -> bool:
        """Returns whether the submission with this timeline value ended without a fault."""
        return not self._faults or self._faults[-1][0] != value

    def barrier(self) -> None:
        with self._lock:
            self._generation += 1

    def lost(self, words: str) -> None:
        self._channel.post({"on": "lost", "words": words[:MOST_WORDS]})
        self.barrier()

    def say(self, reached: int, again: bool = False) -> None:
        with self._lock:
            if reached == self._said and not (again or self._faults or self._times):
                return
            self._said = reached
            faults, self._faults = self._faults, []
            times, self._times = self._times, []
            self._ends = 0
            item = {
                "on": "timeline", "queue": self._number, "reached": reached, "faults": faults,
                "times": times,
            }  # fmt: skip
            key = None if faults or times else ("timeline", self._number, self._generation)
            if key is None:
                self._generation += 1
            await_room(self._channel)
            self._channel.post(item, key)
        self._channel.flush()


def await_room(channel: Channel) -> None:
    """Waits while more than BACKLOG bytes are queued for the client. After BACKLOG_S the session
    ends.
    """
    end_s = time.monotonic() + BACKLOG_S
    while channel.backlog > BACKLOG and not channel.ended:
        if time.monotonic() >= end_s:
            channel.end(f"{BACKLOG} bytes of news were not taken within {BACKLOG_S:g} s")
        time.sleep(0.01)
