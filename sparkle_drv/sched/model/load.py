"""Predicted seconds of work that a scheduler gave to each device and that has not ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from sparkle_drv.core.device import Device
from sparkle_drv.fork_lock import fork_lock


class Load:
    """For each device, the work in its default queue: (timeline value, seconds). Threads may share
    a Load.

    Submissions that the scheduler did not make are not counted. Work that is running counts with
    its whole time.
    """

    def __init__(self, devices: Iterable[Device]) -> None:
        self._lock = fork_lock()  # re-entrant, because a signal handler may call methods
        self._given: dict[str, deque[tuple[int, float]]] = {d.uri: deque() for d in devices}
        self._left_s = dict.fromkeys(self._given, 0.0)

    def gave(self, device: Device, seconds: float) -> None:
        """Records that the last submission to the device is predicted to take `seconds`."""
        value = device.default_queue.submitted
        with self._lock:
            self._given[device.uri].append((value, seconds))
            self._left_s[device.uri] += seconds

    def queued_s(self, device: Device) -> float:
        """Returns the predicted seconds of the device's unfinished work. Never blocks."""
        submissions = self._given[device.uri]
        if not submissions:
            return 0.0
        reached = device.default_queue.reached
        with self._lock:
            while submissions and submissions[0][0] <= reached:
                ended_s = submissions.popleft()[1]
                self._left_s[device.uri] -= ended_s
            if not submissions:
                self._left_s[device.uri] = 0.0  # no work is left: drops rounding errors
            return self._left_s[device.uri]
