"""Who calls the engine to send: a thread, or for control the caller itself while all is well.

A put of bulk waits for room in the link, which a suspended receiver does not give. A thread waits
in its place, so nobody else is held up. Control never waits for room: when a link takes nothing, it
is dropped. The caller puts it itself, which saves changes of threads. While a put of bulk takes
long, control goes by its thread, too: the engine may hold locks meanwhile.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from sparkle_drv.cluster.transport.base import Lane, Stalled

WATCHDOG_S = 4.0
"""A put that takes longer is a stall."""
SLOW_S = 0.05
"""A put of bulk that takes longer makes control go by its thread."""
ROOM = {Lane.CONTROL: 1024, Lane.BULK: 8}
"""Messages that wait for the thread of a lane."""

Put = Callable[[str, Lane, bytes], None]


class Senders:
    """A bounded queue and a thread for each lane."""

    def __init__(self, put: Put, watchdog_s: float) -> None:
        self._put, self._watchdog_s = put, watchdog_s
        self._queues: dict[Lane, queue.Queue[tuple[str, bytes] | None]] = {
            lane: queue.Queue(ROOM[lane]) for lane in Lane
        }
        self._began: dict[Lane, float] = dict.fromkeys(Lane, 0.0)
        """When the put of this moment began; 0: no put."""

    def start(self) -> None:
        for lane in Lane:
            name = f"send-{lane.value}"
            threading.Thread(target=self._run, args=(lane,), name=name, daemon=True).start()

    def send(self, key: str, lane: Lane, message: bytes) -> None:
        """Stalled if the watchdog has waited for room."""
        if lane is Lane.CONTROL and self._takes_s(Lane.BULK) < SLOW_S:
            self._put(key, lane, message)
            return
        patience_s = self._watchdog_s - self._takes_s(lane)
        try:
            if patience_s <= 0:
                raise queue.Full
            self._queues[lane].put((key, message), timeout=patience_s)
        except queue.Full:
            raise Stalled(f"the link took no message for {self._watchdog_s:g} s") from None

    def end(self) -> None:
        """The threads end with the message that they have."""
        for waiting in self._queues.values():
            with waiting.mutex:
                waiting.queue.clear()
                waiting.queue.append(None)
                waiting.not_empty.notify()

    def _takes_s(self, lane: Lane) -> float:
        began = self._began[lane]
        return time.monotonic() - began if began else 0.0

    def _run(self, lane: Lane) -> None:
        waiting = self._queues[lane]
        while (item := waiting.get()) is not None:
            self._began[lane] = time.monotonic()
            self._put(item[0], lane, item[1])
            self._began[lane] = 0.0
