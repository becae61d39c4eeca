"""Who calls the engine to send: a thread, or for control the caller itself while all is well.

A put of bulk waits for room in the link, which a suspended receiver does not give. A thread waits
in its place, so nobody else is held up. Control never waits for room: when a link takes nothing, it
is dropped. The caller puts it itself, which saves changes of threads. While a put of bulk takes
long, control goes by its thread, too: the engine may hold locks meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sparkle_drv.cluster.transport.base import Lane, Stalled

WATCHDOG_S = 4.0
"""A put that takes longer is a stall."""
SLOW_S = 0.05
"""A put of bulk that takes longer makes control go by its thread."""
ROOM = {Lane.CONTROL: 1024, Lane.BULK: 16}
"""Messages that wait for the thread of a lane; it takes all of them at once."""

Put = Callable[[str, Lane, bytes], None]


class Senders:
    """A thread for each lane."""

    def __init__(self, put: Put, watchdog_s: float) -> None:
        self._lanes = {lane: _Sender(put, lane, watchdog_s) for lane in Lane}
        self._put = put

    def start(self) -> None:
        for lane, sender in self._lanes.items():
            name = f"send-{lane.value}"
            threading.Thread(target=sender.run, name=name, daemon=True).start()

    def send(self, key: str, lane: Lane, message: bytes) -> None:
        """Stalled if the watchdog has waited for room."""
        if lane is Lane.CONTROL and self._lanes[Lane.BULK].takes_s() < SLOW_S:
            self._put(key, lane, message)
        else:
            self._lanes[lane].hand_over(key, message)

    def end(self) -> None:
        """The threads end with the message that they have."""
        for sender in self._lanes.values():
            sender.end()


class _Sender:
    def __init__(self, put: Put, lane: Lane, watchdog_s: float) -> None:
        self._put, self._lane, self._watchdog_s = put, lane, watchdog_s
        self._waiting: list[tuple[str, bytes]] = []
        self._changed = threading.Condition()
        self._ended = False
        self._began = 0.0
        """When the put of this moment began; 0: no put."""

    def takes_s(self) -> float:
        began = self._began
        return time.monotonic() - began if began else 0.0

    def hand_over(self, key: str, message: bytes) -> None:
        patience_s = self._watchdog_s - self.takes_s()
        with self._changed:
            if patience_s <= 0 or not self._changed.wait_for(self._has_room, patience_s):
                raise Stalled(f"the link took no message for {self._watchdog_s:g} s")
            self._waiting.append((key, message))
            if len(self._waiting) == 1:
                self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._waiting.clear()
            self._changed.notify_all()

    def run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                taken, self._waiting = self._waiting, []
                self._changed.notify_all()
            for key, message in taken:
                if self._ended:
                    return
                self._began = time.monotonic()
                self._put(key, self._lane, message)
                self._began = 0.0
            if self._ended:
                return

    def _has_room(self) -> bool:
        return self._ended or len(self._waiting) < ROOM[self._lane]
