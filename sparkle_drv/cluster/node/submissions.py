"""The work that a lane runs: submissions, prepared launches and downloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkle_drv.cluster.channel.channel import Channel
from sparkle_drv.cluster.node.lane import await_room
from sparkle_drv.cluster.node.transfers import Room
from sparkle_drv.cluster.wire.requests import INLINE
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue


class Submission:
    """A submission that sends the client nothing but its timeline value. Once submitted, it no
    longer keeps its kernel and memory alive.
    """

    def __init__(self, go: Callable[[], Fence], done: Callable[[], None]) -> None:
        self._go: Callable[[], Fence] | None = go
        self._done = done

    def go(self) -> Fence:
        submit, self._go = self._go, None
        assert submit is not None
        try:
            return submit()
        finally:
            self._done()

    def ended(self) -> bool:
        return False


class Runs:
    """Launches of a prepared kernel, one for each of `count` timeline values."""

    def __init__(self, run: Callable[[], Fence], count: int, done: Callable[[], None]) -> None:
        self._run, self._count, self._done = run, count, done

    def go(self) -> list[Fence | Exception]:
        try:
            return [self._once() for _ in range(self._count)]
        finally:
            self._done()

    def _once(self) -> Fence | Exception:
        try:
            return self._run()
        # Only the timeline value of this launch gets the fault. The other launches of the request
        # still run.
        except Exception as error:
            return error

    def ended(self) -> bool:
        return False


class Download:
    """A download. It sends the bytes to the client once the device has copied them."""

    def __init__(
        self, channel: Channel, queue: Queue, source: Any, room: Room, transfer: int,
        done: Callable[[], None],
    ) -> None:  # fmt: skip
        self._channel, self._queue, self._source = channel, queue, source
        self._room, self._transfer, self._done = room, transfer, done
        self._data: Any = None

    def go(self) -> Fence:
        try:
            self._data = self._room.take()
            return self._queue.read(self._source, self._data)
        finally:
            self._done()

    def ended(self) -> bool:
        data, self._data = self._data, None
        if data.nbytes <= INLINE:
            await_room(self._channel)
            self._channel.post({"on": "bytes", "transfer": self._transfer, "data": data.tobytes()})
        else:
            self._channel.post({"on": "ready", "transfer": self._transfer})
            self._channel.send_bulk(self._transfer, memoryview(data))
        return True
