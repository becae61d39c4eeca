"""The ordered stream of one direction: numbered items, sent again until they are acknowledged.

The channel's lock guards the stream. Items are packed msgpack values. An item with a key replaces
an unsent item of the same key.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Hashable

WINDOW = 64 << 10
"""Bytes of unacknowledged items in flight at most: a receiver's share for this session."""
AHEAD = 4096  # an end drops items whose numbers are this far beyond the expected one, or farther


class _StreamItem:
    __slots__ = ("data", "follows", "key", "number")

    def __init__(self, data: bytes, key: Hashable, follows: Hashable) -> None:
        self.data, self.key, self.follows, self.number = data, key, follows, 0


class Outgoing:
    """The items that this end sends."""

    def __init__(self) -> None:
        self._waiting: deque[_StreamItem] = deque()
        self._keyed: dict[Hashable, _StreamItem] = {}
        self._sent: deque[_StreamItem] = deque()
        self._sent_nbytes = 0
        self._waiting_nbytes = 0
        self._next = 0
        self.sent_at = 0.0
        """When the oldest unacknowledged item was last sent."""

    def post(self, data: bytes, key: Hashable = None, follows: Hashable = None) -> None:
        """Appends an item, or replaces an unsent item by it.

        The item replaces the last unsent item if that has the same `follows`. Otherwise it replaces
        the unsent item with the same key, if there is one.
        """
        old = self._keyed.get(key)
        if follows is not None and self._waiting and self._waiting[-1].follows == follows:
            old = self._waiting[-1]
        if old is not None:
            self._waiting_nbytes += len(data) - len(old.data)
            old.data = data
            return
        item = _StreamItem(data, key, follows)
        if key is not None:
            self._keyed[key] = item
        self._waiting.append(item)
        self._waiting_nbytes += len(data)

    @property
    def nbytes(self) -> int:
        """Bytes of all items that are not acknowledged."""
        return self._waiting_nbytes + self._sent_nbytes

    @property
    def waiting(self) -> bool:
        """Whether there is an unsent item and room for it in the window."""
        return bool(self._waiting) and (
            not self._sent or self._sent_nbytes + len(self._waiting[0].data) <= WINDOW
        )

    @property
    def unacknowledged(self) -> bool:
        return bool(self._sent)

    @property
    def idle(self) -> bool:
        """Whether all items are acknowledged."""
        return not self._waiting and not self._sent

    def take(self, now: float) -> tuple[int, bytes] | None:
        """Returns the first item's number and the payload of the next DATA frame, or None if no
        item may be sent now.
        """
        taken: list[_StreamItem] = []
        while self.waiting:
            item = self._waiting.popleft()
            if item.key is not None:
                del self._keyed[item.key]
            item.number = self._next
            self._next += 1
            if not self._sent:
                self.sent_at = now
            self._sent.append(item)
            self._sent_nbytes += len(item.data)
            self._waiting_nbytes -= len(item.data)
            taken.append(item)
        return _payload(taken)

    def again(self, now: float) -> tuple[int, bytes] | None:
        """Returns the number of the first unacknowledged item, and a payload with all
        unacknowledged items, to send them again. Returns None if there are none.
        """
        self.sent_at = now
        return _payload(self._sent)

    def acknowledged(self, below: int, now: float) -> None:
        """Forgets the items with numbers below `below`, which have arrived."""
        while self._sent and self._sent[0].number < below:
            self._sent_nbytes -= len(self._sent.popleft().data)
            self.sent_at = now


def _payload(items: deque[_StreamItem] | list[_StreamItem]) -> tuple[int, bytes] | None:
    if not items:
        return None
    head = struct.pack(">BI", 0xDD, len(items))  # msgpack's type array 32
    return items[0].number, head + b"".join([item.data for item in items])


class Incoming:
    """The items that the other end sends."""

    def __init__(self) -> None:
        self.expected = 0
        """Number of the first item that has not arrived."""
        self._ahead: dict[int, tuple[object, int]] = {}
        self._ahead_nbytes = 0

    def take(self, first: int, items: list[object], nbytes: int) -> list[object]:
        """Stores received items, which arrived in `nbytes` bytes. Returns the items that are now in
        order and were not returned before.

        Items ahead of the expected one are dropped beyond twice the bytes of a sender's window: a
        sender that keeps to its window never has so many.
        """
        each = nbytes // max(1, len(items)) + 1
        ready = []
        for number, item in enumerate(items, first):
            if number == self.expected:
                ready.append(item)
                ready += self._next()
            elif self._fits(number, each):
                self._ahead[number] = item, each
                self._ahead_nbytes += each
        return ready

    def _fits(self, number: int, nbytes: int) -> bool:
        return (
            self.expected < number < self.expected + AHEAD
            and number not in self._ahead
            and self._ahead_nbytes + nbytes <= 2 * WINDOW
        )

    def _next(self) -> list[object]:
        """Counts the expected item as arrived. Returns the items stored behind it."""
        self.expected += 1
        ready = []
        while self.expected in self._ahead:
            item, nbytes = self._ahead.pop(self.expected)
            self._ahead_nbytes -= nbytes
            self.expected += 1
            ready.append(item)
        return ready
