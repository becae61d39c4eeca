"""Transfers of a session: bytes that arrive for a request, and bytes that leave after one.

`Flight` limits the bytes that are in flight. Each transfer waits until the limit leaves room for
its bytes. Flight gives room in the order of requests, so that a transfer never waits for a later
one. A transfer of which nothing arrives for SILENT_S raises TimeoutError.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

import numpy as np

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.node.quotas import Quotas

SILENT_S = 10.0
"""Seconds that a transfer waits for its next chunk before it fails."""
ROOM_S = 60.0
"""Seconds that a transfer waits for room before it fails."""
_SLICE_S = 0.25
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


class Flight:
    """Counts the bytes of transfers in flight."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self.taken = 0
        self.ended = False
        """Is the session over? Then nothing waits for bytes any more."""

    def admit(self, nbytes: int, go: Callable[[], None]) -> None:
        """Calls `go` once `nbytes` more bytes may be in flight. The call happens now, or later
        in any thread. Raises ValueError if `nbytes` alone exceeds the quota of bytes in flight.
        """
        self._quotas.check("flight", 0, nbytes)
        with self._lock:
            self._waiting.append((nbytes, go))
        self._next()

    def give(self, nbytes: int) -> None:
        """Counts `nbytes` bytes as no longer in flight, and admits transfers that wait."""
        with self._lock:
            self.taken -= nbytes
        self._next()

    def _next(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                nbytes, go = self._waiting[0]
                if self.taken + nbytes > self._quotas.flight:
                    return
                self._waiting.popleft()
                self.taken += nbytes
            go()


class Room:
    """Host memory for one transfer. `flight` counts its bytes as in flight until the last user
    drops the memory.

    If the client sends, `transfer` is the transfer's number. The node accepts the transfer as soon
    as there is room, so that its bytes travel while earlier work runs. If the node sends,
    `transfer` is 0.
    """

    def __init__(self, channel: Channel, flight: Flight, nbytes: int, transfer: int = 0) -> None:
        """Asks `flight` to admit a transfer of `nbytes`.

        Raises ValueError if `nbytes` exceeds the quota of bytes in flight.
        """
        self._channel, self._flight = channel, flight
        self._nbytes, self._transfer = nbytes, transfer
        self._admitted, self._there = False, threading.Event()
        self._data: Bytes | None = None
        flight.admit(nbytes, self._admit)

    def _admit(self) -> None:
        data = self._data = np.empty(self._nbytes, np.uint8)
        weakref.finalize(data, self._flight.give, self._nbytes)
        self._admitted = True
        if self._transfer:
            self._channel.expect(self._transfer, data.data, self._there.set)
        else:
            self._there.set()

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
            if self._channel.ended or self._flight.ended or time.monotonic() >= end_s:
                self.drop()
                raise TimeoutError(self._late())
        data, self._data = self._data, None
        assert data is not None
        return data

    def drop(self) -> None:
        """Releases the memory of the transfer. Called if nobody will take the transfer's bytes."""
        if self._transfer:
            self._channel.drop(self._transfer)
        self._data = None

    def _late(self) -> str:
        if self._admitted:
            return (
                f"transfer {self._transfer}: expected its {self._nbytes} bytes, got no chunk for "
                f"{SILENT_S:g} s"
            )
        return (
            f"transfer: expected room for {self._nbytes} bytes within {ROOM_S:g} s, got none: "
            f"{self._flight.taken} are in flight"
        )
