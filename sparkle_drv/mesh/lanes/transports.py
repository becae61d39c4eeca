"""How bytes get from one device to another: a table of transports, and Way, which tries them.

    shared    both devices compute on the host's memory: one copy within it
    peer      devices of one backend that reach each other (CUDA peers, PRIME), not over the host
    into      the source is the host's memory: one upload
    back      the destination is the host's memory: one download
    staged    in chunks through host memory; copies of different chunks overlap (staged_transfer.py)

A Way takes the first transport that both devices can do. A transport may fail at once, or when
its fence reports an error. Then the next one takes its place. A failed transport is tried again
only after all have failed. Each Way has queues of its own, so that transfers need not wait for
queued work. `shared` also serves devices on other NUMA nodes (`cpu:node1`): the cores of the
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
from .staged_transfer import FAILURES, Staged, StagingMemory, host_bytes

log = logging.getLogger("sparkle_drv.mesh")


Asks = Callable[[str], object]
"""Called with a device's URI before each call to that device. The last URI is blamed for an
error."""


class NoWay(SparkleError):
    """No transport carries bytes from one device to the other."""


class Moving:
    """A transfer in progress, which needs calls of `wait` to get to its end. Only one thread may
    use it.

    If a transport fails, the transfer tries the next one. But DeviceLost and FenceTimeout are
    raised at once, since every other transport would fail, too.
    """

    def __init__(self, way: Way, src: Buffer, dst: Buffer, asks: Asks) -> None:
        self.way, self.asks, self._src, self._dst = way, asks, src, dst
        self._ended = False
        way.counted(unended=1)
        self._begun = self._begin()

    def queue(self, end: str) -> Queue:
        """Returns the queue at this end of the link ("source" or "to"). First passes the URI of the
        queue's device to `asks`, so that this device is blamed for an error of the caller's next
        call.
        """
        self.asks((self.way.source if end == "source" else self.way.to).uri)
        return self.way.queue(end)

    def ended(self, fence: Fence, timeout_s: float) -> None:
        """Waits for a part of the transfer. First passes the URI of the fence's device to `asks`,
        so that this device is blamed for an error of the wait.
        """
        self.asks(fence.queue.device.uri)
        fence.wait(timeout_s)

    def _blamed(self) -> None:
        """Names the device to blame for an error: the source if it is lost. A lost source makes the
        copies in the destination's queue fail, too. So the URI of the lost source is passed to
        `asks`, and the destination is not blamed.
        """
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
        """Returns when all bytes have arrived; idempotent. If a transport fails, the next one
        follows.

        Raises FenceTimeout after `timeout_s` seconds; the caller may wait again, or abandon the
        transfer. Raises DeviceLost if a device is lost, NoWay if all transports have failed.
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
    """Moves bytes from one device to another, for several threads. `close` ends its queues."""

    BRIEFLY = (BRIEFLY_S,)

    source: Device
    to: Device
    moved: dict[str, int] = field(default_factory=dict)
    """For each transport, the bytes of transfers that succeeded."""
    failed: dict[str, str] = field(default_factory=dict)
    """For each transport that is no longer tried, the reason. Once all have failed, the next
    transfer tries them again, since a fault may pass."""
    unended: int = 0
    """Transfers that began and have not succeeded so far."""
    _queues: dict[str, Queue] = field(default_factory=dict)
    _stages: list[StagingMemory] = field(default_factory=list)
    _all_stages: set[StagingMemory] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def transport(self) -> str:
        """Returns the name of the transport for the next bytes. Raises NoWay if all have failed."""
        for name, one in TABLE.items():
            if name not in self.failed and one.fits(self.source, self.to):
                return name
        why = "; ".join(f"{name}: {said}" for name, said in self.failed.items())
        raise NoWay(f"{self.source.uri} to {self.to.uri}: {why or 'no transport fits'}")

    def fails(self, name: str, error: Exception) -> None:
        """Records that the transport `name` has failed with `error`. It is not tried again until
        all transports have failed.
        """
        self.failed[name] = str(error)
        log.warning("%s to %s: stopped using %s: %s", self.source.uri, self.to.uri, name, error)

    def counted(self, name: str = "", nbytes: int = 0, unended: int = 0) -> None:
        """Adds `unended` to the number of transfers that have not ended, and `nbytes` to the bytes
        that the transport `name` has moved.
        """
        with self._lock:
            self.unended += unended
            if name:
                self.moved[name] = self.moved.get(name, 0) + nbytes

    def move(self, src: Buffer, dst: Buffer, asks: Asks = id) -> Moving | None:
        """Begins to copy all of `src` to `dst`, which has the same size. Returns None if there are
        no bytes.

        `src` must have its bytes already, since this call waits for nothing. All bytes have arrived
        when the result's `wait` returns. `asks` is called before each call to a device (Asks).
        Raises ValueError if the sizes differ, NoWay if every transport fails. Raises DeviceLost or
        FenceTimeout if a device or a wait fails.
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
        """Lets the source write `src` into memory that both devices share, in the queue of this
        Way.

        The copy uses no transport, and `moved` does not count it.
        """
        there = self.source.wrap(host_bytes(dst, dst.nbytes))
        return self.queue("source").submit(Commands().copy(there, src))

    def queue(self, end: str) -> Queue:
        """Returns the queue of this Way on its device: `end` is "source" or "to"."""
        with self._lock:
            queue = self._queues.get(end)
            if queue is None:
                device = self.source if end == "source" else self.to
                queue = self._queues[end] = device.queue()
            return queue

    def stages(self, count: int, nbytes: int) -> list[StagingMemory]:
        """Returns `count` stages of at least `nbytes` of host memory each.

        The calling transfer owns the stages until it passes them to `keep`. A transfer that was
        abandoned never passes them to `keep`, because a device may still use them.
        """
        with self._lock:
            kept, self._stages = self._stages, []
        if len(kept) >= count and kept[0].nbytes >= nbytes:
            return kept
        self._end(kept)
        stages = []
        for _ in range(count):
            stages.append(StagingMemory(self.source, self.to, nbytes))
            self._all_stages.add(stages[-1])
        return stages

    def keep(self, stages: list[StagingMemory]) -> None:
        """Takes back stages (host memory) that no copy uses any more, for the next transfer."""
        with self._lock:
            before, self._stages = self._stages, stages
        self._end(before)

    def _end(self, stages: Iterable[StagingMemory]) -> None:
        for stage in stages:
            stage.close()
            self._all_stages.discard(stage)

    def close(self, timeout_s: float = 30.0) -> None:
        """Waits for transfers in progress, and releases queues and memory; idempotent.

        Raises FenceTimeout if a transfer lasts longer than `timeout_s`. The device that runs the
        transfer then keeps the queue and the queue's memory until the device is closed.
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
class LinkTransport:
    """A row of TABLE: one transport.

    `fits(source, to)` says whether these two devices can use it. `move` begins a transfer.
    """

    fits: Callable[[Device, Device], bool]
    move: Callable[[Moving, Buffer, Buffer], Begun]


TABLE = {
    "shared": LinkTransport(lambda a, b: a.info.unified and b.info.unified and b.is_peer(a), _peer),
    "peer": LinkTransport(lambda a, b: not a.info.unified and b.peer(a) == "direct", _peer),
    "into": LinkTransport(lambda a, b: a.info.unified, _into),
    "back": LinkTransport(lambda a, b: b.info.unified, _back),
    "staged": LinkTransport(lambda a, b: True, lambda moving, src, dst: Staged(moving, src, dst)),
}
"""Transports by name, the best first."""
