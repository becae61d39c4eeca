"""Pipeline: a ring of slots whose fences let host and device work at the same time.

Three slots are triple buffering.
"""

from __future__ import annotations

import inspect
import operator
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.commands import Commands
from sparkle_drv.core.fence import Fence, timeout_ns
from sparkle_drv.core.queue import Queue
from sparkle_drv.errors import FenceTimeout, SparkleError

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


class Slot:
    """The default slot: its number, for users who keep their buffers themselves."""

    def __init__(self, index: int) -> None:
        self.index = index


class Pipeline:
    """A ring of slots, made by `Device.pipeline`; for one thread at a time.

        with dev.pipeline(3, make=Slot) as pipe:
            slot = pipe.acquire()
            ...
            pipe.submit(slot, commands)

    `acquire` gives the `depth` `slots` in turn and blocks only on the fence of the one it gives.
    Work goes to `queue` on `device`.
    """

    def __init__(
        self,
        device: Device,
        depth: int = 3,
        make: Callable[..., Any] | None = None,
        queue: Queue | None = None,
    ) -> None:
        if isinstance(depth, bool) or not hasattr(depth, "__index__") or not 1 <= depth <= 1024:
            raise ValueError(f"depth: a number of slots from 1 to 1024 is wanted, got {depth!r}")
        if queue is not None and queue.device is not device:
            raise ValueError(
                f"queue: it belongs to {queue.device.uri}, this pipeline to {device.uri}"
            )
        self.device = device
        self.depth = operator.index(depth)
        self._owns_queue = queue is None
        self.queue = device.queue() if queue is None else queue
        self.slots = [_make(make, device, i) for i in range(self.depth)]
        self._fences: list[Fence | None] = [None] * self.depth
        self._next = 0
        self._out: set[int] = set()  # acquired and not yet submitted
        self.closed = False

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except SparkleError:
            if kind is None:  # else the error of the body is the one to tell
                raise

    def acquire(self, timeout_s: float = 30) -> Any:
        """The next slot, once the device has done with it.

        Raises ValueError (all slots are out, closed), and as `Fence.wait`: the failure of what the
        slot was submitted with is told once, the next call gives the slot.
        """
        self._check()
        index = self._next
        if index in self._out:
            raise ValueError(f"acquire: all {self.depth} slots are out; submit one first")
        self._wait(index, timeout_s)
        self._out.add(index)
        self._next = (index + 1) % self.depth
        return self.slots[index]

    def submit(self, slot: Any, commands: Commands) -> Fence:
        """Submit the work of an acquired slot, which comes round again when this fence is reached.

        Raises ValueError (not acquired, closed), and as `Queue.submit`; the slot then stays out.
        """
        self._check()
        index = next((i for i in self._out if self.slots[i] is slot), None)
        if index is None:
            raise ValueError("submit: this slot was not acquired")
        fence = self.queue.submit(commands)
        self._out.discard(index)
        self._fences[index] = fence
        return fence

    def drain(self, timeout_s: float = 30) -> None:
        """Wait for everything submitted; one bound for all of it.

        Raises as `Fence.wait`: the first failure, once all slots have been waited for.
        """
        deadline = time.monotonic_ns() + timeout_ns(timeout_s)
        failure: SparkleError | None = None
        for index in range(self.depth):
            try:
                self._wait(index, max(0, deadline - time.monotonic_ns()) / 1e9)
            except SparkleError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def close(self, timeout_s: float = 30) -> None:
        """Drain, then close what the pipeline opened, and slots that have a close(); idempotent.

        Raises as `drain`, after everything is closed; FenceTimeout: something still runs, nothing
        is closed and the pipeline may be closed again.
        """
        if self.closed:
            return
        failure: SparkleError | None = None
        try:
            self.drain(timeout_s)
        except FenceTimeout:
            raise
        except SparkleError as error:
            failure = error
        self.closed = True
        if self._owns_queue:
            self.queue.close(timeout_s)
        for slot in self.slots:
            close = getattr(slot, "close", None)
            if callable(close):
                close()
        if failure is not None:
            raise failure

    def _wait(self, index: int, timeout_s: float) -> None:
        fence = self._fences[index]
        if fence is None:
            return
        try:
            fence.wait(timeout_s)
        finally:
            if fence.done:  # reached, well or not: the slot is free again
                self._fences[index] = None

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the pipeline is closed")


def _make(make: Callable[..., Any] | None, device: Device, index: int) -> Any:
    if make is None:
        return Slot(index)
    try:
        inspect.signature(make).bind(device)
    except (TypeError, ValueError):
        return make()
    return make(device)
