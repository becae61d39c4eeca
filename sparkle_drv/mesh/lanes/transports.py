"""How bytes get from one device to another: a table of transports, and a way that tries them.

    shared    both devices compute on the host's memory: one copy within it
    peer      devices of one backend that reach one another (CUDA peers, PRIME): no byte on the host
    into      the source is the host's memory: one upload
    back      the destination is the host's memory: one download
    staged    in chunks through memory of the host that the source writes: both legs in flight

A way takes the first that both devices can do; one that fails is not tried again, and the next one
takes its place. Each way has queues of its own, so that transfers pass work by.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np

from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import TIMEOUT_S, Queue
from sparkle_drv.errors import DeviceLost, FenceTimeout, SparkleError
from sparkle_drv.types import Memory

log = logging.getLogger("sparkle_drv.mesh")

CHUNK_NBYTES = 2 << 20
"""Of a staged transfer. Two chunks are in flight: one on each leg."""


Asks = Callable[[str], object]
"""Told the URI of each device before it is asked: the last one is to blame for what is raised."""


class NoWay(SparkleError):
    """No transport carries bytes from one device to the other."""


@dataclass(eq=False)
class Way(Closing):
    """From one device to another; threads take turns. `close` ends its queues."""

    source: Device
    to: Device
    moved: dict[str, int] = field(default_factory=dict)
    """Bytes by transport, of transfers that were begun."""
    failed: dict[str, str] = field(default_factory=dict)
    """By transport that is not tried any more: why."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _queues: dict[str, Queue] = field(default_factory=dict)
    _stages: list[Buffer] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asks: Asks = id
    _timeout_s: float = TIMEOUT_S

    def transport(self) -> str:
        """The name of what carries the next bytes; NoWay when all have failed."""
        for name, one in TABLE.items():
            if name not in self.failed and one.fits(self.source, self.to):
                return name
        why = "; ".join(f"{name}: {said}" for name, said in self.failed.items())
        raise NoWay(f"{self.source.uri} to {self.to.uri}: {why or 'no transport fits'}")

    def move(self, src: Buffer, dst: Buffer) -> Fence | None:
        """Copy all of `src` to `dst`, of the same size; the fence of the end, None: it has ended.

        What `src` holds must be there: nothing is waited for. Raises ValueError (sizes differ),
        DeviceLost, FenceTimeout, NoWay.
        """
        return self._by_first(src, dst)

    def copy(self, src: Buffer, dst: Buffer, asks: Asks = id, timeout_s: float = TIMEOUT_S) -> None:
        """As `move`, to the end: a transport that fails on the way is left, too. Each wait may take
        `timeout_s`.
        """

        def ended(fence: Fence) -> Fence:
            asks(fence.queue.device.uri)
            return fence.wait(timeout_s)

        self._by_first(src, dst, ended, asks, timeout_s)

    def _by_first(
        self,
        src: Buffer,
        dst: Buffer,
        seen: Callable[[Fence], Fence] | None = None,
        asks: Asks = id,
        timeout_s: float = TIMEOUT_S,
    ) -> Fence | None:
        if src.nbytes != dst.nbytes:
            raise ValueError(f"dst: expected {src.nbytes} bytes, got {dst.nbytes}")
        while src.nbytes:
            name = self.transport()
            try:
                with self._lock:
                    self._asks, self._timeout_s = asks, timeout_s
                    fence = TABLE[name].move(self, src, dst)
                    self.moved[name] = self.moved.get(name, 0) + src.nbytes
                return seen(fence) if seen else fence
            except (DeviceLost, FenceTimeout):
                self._stages = []  # what was not waited for may still write there
                raise
            except (SparkleError, OSError, ValueError) as error:
                self.failed[name] = str(error)
                log.warning(
                    "%s to %s: no more by %s: %s", self.source.uri, self.to.uri, name, error
                )
        return None

    def push(self, src: Buffer, dst: Buffer) -> Fence:
        """As `move`, by the source's queue, on memory that both devices reach."""
        there = self.source.wrap(_bytes(dst, dst.nbytes))
        with self._lock:
            fence = self.queue("source").submit(Commands().copy(there, src))
            self.moved["shared"] = self.moved.get("shared", 0) + src.nbytes
        return fence

    def queue(self, end: str) -> Queue:
        """The queue of this way on the device at its "source", or that where it goes "to"."""
        device = self.source if end == "source" else self.to
        self._asks(device.uri)
        made = self._queues.get(end)
        if made is None:
            made = self._queues[end] = self._stack.enter_context(device.queue())
        return made

    def stages(self, nbytes: int) -> list[Buffer]:
        """Two pieces of host memory of the source, each of a chunk, or of `nbytes` if less."""
        wanted = min(nbytes, CHUNK_NBYTES)
        if not self._stages or self._stages[0].nbytes < wanted:
            made = [self.source.buffer(wanted, memory=Memory.HOST) for _ in range(2)]
            self._stages = [self._stack.enter_context(one) for one in made]
        return self._stages

    def close(self) -> None:
        """Wait for what was begun, and let go of queues and memory; idempotent."""
        self._queues, self._stages = {}, []
        self._stack.close()


def _shared(way: Way, src: Buffer, dst: Buffer) -> Fence:
    return _peer(way, src, dst)


def _peer(way: Way, src: Buffer, dst: Buffer) -> Fence:
    return way.queue("to").copy_peer(dst, src)


def _into(way: Way, src: Buffer, dst: Buffer) -> Fence:
    return way.queue("to").write(dst, _bytes(src, src.nbytes))


def _back(way: Way, src: Buffer, dst: Buffer) -> Fence:
    return way.queue("source").read(src, _bytes(dst, dst.nbytes))


def _staged(way: Way, src: Buffer, dst: Buffer) -> Fence:
    stages = way.stages(src.nbytes)
    chunk = stages[0].nbytes
    begins = range(0, src.nbytes, chunk)

    def read(at: int) -> Fence:
        n = min(chunk, src.nbytes - begins[at])
        stage = stages[at % 2].view(0, n)
        return way.queue("source").submit(Commands().copy(stage, src.view(begins[at], n)))

    coming = read(0)
    for at, begin in enumerate(begins):
        came = coming
        if at + 1 < len(begins):
            coming = read(at + 1)  # its stage is free: `write` has taken what was there
        way._asks(way.source.uri)
        came.wait(way._timeout_s)
        n = min(chunk, src.nbytes - begin)
        fence = way.queue("to").write(dst.view(begin, n), _bytes(stages[at % 2], n))
    return fence


def _bytes(buffer: Buffer, nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(buffer.map(), np.uint8, nbytes)


@dataclass(frozen=True)
class Transport:
    """One row of the table."""

    fits: Callable[[Device, Device], bool]
    move: Callable[[Way, Buffer, Buffer], Fence]


TABLE = {
    "shared": Transport(lambda a, b: a.info.unified and b.info.unified and b.is_peer(a), _shared),
    "peer": Transport(lambda a, b: not a.info.unified and b.peer(a) == "direct", _peer),
    "into": Transport(lambda a, b: a.info.unified, _into),
    "back": Transport(lambda a, b: b.info.unified, _back),
    "staged": Transport(lambda a, b: True, _staged),
}
"""By name, the best first."""
