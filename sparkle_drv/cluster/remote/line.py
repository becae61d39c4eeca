"""RemoteTimeline: the client's state of one queue of the node. RemoteWork: one submission to it."""

from __future__ import annotations

import errno
import threading
import time
from typing import Any, Protocol

from sparkle_drv.cluster.wire.values import Damaged

# Limit of the faults that a queue keeps until they are read. Also the limit of the pairs (start,
# end) that it keeps, one for each submission that ran.
_KEPT = 4096


class Read:
    """A download in progress on the queue `line`. The queue reaches `value` once the bytes are in
    `into`.
    """

    __slots__ = ("into", "line", "value")

    def __init__(self, line: RemoteTimeline, value: int, into: memoryview) -> None:
        self.line, self.value, self.into = line, value, into


class RemoteTimeline:
    """The client's state of one queue of the node. `lock` is the session's lock, which guards all
    state that reports of the node change.
    """

    def __init__(self, number: int, timing: bool, lock: threading.Condition) -> None:
        self.number, self.timing = number, timing
        self.submitted = 0
        self.heard_s = time.monotonic()
        """When the node last reported on it, or was asked to."""
        self._lock = lock
        self._told = 0
        self._faults: dict[int, tuple[int, str]] = {}
        self._times: dict[int, tuple[int, int]] = {}
        self._reads: dict[int, Read] = {}

    def reads(self, read: Read) -> None:
        """Adds a download. Called before its submission is posted."""
        with self._lock:
            self._reads[read.value] = read

    def arrived(self, read: Read) -> None:
        """Removes a download whose bytes have arrived."""
        with self._lock:
            self._reads.pop(read.value, None)

    def tell(self, reached: int, faults: list[Any], times: list[Any]) -> list[Read]:
        """Updates this copy of a queue of the node from the node's report. The caller holds the
        lock. Returns the failed downloads. Raises Damaged for a report that is malformed.
        """
        self.heard_s = time.monotonic()
        failed = []
        for fault in faults:
            value, code, words = _fields(fault, int, int, str)
            self._faults[value] = code if 0 < code < 4096 else errno.EIO, words[:2000]
            if (read := self._reads.pop(value, None)) is not None:
                failed.append(read)
        for span in times if self.timing else ():
            value, start, end = _fields(span, int, int, int)
            self._times[value] = start, end
        for kept in (self._faults, self._times):
            while len(kept) > _KEPT:
                del kept[next(iter(kept))]
        self._told = max(self._told, reached)
        return failed

    @property
    def done(self) -> int:
        """The value up to which all work has ended and all downloaded bytes have arrived."""
        with self._lock:
            first = next(iter(self._reads), 0)
            return min(self._told, first - 1) if first else self._told

    def fault(self, value: int) -> tuple[int, str]:
        """Returns (errno, text) of the fault of the submission that reaches `value`, and forgets
        the fault. Returns (0, "") if no fault is known.
        """
        return self._faults.pop(value, (0, ""))

    def times(self, value: int) -> tuple[int, int] | None:
        """Returns (start, end) in ns of the submission that reaches `value`, and forgets them.

        Returns None if the times are unknown.
        """
        return self._times.pop(value, None)


def _fields(entry: Any, *kinds: type) -> Any:
    if type(entry) is not list or [type(field) for field in entry] != list(kinds):
        wanted = ", ".join(kind.__name__ for kind in kinds)
        raise Damaged(f"timeline: faults, times: expected entries of ({wanted}), got another value")
    return entry


class CatchesUp(Protocol):
    """The method of `Mirrors` (mirror.py) that says whether local copies are up to date."""

    def caught_up(self, line: RemoteTimeline, value: int) -> bool:
        """Returns whether all mirrors contain the results of the queue's submission `value`."""


class RemoteWork:
    """One submission, as a plugin.Work. Reports of the node say whether it has ended."""

    __slots__ = ("_commands", "_line", "_mirrors", "_posted_s", "_rc", "_value", "_words")

    def __init__(
        self, line: RemoteTimeline, value: int, commands: int, mirrors: CatchesUp | None
    ) -> None:
        self._line, self._value, self._commands, self._mirrors = line, value, commands, mirrors
        self._posted_s = time.monotonic()
        self._rc: int | None = None
        self._words = ""

    def ended(self) -> int | None:
        if self._rc is None and self._line.done >= self._value:
            mirrors = self._mirrors
            if mirrors is not None and not mirrors.caught_up(self._line, self._value):
                return None
            code, self._words = self._line.fault(self._value)
            self._rc = -code
        return self._rc

    def running(self) -> tuple[int, float]:
        # (index of the running command, seconds since the submission was posted). The index is -1
        # for several commands, because only the node knows which one is running.
        return (0 if self._commands == 1 else -1), time.monotonic() - self._posted_s

    def times(self) -> tuple[int, int] | None:
        return self._line.times(self._value)

    def words(self) -> str:
        return self._words
