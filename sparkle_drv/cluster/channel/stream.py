"""The ordered stream of one direction: numbered items, sent again until they are acknowledged.

Not locked: the channel's lock is. Items are packed msgpack values; a key lets a newer item replace
one that has not been sent yet.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Hashable

WINDOW = 64 << 10
"""Bytes of items that may be on their way unacknowledged: a receiver's share for this session."""
AHEAD = 4096  # items that may arrive before those in front of them


class _Item:
    __slots__ = ("data", "follows", "key", "number")

    def __init__(self, data: bytes, key: Hashable, follows: Hashable) -> None:
        self.data, self.key, self.follows, self.number = data, key, follows, 0


class Outgoing:
    """What this end sends."""

    def __init__(self) -> None:
        self._waiting: deque[_Item] = deque()
        self._keyed: dict[Hashable, _Item] = {}
        self._sent: deque[_Item] = deque()
        self._sent_nbytes = 0
        self._waiting_nbytes = 0
        self._next = 0
        self.sent_at = 0.0
        """When the oldest unacknowledged item was sent last."""

    def post(self, data: bytes, key: Hashable = None, follows: Hashable = None) -> None:
        """Append an item; one of the same key that still waits is replaced in its place. So is the
        last one, if it waits and has the same `follows`."""
        old = self._keyed.get(key)
        if follows is not None and self._waiting and self._waiting[-1].follows == follows:
            old = self._waiting[-1]
        if old is not None:
            self._waiting_nbytes += len(data) - len(old.data)
            old.data = data
            return
        item = _Item(data, key, follows)
        if key is not None:
            self._keyed[key] = item
        self._waiting.append(item)
        self._waiting_nbytes += len(data)

    @property
    def nbytes(self) -> int:
        """Of all that has not arrived."""
        return self._waiting_nbytes + self._sent_nbytes

    @property
    def waiting(self) -> bool:
        """Is there an item that was never sent, and room for it?"""
        return bool(self._waiting) and (
            not self._sent or self._sent_nbytes + len(self._waiting[0].data) <= WINDOW
        )

    @property
    def unacknowledged(self) -> bool:
        return bool(self._sent)

    @property
    def idle(self) -> bool:
        """Has everything arrived?"""
        return not self._waiting and not self._sent

    def take(self, now: float) -> tuple[int, bytes] | None:
        """(number of the first, payload) of the next DATA frame; None: nothing may be sent."""
        taken: list[_Item] = []
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
        """All that is unacknowledged, as one payload."""
        self.sent_at = now
        return _payload(self._sent)

    def acknowledged(self, below: int, now: float) -> None:
        """Everything below that number has arrived."""
        while self._sent and self._sent[0].number < below:
            self._sent_nbytes -= len(self._sent.popleft().data)
            self.sent_at = now


def _payload(items: deque[_Item] | list[_Item]) -> tuple[int, bytes] | None:
    if not items:
        return None
    head = struct.pack(">BI", 0xDD, len(items))  # msgpack's array 32
    return items[0].number, head + b"".join([item.data for item in items])


class Incoming:
    """What the other end sends."""

    def __init__(self) -> None:
        self.expected = 0
        """The number of the first item that has not arrived."""
        self._ahead: dict[int, object] = {}

    def take(self, first: int, items: list[object]) -> list[object]:
        """The items that are new and in order now."""
        for number, item in enumerate(items, first):
            if self.expected <= number < self.expected + AHEAD:
                self._ahead[number] = item
        ready = []
        while self.expected in self._ahead:
            ready.append(self._ahead.pop(self.expected))
            self.expected += 1
        return ready
