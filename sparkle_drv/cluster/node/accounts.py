"""Account: what all sessions of one client hold together. A client is the name in a certificate,
which the handshake has proved.

Without it, a client would multiply its quotas by the number of its sessions. Bytes are given back
when they are free, not when the session ends: work that a departed client left running still uses
its memory.
"""

from __future__ import annotations

import threading
from collections import deque

from sparkle_drv.cluster.node.quotas import Quotas
from sparkle_drv.cluster.node.transfers import Flight

SHARED = ("memory", "buffers", "flight", "waiting", "sessions")
"""The quotas that hold for all sessions of a client together."""


class Account:
    """Counts what one client holds of the quotas SHARED. Any thread may call any method."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(SHARED, 0)
        self._returned: deque[tuple[str, int]] = deque()
        self.flight = Flight(self)

    def take(self, name: str, count: int = 1) -> None:
        """Counts `count` more. Raises OutOfDeviceMemory or ValueError if that exceeds the quota."""
        with self._lock:
            self._settle()
            self.quotas.check(name, self._counts[name], count)
            self._counts[name] += count

    def give(self, name: str, count: int = 1) -> None:
        """Counts `count` less. Takes no lock: a finalizer may call this while its own thread is
        inside `take`.
        """
        self._returned.append((name, count))

    def held(self, name: str) -> int:
        """Returns how much the client holds of this quota."""
        with self._lock:
            self._settle()
            return self._counts[name]

    @property
    def empty(self) -> bool:
        """Whether the client holds nothing."""
        return not any(self.held(name) for name in SHARED)

    def _settle(self) -> None:
        while self._returned:
            name, count = self._returned.popleft()
            self._counts[name] -= count
