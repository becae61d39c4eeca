"""Credit: the bytes that a receiver allows all its senders together to have in flight.

A receiver that stops while megabytes are in flight to it stalls unrelated nodes (Zenoh issue 1876).
With 2 MiB in flight, none of 40 requests between unrelated nodes was lost. With 48 MiB (six times 8
MiB), some were lost.

A sender may be slow, or may send nothing at all. Then its credit lapses, so that others continue.
Bytes that come later nevertheless exceed the total: a slow link holds them, not the receiver.
"""

from __future__ import annotations

import threading
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
Later = Callable[[], None]


def total(limit: Path = RMEM_MAX) -> int:
    """Returns the credit of one endpoint in bytes: TOTAL (2 MiB), or less where Linux limits the
    receive buffer.

    When a receiver has stopped, its receive buffer and the router must hold all bytes in flight to
    that receiver. With 2 MiB in flight and a buffer of 208 KiB, 39 of 40 requests arrived.
    """
    try:
        return min(TOTAL, QUEUED + int(limit.read_text()))
    except (OSError, ValueError):  # the file exists only on Linux
        return TOTAL


class Credit:
    """The credit of one endpoint. Any thread may call its methods. Callbacks run without a lock
    held.
    """

    def __init__(self, total: int = TOTAL) -> None:
        self._lock = threading.Lock()
        self._left = total
        self._clients: dict[str, ClientCredit] = {}
        """Of all clients with sessions, first those whose requests were served longest ago."""

    def admit(self, client: str) -> ClientCredit | None:
        """Takes credit for the window of a new session, WINDOW bytes. Returns the credit that all
        sessions of `client` share, or None if too little credit is left. The name `client` is
        proved in the handshake.
        """
        with self._lock:
            if self._left < WINDOW + BULK:
                return None
            self._left -= WINDOW
            admitted = self._clients.get(client)
            if admitted is None:
                admitted = self._clients[client] = ClientCredit(self, client)
            admitted._sessions += 1
            return admitted

    @property
    def left(self) -> int:
        """Bytes of credit that are free."""
        return self._left

    def _serve(self) -> None:
        """Calls the callbacks of requests for which there is enough credit now."""
        while True:
            with self._lock:
                ready = [each for each in self._clients.values() if each._waiting and each._prompt]
                if not ready:
                    return
                client = min(ready, key=lambda each: each._held)
                later, nbytes = next(iter(client._waiting.items()))
                if nbytes > self._left:
                    return
                del client._waiting[later]
                self._clients[client._name] = self._clients.pop(client._name)
            later()


class ClientCredit:
    """The credit that all sessions of one client share. Any thread may call its methods.

    Free credit goes to the client that holds least. Credit that a client does not use comes back by
    `lapse`. So a client that announces bytes and sends nothing delays others for a moment only.
    """

    def __init__(self, credit: Credit, name: str) -> None:
        """Only `Credit.admit` calls this."""
        self._credit, self._name = credit, name
        self._sessions = self._held = self._late = 0
        self._waiting: dict[Later, int] = {}

    @property
    def _prompt(self) -> bool:
        return self._late <= 0

    def take(self, nbytes: int, later: Later) -> bool:
        """Takes credit for `nbytes`. Returns False if too little credit is left, or if the client
        is late. Then `later` is called once there is enough, and must call `take` again.
        """
        credit = self._credit
        with credit._lock:
            if nbytes <= credit._left and self._prompt:
                credit._left -= nbytes
                self._held += nbytes
                return True
            self._waiting[later] = nbytes
            return False

    def cancel(self, later: Later) -> None:
        """Forgets the request with this callback, if it waits."""
        with self._credit._lock:
            self._waiting.pop(later, None)

    def give(self, nbytes: int) -> None:
        """Gives credit back for bytes that have arrived or will never arrive."""
        self._back(nbytes, nbytes, 0)

    def lapse(self, nbytes: int) -> None:
        """Gives credit back for bytes that are late. The client gets no more credit until `settle`
        was called for them.
        """
        self._back(nbytes, nbytes, nbytes)

    def settle(self, nbytes: int) -> None:
        """Says that late bytes have arrived or will never arrive."""
        self._back(0, 0, -nbytes)

    def dismiss(self) -> None:
        """Gives back the credit that `admit` took for a session, which has ended."""
        with self._credit._lock:
            self._sessions -= 1
            if not self._sessions:
                del self._credit._clients[self._name]
        self._back(WINDOW, 0, 0)

    def _back(self, free: int, reserved: int, late: int) -> None:
        # Threads of one session may call `settle` before `lapse`: the sums are right after both.
        with self._credit._lock:
            self._credit._left += free
            self._held -= reserved
            self._late += late
        self._credit._serve()
