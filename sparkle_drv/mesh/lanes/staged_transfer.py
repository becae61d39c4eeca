"""A transfer in chunks through host memory that both devices reach. The copies into that memory and
out of it overlap.

STAGES pieces of memory take turns. While chunk k goes to the destination, the source writes chunk k
+ 1, and chunk k + 2 waits in the queue. So neither device waits for the host. `Staged.wait` submits
the chunks one after another. That call may stop between any two chunks, so that it never exceeds
its timeout; a later call continues.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import ExitStack, suppress
from typing import Any, Protocol

import numpy as np

from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import SparkleError
from sparkle_drv.types import Memory

CHUNK_NBYTES = 2 << 20
"""Bytes of a chunk."""
STAGES = 3
"""Pieces of host memory: one is written, one is read, and one waits in the queue."""


FAILURES = (SparkleError, OSError, ValueError, NotImplementedError)
"""Errors of a device that cannot do something."""


def host_bytes(buffer: Buffer, nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Returns the first `nbytes` of memory that the host reaches, as uint8 [nbytes]."""
    return np.frombuffer(buffer.map(), np.uint8, nbytes)


def _imported(to: Device, here: Buffer) -> Buffer:
    fd = here.export()
    try:
        return to.import_buffer(fd, here.nbytes)
    finally:
        os.close(fd)


class StagingMemory(Closing):
    """Host memory that `source` writes, and that `to` reads in place if it can."""

    def __init__(self, source: Device, to: Device, nbytes: int) -> None:
        self.nbytes = nbytes
        self.there: Buffer | None = None
        """The same memory as a Buffer of `to`. None if `to` cannot use the memory; the bytes are
        then uploaded."""
        self.here = self._both(source, to)
        """The memory as a Buffer of `source`."""

    def _both(self, source: Device, to: Device) -> Buffer:
        """Allocates the memory and returns it as a Buffer of `source`. Sets `self.there`, the
        Buffer of `to` over the same memory, if `to` can use the memory.
        """
        # Peers have one driver, which cannot page-lock the same address for two devices. So a peer
        # imports the memory at another address. A device that is no peer wraps the same address.
        if to.is_peer(source):
            with suppress(*FAILURES), ExitStack() as stack:
                here = stack.enter_context(source.buffer(self.nbytes, memory=Memory.SHARED))
                self.there = _imported(to, here)
                stack.pop_all()
                return here
        here = source.buffer(self.nbytes, memory=Memory.HOST)
        with suppress(*FAILURES):
            self.there = to.wrap(host_bytes(here, self.nbytes))
        return here

    def close(self) -> None:
        """Releases the memory once no submitted work uses it; idempotent."""
        if self.there is not None:
            self.there.close()
        self.here.close()


class Stages(Protocol):
    """The memory of staged transfers. A Way (transports.py) owns it."""

    def stages(self, count: int, nbytes: int) -> list[StagingMemory]: ...
    def keep(self, stages: list[StagingMemory]) -> None: ...


class Ends(Protocol):
    """The methods of a transfer (Moving in transports.py) that a staged transfer calls."""

    @property
    def way(self) -> Stages: ...
    def queue(self, end: str) -> Queue: ...
    def ended(self, fence: Fence, timeout_s: float) -> None: ...


class Staged:
    """A transfer in progress, in chunks."""

    def __init__(self, ends: Ends, src: Buffer, dst: Buffer) -> None:
        self.ends, self.src, self.dst = ends, src, dst
        self.chunk = min(src.nbytes, CHUNK_NBYTES)
        self.count = -(-src.nbytes // self.chunk)
        self.stages = ends.way.stages(min(STAGES, self.count), self.chunk)
        # Three counts of chunks: those whose read was submitted, those whose write was submitted,
        # and those that have arrived.
        self._read = self._put = self._gone = 0
        self._coming: deque[Fence] = deque()
        self._going: deque[Fence] = deque()
        self._reads()

    def wait(self, timeout_s: float) -> None:
        """Continues the transfer to its end. Raises FenceTimeout after `timeout_s` seconds; an
        error of a device is raised, too.
        """
        deadline = time.monotonic() + timeout_s
        while self._gone < self.count:
            self._reads()
            if self._coming and self._put - self._gone < STAGES - 1:
                self.ends.ended(self._coming[0], max(0.0, deadline - time.monotonic()))
                self._going.append(self._puts())
                self._coming.popleft()
                self._put += 1
            else:
                self.ends.ended(self._going[0], max(0.0, deadline - time.monotonic()))
                self._going.popleft()
                self._gone += 1
        self.ends.way.keep(self.stages)

    def _reads(self) -> None:
        """Submits copies from the source into all stages (pieces of host memory) that are free."""
        while self._read < min(self.count, self._gone + STAGES):
            nbytes, part = self._part(self.src, self._read)
            here = self.stages[self._read % STAGES].here.view(0, nbytes)
            self._coming.append(self.ends.queue("source").submit(Commands().copy(here, part)))
            self._read += 1

    def _puts(self) -> Fence:
        nbytes, part = self._part(self.dst, self._put)
        stage, queue = self.stages[self._put % STAGES], self.ends.queue("to")
        if stage.there is None:
            return queue.write(part, host_bytes(stage.here, nbytes))
        return queue.submit(Commands().copy(part, stage.there.view(0, nbytes)))

    def _part(self, whole: Buffer, at: int) -> tuple[int, Any]:
        nbytes = min(self.chunk, self.src.nbytes - at * self.chunk)
        return nbytes, whole.view(at * self.chunk, nbytes)
