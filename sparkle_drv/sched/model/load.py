"""What each device was given by a scheduler and has not ended yet, in predicted seconds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from sparkle_drv.core.device import Device


class Load:
    """By device, the work in its default queue: (timeline value, seconds). What others submit
    there is not known, and what runs just now counts whole. Threads may share it.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        self._lock = threading.RLock()  # a signal's handler, or a finalizer, may come by here, too
        self._given: dict[str, deque[tuple[int, float]]] = {d.uri: deque() for d in devices}
        self._left_s = dict.fromkeys(self._given, 0.0)

    def gave(self, device: Device, seconds: float) -> None:
        """What was submitted there last is predicted to take so long."""
        value = device.default_queue.submitted
        with self._lock:
            self._given[device.uri].append((value, seconds))
            self._left_s[device.uri] += seconds

    def queued_s(self, device: Device) -> float:
        """Predicted seconds of what has not ended there. Never blocks."""
        given = self._given[device.uri]
        if not given:
            return 0.0
        reached = device.default_queue.reached
        with self._lock:
            while given and given[0][0] <= reached:
                ended_s = given.popleft()[1]
                self._left_s[device.uri] -= ended_s
            if not given:
                self._left_s[device.uri] = 0.0  # of many sums and differences a rest may be left
            return self._left_s[device.uri]
