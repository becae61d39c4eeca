"""Credit: the bytes that a receiver allows all its senders together to have in flight.

A receiver that stops with megabytes in flight stalls unrelated nodes (Zenoh issue 1876). With 2 MiB
none of 40 requests of bystanders was lost, with 6 x 8 MiB some were.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from sparkle_drv.cluster.channel.stream import WINDOW

TOTAL = 2 << 20
"""Bytes in all, including the windows of all streams."""
BULK = 512 << 10
"""Bytes that must remain for transfers."""
QUEUED = 1 << 20
"""Bytes that a router's queue for one link holds."""
RMEM_MAX = Path("/proc/sys/net/core/rmem_max")


def total(limit: Path = RMEM_MAX) -> int:
    """TOTAL, or less where Linux limits the receive buffer. Buffer and router must hold all bytes
    in flight to a receiver that has stopped. With 2 MiB and a buffer of 208 KiB, 39 of 40 requests
    arrived.
    """
    try:
        return min(TOTAL, QUEUED + int(limit.read_text()))
    except (OSError, ValueError):  # not Linux
        return TOTAL


class Credit:
    """The credit of one endpoint. Any thread may call it; callbacks come without a lock held."""

    def __init__(self, total: int = TOTAL) -> None:
        self._lock = threading.Lock()
        self._left = total
        self._queue: deque[tuple[int, Callable[[], None]]] = deque()

    def admit(self) -> bool:
        """Reserves a stream's window for a new session. False if too little is left."""
        with self._lock:
            if self._left < WINDOW + BULK:
                return False
            self._left -= WINDOW
            return True

    def dismiss(self) -> None:
        """Returns the window of a session that has ended."""
        self.give(WINDOW)

    def take(self, nbytes: int, later: Callable[[], None]) -> bool:
        """Takes credit for `nbytes`. False if too little is left: `later` is called once there is
        enough, and must call again."""
        with self._lock:
            if nbytes <= self._left:
                self._left -= nbytes
                return True
            self._queue.append((nbytes, later))
            return False

    def give(self, nbytes: int) -> None:
        """Returns credit for bytes that have arrived or never will."""
        with self._lock:
            self._left += nbytes
        while True:
            with self._lock:
                if not self._queue or self._queue[0][0] > self._left:
                    return
                _, later = self._queue.popleft()
            later()

    @property
    def left(self) -> int:
        """Bytes of credit that are free."""
        return self._left
