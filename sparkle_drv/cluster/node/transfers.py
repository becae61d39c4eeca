"""Transfers of a session: bytes that arrive for a request, and bytes that leave after one.

`Flight` limits the bytes that a client has in flight. Each transfer waits until the limit leaves
room for its bytes. Flight gives room in the order of requests, so that a transfer never waits for a
later one. A transfer of which nothing arrives for SILENT_S raises TimeoutError.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from typing import Protocol

import numpy as np

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.node.quotas import Quotas

SILENT_S = 10.0
"""Seconds that a transfer waits for its next chunk before it fails."""
ROOM_S = 60.0
"""Seconds that a transfer waits for room before it fails."""
_SLICE_S = 0.25
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


class Budget(Protocol):
    """The part of an Account (accounts.py) that counts bytes in flight."""

    quotas: Quotas

    def take(self, name: str, count: int) -> None:
        """Counts `count` more. Raises ValueError if that exceeds the quota `name`."""

    def give(self, name: str, count: int) -> None:
        """Counts `count` less."""


class Flight:
    """Admits the transfers of all sessions of a client, in the order in which they ask."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._waiting: deque[Room] = deque()
        self._changed = False

    def admit(self, room: Room) -> None:
        """Calls `room.open` once its bytes may be in flight. The call happens now, or later in any
        thread. Raises ValueError if these bytes alone exceed the quota of bytes in flight.
        """
        self._budget.quotas.check("flight", 0, room.nbytes)
        self._waiting.append(room)
        self.advance()

    def give(self, nbytes: int) -> None:
        """Counts `nbytes` bytes as no longer in flight, and admits transfers that wait."""
        self._budget.give("flight", nbytes)
        self.advance()

    def advance(self) -> None:
        """Admits the transfers for which there is room now. Never waits for a lock, since a
        finalizer may call this inside itself. The thread with the lock then looks once more.
        """
        self._changed = True
        while self._changed and self._lock.acquire(blocking=False):
            admitted: list[Room] = []
            try:
                self._changed = False
                self._admit_into(admitted)
            finally:
                self._lock.release()
            for room in admitted:
                room.open()

    def _admit_into(self, admitted: list[Room]) -> None:
        while self._waiting:
            room = self._waiting[0]
            if not room.over:
                try:
                    self._budget.take("flight", room.nbytes)
                except ValueError:
                    return
                admitted.append(room)
            self._waiting.popleft()


class Room:
    """Host memory for one transfer. `flight` counts its bytes as in flight until the last user
    drops the memory.

    If the client sends, `transfer` is the transfer's number. The node accepts the transfer as soon
    as there is room, so that its bytes travel while earlier work runs. If the node sends,
    `transfer` is 0.
    """

    def __init__(
        self, channel: Channel, flight: Flight, ended: threading.Event, nbytes: int,
        transfer: int = 0,
    ) -> None:  # fmt: skip
        """Asks `flight` to admit a transfer of `nbytes`. `ended` is set when the session is over.

        Raises ValueError if `nbytes` exceeds the quota of bytes in flight.
        """
        self._channel, self._flight, self._ended = channel, flight, ended
        self.nbytes, self._transfer = nbytes, transfer
        self._admitted, self._dropped, self._there = False, False, threading.Event()
        self._data: Bytes | None = None
        flight.admit(self)

    @property
    def over(self) -> bool:
        """Whether nobody will take the bytes any more."""
        return self._dropped or self._ended.is_set()

    def open(self) -> None:
        """Makes the memory and accepts the transfer; Flight calls this once."""
        try:
            data = np.empty(self.nbytes, np.uint8)
        except MemoryError:  # `take` then raises TimeoutError; this thread may serve others
            self._flight.give(self.nbytes)
            return
        weakref.finalize(data, self._flight.give, self.nbytes)
        self._data, self._admitted = data, True
        if self._transfer:
            self._channel.expect(self._transfer, data.data, self._there.set)
        else:
            self._there.set()
        if self.over:  # dropped meanwhile
            self.drop()

    def take(self) -> Bytes:
        """Waits for the transfer's bytes and returns the memory that holds them. Call it once.

        Raises TimeoutError if Flight admits no transfer of this size within ROOM_S, if no chunk
        arrives for SILENT_S, or if the session ends.
        """
        left, end_s = -1, time.monotonic() + ROOM_S
        while not self._there.wait(_SLICE_S):
            now = self._channel.missing(self._transfer) if self._admitted else -1
            if now != left:
                left, end_s = now, time.monotonic() + SILENT_S
            if self._channel.ended or self._ended.is_set() or time.monotonic() >= end_s:
                self.drop()
                raise TimeoutError(self._late())
        data, self._data = self._data, None
        if data is None:
            raise TimeoutError(self._late())
        return data

    def drop(self) -> None:
        """Releases the memory of the transfer. Called if nobody will take the transfer's bytes."""
        self._dropped = True
        if self._transfer:
            self._channel.drop(self._transfer)
        self._data = None

    def _late(self) -> str:
        if self._admitted:
            return (
                f"transfer {self._transfer}: expected its {self.nbytes} bytes, got no chunk for "
                f"{SILENT_S:g} s"
            )
        return f"transfer: expected room for {self.nbytes} bytes within {ROOM_S:g} s, got none"
