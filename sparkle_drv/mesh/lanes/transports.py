"""How bytes get from one device to another: a table of transports, and a way that tries them.

    shared    both devices compute on the host's memory: one copy within it
    peer      devices of one backend that reach one another (CUDA peers, PRIME): no byte on the host
    into      the source is the host's memory: one upload
    back      the destination is the host's memory: one download
    staged    in chunks through memory of the host (staged.py): both legs in flight

A way takes the first that both devices can do; one that fails, at once or at its fence, is not
tried again, and the next one takes its place. Each way has queues of its own, so that transfers
pass work by. `shared` also serves devices on other NUMA nodes (`cpu:node1`): the cores of the
destination do the copy.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue
from sparkle_drv.core.retire import BRIEFLY_S
from sparkle_drv.errors import DeviceLost, FenceTimeout, SparkleError

from .program import Begun
from .staged import FAILURES, Stage, Staged, host_bytes

log = logging.getLogger("sparkle_drv.mesh")


Asks = Callable[[str], object]
"""Called with the URI of a device before each call to it. An error is blamed on the last one."""


class NoWay(SparkleError):
    """No transport carries bytes from one device to the other."""


class Moving:
    """A transfer under way, carried on by `wait`. For one thread.

    DeviceLost and FenceTimeout end the transfer: the next transport would meet them, too.
    """

    def __init__(self, way: Way, src: Buffer, dst: Buffer, asks: Asks) -> None:
        self.way, self.asks, self._src, self._dst = way, asks, src, dst
        self._ended = False
        way.counted(unended=1)
        self._begun = self._begin()

    def queue(self, end: str) -> Queue:
        """That of the way; its device is asked next."""
        self.asks((self.way.source if end == "source" else self.way.to).uri)
        return self.way.queue(end)

    def ended(self, fence: Fence, timeout_s: float) -> None:
        """Wait for a part of the transfer; its device is asked next."""
        self.asks(fence.queue.device.uri)
        fence.wait(timeout_s)

    def _blamed(self) -> None:
        """A copy by the destination fails where the source is lost, too."""
        if not self.way.source.healthy:
            self.asks(self.way.source.uri)

    def _begin(self) -> Begun:
        while True:
            self._name = self.way.transport()
            try:
                return TABLE[self._name].move(self, self._src, self._dst)
            except (DeviceLost, FenceTimeout):
                self._blamed()
                raise
            except FAILURES as error:
                self.way.fails(self._name, error)

    def wait(self, timeout_s: float = 30.0) -> None:
        """Return when all bytes are there; idempotent. The next transport follows one that fails.

        Raises FenceTimeout: wait again, or leave it. DeviceLost, NoWay.
        """
        deadline = time.monotonic() + timeout_s
        while not self._ended:
            left_s = max(0.0, deadline - time.monotonic())
            try:
                if isinstance(self._begun, Fence):
                    self.ended(self._begun, left_s)
                else:
                    self._begun.wait(left_s)
            except (DeviceLost, FenceTimeout):
                self._blamed()
                raise
            except FAILURES as error:
                self.way.fails(self._name, error)
                self._begun = self._begin()
                continue
            self._ended = True
            self.way.counted(self._name, self._src.nbytes, unended=-1)


@dataclass(eq=False)
class Way(Closing):
    """From one device to another, for several threads; `close` ends its queues."""

    BRIEFLY = (BRIEFLY_S,)

    source: Device
    to: Device
    moved: dict[str, int] = field(default_factory=dict)
    """Bytes by transport, of transfers that ended well."""
    failed: dict[str, str] = field(default_factory=dict)
    """By transport that is not tried any more: why. Once all have failed, the next transfer tries
    them again: a fault may pass."""
    unended: int = 0
    """Number of transfers that began and were not seen to end well."""
    _queues: dict[str, Queue] = field(default_factory=dict)
    _stages: list[Stage] = field(default_factory=list)
    _all_stages: set[Stage] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def transport(self) -> str:
        """The name of what carries the next bytes; NoWay when all have failed."""
        for name, one in TABLE.items():
            if name not in self.failed and one.fits(self.source, self.to):
                return name
        why = "; ".join(f"{name}: {said}" for name, said in self.failed.items())
        raise NoWay(f"{self.source.uri} to {self.to.uri}: {why or 'no transport fits'}")

    def fails(self, name: str, error: Exception) -> None:
        """The transport `name` is tried no more."""
        self.failed[name] = str(error)
        log.warning("%s to %s: no more by %s: %s", self.source.uri, self.to.uri, name, error)

    def counted(self, name: str = "", nbytes: int = 0, unended: int = 0) -> None:
        """A transfer began, or ended well by the transport `name`."""
        with self._lock:
            self.unended += unended
            if name:
                self.moved[name] = self.moved.get(name, 0) + nbytes

    def move(self, src: Buffer, dst: Buffer, asks: Asks = id) -> Moving | None:
        """Copy all of `src` to `dst`, of the same size; None: no bytes, it has ended.

        What `src` holds must be there: nothing is waited for. The bytes arrive while the result is
        waited for. Raises ValueError (sizes differ), DeviceLost, FenceTimeout, NoWay.
        """
        for name, buffer in (("src", src), ("dst", dst)):
            if buffer.closed:
                raise ValueError(f"{name}: expected an open Buffer, got a closed one")
        if src.nbytes != dst.nbytes:
            raise ValueError(f"dst: expected {src.nbytes} bytes, got {dst.nbytes}")
        if all(name in self.failed for name in TABLE if TABLE[name].fits(self.source, self.to)):
            self.failed.clear()
        return Moving(self, src, dst, asks) if src.nbytes else None

    def push(self, src: Buffer, dst: Buffer) -> Fence:
        """The source writes `src` into memory that it shares with the other device, by this way's
        queue. No transport carries it, and `moved` does not count it.
        """
        there = self.source.wrap(host_bytes(dst, dst.nbytes))
        return self.queue("source").submit(Commands().copy(there, src))

    def queue(self, end: str) -> Queue:
        """The queue of this way on the device at its "source", or that where it goes "to"."""
        with self._lock:
            made = self._queues.get(end)
            if made is None:
                device = self.source if end == "source" else self.to
                made = self._queues[end] = device.queue()
            return made

    def stages(self, count: int, nbytes: int) -> list[Stage]:
        """`count` pieces of `nbytes` at least of memory of the host, the caller's until it gives
        them back to `keep`: a transfer that is left may still use its own.
        """
        with self._lock:
            kept, self._stages = self._stages, []
        if len(kept) >= count and kept[0].nbytes >= nbytes:
            return kept
        self._end(kept)
        made = []
        for _ in range(count):
            made.append(Stage(self.source, self.to, nbytes))
            self._all_stages.add(made[-1])
        return made

    def keep(self, stages: list[Stage]) -> None:
        """Nothing uses these stages any more: they are for the next transfer."""
        with self._lock:
            before, self._stages = self._stages, stages
        self._end(before)

    def _end(self, stages: Iterable[Stage]) -> None:
        for stage in stages:
            stage.close()
            self._all_stages.discard(stage)

    def close(self, timeout_s: float = 30.0) -> None:
        """Wait for what was begun, and let go of queues and memory; idempotent.

        FenceTimeout: something runs for longer. Its device keeps the queue and what it uses, and
        ends them when it is closed.
        """
        queues, self._queues, self._stages = self._queues, {}, []
        deadline = time.monotonic() + timeout_s
        late: FenceTimeout | None = None
        for queue in queues.values():
            try:
                queue.close(max(0.0, deadline - time.monotonic()))
            except FenceTimeout as error:
                queue.device.kept.setdefault("mesh queues", []).append(queue)
                late = error
        self._end(list(self._all_stages))
        if late is not None:
            raise late


def _peer(moving: Moving, src: Buffer, dst: Buffer) -> Fence:
    return moving.queue("to").copy_peer(dst, src)


def _into(moving: Moving, src: Buffer, dst: Buffer) -> Fence:
    return moving.queue("to").write(dst, host_bytes(src, src.nbytes))


def _back(moving: Moving, src: Buffer, dst: Buffer) -> Fence:
    return moving.queue("source").read(src, host_bytes(dst, dst.nbytes))


@dataclass(frozen=True)
class Transport:
    """One row of the table."""

    fits: Callable[[Device, Device], bool]
    move: Callable[[Moving, Buffer, Buffer], Begun]


TABLE = {
    "shared": Transport(lambda a, b: a.info.unified and b.info.unified and b.is_peer(a), _peer),
    "peer": Transport(lambda a, b: not a.info.unified and b.peer(a) == "direct", _peer),
    "into": Transport(lambda a, b: a.info.unified, _into),
    "back": Transport(lambda a, b: b.info.unified, _back),
    "staged": Transport(lambda a, b: True, lambda moving, src, dst: Staged(moving, src, dst)),
}
"""By name, the best first."""
