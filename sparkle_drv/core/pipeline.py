"""Pipeline: a ring of slots whose fences let host and device work at the same time.

Three slots are triple buffering.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.commands import Commands
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.queue import Queue

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
        if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= 1024:
            raise ValueError(f"depth: a number of slots from 1 to 1024 is wanted, got {depth!r}")
        if queue is not None and queue.device is not device:
            raise ValueError(
                f"queue: it belongs to {queue.device.uri}, this pipeline to {device.uri}"
            )
        self.device = device
        self.depth = depth
        self._owns_queue = queue is None
        self.queue = device.queue() if queue is None else queue
        self.slots = [_make(make, device, i) for i in range(depth)]
        self._fences: list[Fence | None] = [None] * depth
        self._next = 0
        self._out: set[int] = set()  # acquired and not yet submitted
        self.closed = False

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.close()

    def acquire(self, timeout_s: float = 30) -> Any:
        """The next slot, once the device has done with it.

        Raises ValueError (all slots are out, closed), and as `Fence.wait`.
        """
        self._check()
        index = self._next
        if index in self._out:
            raise ValueError(f"acquire: all {self.depth} slots are out; submit one first")
        fence = self._fences[index]
        if fence is not None:
            fence.wait(timeout_s)
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
        """Wait for everything submitted; one bound for all of it. Raises as `Fence.wait`."""
        deadline = time.monotonic() + timeout_s
        for fence in self._fences:
            if fence is not None:
                fence.wait(max(0.0, deadline - time.monotonic()))

    def close(self, timeout_s: float = 30) -> None:
        """Drain, then close what the pipeline opened, and slots that have a close(); idempotent.

        Raises as `drain`; nothing is closed then.
        """
        if self.closed:
            return
        self.drain(timeout_s)
        self.closed = True
        if self._owns_queue:
            self.queue.close(timeout_s)
        for slot in self.slots:
            close = getattr(slot, "close", None)
            if callable(close):
                close()

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
