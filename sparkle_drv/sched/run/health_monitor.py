"""Feeds the health of a Context's devices (sched/health), and sends heartbeats to silent ones.

A heartbeat is an empty submission in a queue of its own. A device answers it even while a long
kernel runs in another queue, unless the device hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import DeviceLost, FenceTimeout, OutOfDeviceMemory, SparkleError
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.mesh.lanes.transports import NoWay
from sparkle_drv.sched.health.device import Health
from sparkle_drv.sched.health.states import State

ANSWER_S = 0.05
"""Seconds to wait for an answer. On a busy host an answer takes a moment."""
LOOK_S = 1e-3
"""Seconds between checks for the answer."""

LEAST = 0.05
"""Least part of its planned work for a slow device that the caller named."""


class HealthMonitor:
    """Keeps the Health of each device by URI, under one lock. Times are on each device's own clock,
    in seconds.
    """

    def __init__(
        self, devices: Mapping[str, Device], clock_of: Callable[[Device], Callable[[], float]]
    ) -> None:
        self._devices = devices
        self._clocks = {uri: clock_of(device) for uri, device in devices.items()}
        self._health = {uri: Health(uri, seed=n) for n, uri in enumerate(devices)}
        self._lock = fork_lock()
        self._queues: dict[str, Queue] = {}
        self._asked: dict[str, tuple[Fence, float]] = {}

    def report(self) -> dict[str, Health]:
        """Returns the Health of each URI, with the present state and its history."""
        return dict(self._health)

    def weights(self, uris: Sequence[str]) -> dict[str, float]:
        """Returns the part of its planned work that each device gets, by URI. Devices that get all
        of it are left out.
        """
        if all(self._health[uri].state is State.HEALTHY for uri in uris):
            return {}
        with self._lock:
            found = {uri: self._health[uri].weight for uri in uris}
        return {uri: max(weight, LEAST) for uri, weight in found.items() if weight < 1}

    def barred(self, uris: Iterable[str], slow: bool = True) -> dict[str, str]:
        """Returns a dict of the devices that get no work now, with the reasons by URI. With `slow`,
        it also has slow devices that get no part of a call.

        A suspect device is sent a heartbeat first. A lost device is tried if the time for a try has
        come.
        """
        reasons = {}
        for uri in uris:
            health, clock = self._health[uri], self._clocks[uri]
            with self._lock:
                tried = health.state is State.LOST and health.tries(clock())
            asked = tried or health.state is State.SUSPECT
            # `_answers` waits. The lock is not held meanwhile, so that threads of other devices can
            # report.
            well = asked and (not tried or self._devices[uri].idle) and self._answers(uri)
            with self._lock:
                if tried:
                    health.tried(clock(), well, "" if well else "it does not answer")
                elif well:
                    health.beat(clock())
                if not health.takes_work and (slow or health.state is not State.SLOW):
                    reasons[uri] = f"it is {health.state.value}: {health.why}"
        return reasons

    def _answers(self, uri: str) -> bool:
        """Returns whether the device completes an empty submission."""
        try:
            return _ended(self._asks(uri))
        except SparkleError:
            return False

    def started(self, uri: str, lasts_s: float) -> None:
        """Reports that a submission runs on the device. It is predicted to end in `lasts_s`
        seconds.
        """
        with self._lock:
            now_s = self._clocks[uri]()
            self._health[uri].started(now_s, now_s + lasts_s)

    def ended(self, uri: str, took_s: float, predicted_s: float) -> None:
        """Reports that a piece ended on the device, after `took_s` seconds."""
        with self._lock:
            self._asked.pop(uri, None)
            self._health[uri].progress(self._clocks[uri](), took_s, predicted_s)

    def rests(self, uri: str) -> None:
        """Reports that the device has no work."""
        with self._lock:
            self._asked.pop(uri, None)
            self._health[uri].idle(self._clocks[uri]())

    def failed(self, uri: str, error: Exception) -> None:
        """Reports that a call failed on the device."""
        if isinstance(error, (NoWay, OutOfDeviceMemory)):
            return  # these errors are no fault of the device, which stays healthy
        with self._lock:
            gone = isinstance(error, DeviceLost)
            self._health[uri].failed(self._clocks[uri](), str(error), gone)

    def look(self, uris: Iterable[str]) -> dict[str, FenceTimeout]:
        """Sends heartbeats to silent devices and receives answers. Returns an error for each lost
        device, by URI.
        """
        errors = {}
        for uri in uris:
            asked = self._asked.get(uri)
            answered = asked is not None and _ended(asked[0])
            with self._lock:
                health, now_s = self._health[uri], self._clocks[uri]()
                if uri in self._asked:
                    fence, at_s = self._asked[uri]
                    if answered:
                        del self._asked[uri]
                        health.beat(now_s)
                    elif now_s - at_s >= health.heartbeat_s:
                        self._asked[uri] = fence, now_s
                        health.missed_beat(now_s)
                elif health.due(now_s):
                    try:
                        self._asked[uri] = self._asks(uri), now_s
                    except SparkleError as error:
                        health.failed(now_s, str(error), isinstance(error, DeviceLost))
                if health.state is State.LOST:
                    errors[uri] = FenceTimeout(f"{uri}: {health.why}")
        return errors

    def _asks(self, uri: str) -> Fence:
        queue = self._queues.get(uri)
        if queue is None:
            queue = self._queues[uri] = self._devices[uri].queue()
        return queue.submit(Commands())

    def forget(self) -> None:
        """Forgets all heartbeats and their queues. The queues are closed with their devices."""
        self._asked.clear()
        self._queues.clear()


def _ended(fence: Fence) -> bool:
    """Returns whether the fence is reached within ANSWER_S, by work that did not fail.

    ANSWER_S is real time, since a virtual clock would stand still during this poll.
    """
    end_s = time.monotonic() + ANSWER_S
    try:
        while not fence.done:
            if time.monotonic() >= end_s:
                return False
            time.sleep(LOOK_S)
        fence.wait(0)
    except SparkleError:
        return False
    return True


@dataclass(frozen=True)
class _LatePiece:
    thread: threading.Thread
    ends_s: float
    late_s: float
    clock: Callable[[], float]


class Remains:
    """Pieces that a device still computes although their call has returned: another device did them
    sooner.
    """

    def __init__(self) -> None:
        self._by_uri: dict[str, list[_LatePiece]] = {}

    def add(
        self, uri: str, thread: threading.Thread, ends_s: float, late_s: float,
        clock: Callable[[], float],
    ) -> None:  # fmt: skip
        """Records a `thread` that waits for a piece. The piece is predicted to end at `ends_s`, and
        counts as late from `late_s` on.
        """
        self._by_uri.setdefault(uri, []).append(_LatePiece(thread, ends_s, late_s, clock))

    def ready_s(self, uris: Iterable[str]) -> tuple[dict[str, float], dict[str, str]]:
        """Returns two dicts by URI: the seconds until a device's remaining pieces are predicted to
        end, and why a device with a late one gets no work.
        """
        ready_s, late = dict[str, float](), dict[str, str]()
        for uri in uris if self._by_uri else ():
            pieces = [piece for piece in self._by_uri.get(uri, ()) if piece.thread.is_alive()]
            if not pieces:
                self._by_uri.pop(uri, None)
                continue
            self._by_uri[uri] = pieces
            if any(piece.clock() >= piece.late_s for piece in pieces):
                late[uri] = "it still does a piece of an earlier call"
            ready_s[uri] = max(0.0, *(piece.ends_s - piece.clock() for piece in pieces))
        return ready_s, late
