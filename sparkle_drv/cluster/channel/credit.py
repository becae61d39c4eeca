"""How many bytes a receiver lets all its senders together have under way.

A receiver that stops with megabytes under way stalls nodes that have nothing to do with it (Zenoh
issue 1876): 2 MiB lost none of 40 requests of bystanders, 6 x 8 MiB lost some.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from sparkle_drv.cluster.channel.stream import WINDOW

TOTAL = 2 << 20
"""Bytes, the windows of all streams among them."""
BULK = 512 << 10
"""Bytes that must stay for transfers."""
QUEUED = 1 << 20
"""Bytes that a router's queue for one link takes."""
RMEM_MAX = Path("/proc/sys/net/core/rmem_max")


def total(limit: Path = RMEM_MAX) -> int:
    """TOTAL, or less where Linux limits the receive buffer: both together take what is under way
    to a receiver that has stopped. Of 2 MiB and a buffer of 208 KiB, 39 of 40 requests were left.
    """
    try:
        return min(TOTAL, QUEUED + int(limit.read_text()))
    except (OSError, ValueError):  # not Linux
        return TOTAL


class Credit:
    """Of one endpoint. Any thread may call it; callbacks come without a lock held."""

    def __init__(self, total: int = TOTAL) -> None:
        self._lock = threading.Lock()
        self._left = total
        self._queue: deque[tuple[int, Callable[[], None]]] = deque()

    def admit(self) -> bool:
        """Set a stream's window aside for a new session; False: there is none left."""
        with self._lock:
            if self._left < WINDOW + BULK:
                return False
            self._left -= WINDOW
            return True

    def dismiss(self) -> None:
        """A session has ended."""
        self.give(WINDOW)

    def take(self, nbytes: int, later: Callable[[], None]) -> bool:
        """Take credit for so many bytes. False: too little is left; `later` is called when there is
        enough, and asks again."""
        with self._lock:
            if nbytes <= self._left:
                self._left -= nbytes
                return True
            self._queue.append((nbytes, later))
            return False

    def give(self, nbytes: int) -> None:
        """Bytes have arrived, or never will."""
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
        """Bytes that nobody has."""
        return self._left
