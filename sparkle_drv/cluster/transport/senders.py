"""Calls the engine to send messages, usually in the caller's thread, without a thread switch.

Sending a bulk message waits for room in the link, and a suspended receiver gives none. Callers
that send bulk can wait: channel/endpoint.py has a thread for bulk.

A control message never waits for room: it is dropped if the link accepts nothing. While a bulk
message takes long to send, the engine may hold locks, so a separate thread sends control messages.
If sending the bulk message takes longer than WATCHDOG_S, all senders get Stalled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sparkle_drv.cluster.transport.base import Message, MessageLane, Stalled

WATCHDOG_S = 4.0
"""Seconds after which the sending of a message counts as stalled."""
SLOW_S = 0.05
"""If sending a bulk message takes longer than this, the thread sends control messages."""
ROOM = 1024
"""Control messages that may wait for the thread."""

Put = Callable[[str, MessageLane, Message], None]


class Senders:
    """The sending side of one endpoint. Any thread may call it."""

    def __init__(self, put: Put, watchdog_s: float) -> None:
        self._put, self._watchdog_s = put, watchdog_s
        self._bulk = threading.Lock()
        self._began = 0.0
        """When the sending of the current bulk message began; 0 if there is none."""
        self._waiting: list[tuple[str, Message]] = []
        self._changed = threading.Condition()
        self._ended = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="send-control", daemon=True).start()

    def send(self, key: str, lane: MessageLane, message: Message) -> None:
        """Sends a message.

        Raises Stalled if a bulk message, this one or an earlier one, takes too long to send: longer
        than `watchdog_s` seconds.
        """
        began = self._began
        takes_s = time.monotonic() - began if began else 0.0
        if takes_s >= self._watchdog_s:
            raise Stalled(
                f"expected room for a message in the link within {self._watchdog_s:g} s, got none"
            )
        if lane is MessageLane.BULK:
            self._put_bulk(key, message, self._watchdog_s - takes_s)
        elif takes_s < SLOW_S:
            self._put(key, lane, message)
        else:
            with self._changed:
                # If the list is full, the message is dropped, as a link may lose any message.
                if len(self._waiting) < ROOM:
                    self._waiting.append((key, message))
                    self._changed.notify_all()

    def end(self) -> None:
        """Ends the thread that sends control messages, after its current message."""
        with self._changed:
            self._ended = True
            self._waiting.clear()
            self._changed.notify_all()

    def _put_bulk(self, key: str, message: Message, patience_s: float) -> None:
        if not self._bulk.acquire(timeout=patience_s):
            raise Stalled(
                f"expected room for a message in the link within {self._watchdog_s:g} s, got none"
            )
        try:
            self._began = time.monotonic()
            self._put(key, MessageLane.BULK, message)
        finally:
            self._began = 0.0
            self._bulk.release()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                taken, self._waiting = self._waiting, []
            for key, message in taken:
                if self._ended:
                    return
                self._put(key, MessageLane.CONTROL, message)
            if self._ended:
                return
