"""Fence: a point (queue, value) on a timeline, reached when the timeline has that value or more."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

from sparkle_drv import _hot
from sparkle_drv.core import seconds_argument
from sparkle_drv.core.cross_queue_waits import judge
from sparkle_drv.core.launch_errors import check_told
from sparkle_drv.core.retire import SLICE_NS
from sparkle_drv.errors import FenceTimeout, KernelFault

if TYPE_CHECKING:
    from sparkle_drv.core.queue import Queue

T = TypeVar("T")

_AWAIT_MOST_S = 0.005


def timeout_ns(timeout_s: Any) -> int:
    """Returns `timeout_s` in ns.

    Raises TypeError if it is not a number, ValueError if it is negative or not finite.
    """
    seconds = seconds_argument.seconds("timeout_s", timeout_s)
    if not 0 <= seconds < 1e10:
        raise ValueError(f"timeout_s: expected a finite time of 0 s or more, got {timeout_s!r}")
    return int(seconds * 1e9)


def _in_c(written: type[T]) -> type[T]:
    """Returns the class of native/hot/launch/fence.c, with the members of `written` added.

    A launch that returned an object of a Python class would take 20 ns more.
    """
    for name, value in vars(written).items():
        setattr(_hot.Fence, name, value)
    return _hot.Fence  # type: ignore[return-value]


@_in_c
class Fence:
    """A value on a queue's timeline; every submission returns one. Cheap and immutable.

    Fences of one queue are ordered by value. `await fence` works in asyncio. It polls at least
    every 5 ms, has no timeout of its own, and raises the errors of `wait`.

    >>> x, out = dev.array(np.ones(4, np.float32)), np.empty(4, np.float32)
    >>> fence = dev.default_queue.read(x.buffer, out)
    >>> fence.wait(timeout_s=30).done
    True
    >>> out
    array([1., 1., 1., 1.], dtype=float32)
    """

    __slots__ = ()

    if TYPE_CHECKING:  # native/hot/launch/fence.c implements these members

        def __init__(self, queue: Queue, value: int, /) -> None: ...
        @property
        def queue(self) -> Queue: ...
        @property
        def value(self) -> int: ...
        def wait(self, timeout_s: float = ...) -> Fence: ...

    def __repr__(self) -> str:
        return f"<Fence {self.value} of {self.queue!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fence) and self.queue is other.queue and self.value == other.value

    def __hash__(self) -> int:
        return hash((id(self.queue), self.value))

    def __lt__(self, other: Fence) -> bool:
        if not isinstance(other, Fence):
            return NotImplemented
        if self.queue is not other.queue:
            raise ValueError("fences of different queues have no order")
        return self.value < other.value

    @property
    def done(self) -> bool:
        """True once the timeline has reached the value, also if the submission failed.

        Reading it never blocks. Only `wait` raises the failure.
        """
        return self.queue.reached >= self.value

    def _wait_slowly(self, *timeout: float) -> Fence:
        """Waits for a submission that has not succeeded yet; native/hot/launch/fence.c calls this.

        `timeout` has the seconds; if it is empty, the queue's `timeout_s` applies.
        """
        queue = self.queue
        timeout_s = timeout[0] if timeout else queue.timeout_s
        left = timeout_ns(timeout_s)
        deadline = time.monotonic_ns() + left
        while True:
            rc = queue._backend.wait(queue._handle, self.value, min(left, SLICE_NS))
            if rc == 0:
                queue._device._retired.drain()
                if queue._waits:
                    judge(queue._waits, self.value, queue)
                return self
            if rc != -errno.ETIMEDOUT:
                raise self._error(rc)
            left = max(0, deadline - time.monotonic_ns())
            if left == 0:
                submission = queue.describe(self.value)
                # The value may have been reached after `wait` returned. Then the loop goes on, and
                # its next `wait` returns at once.
                if not self.done:
                    raise FenceTimeout(
                        f"{queue._device.uri}: value {self.value} was not reached within "
                        f"{timeout_s} s (the timeline is at {queue.reached})",
                        submission,
                    )

    def _error(self, rc: int) -> Exception:
        if rc in (-errno.ECHILD, -errno.ESHUTDOWN, -errno.ENODEV, -errno.ECANCELED):
            try:
                check_told(self.queue._device, rc, "wait")
            except Exception as error:
                return error
        queue = self.queue
        name = errno.errorcode.get(-rc, str(-rc))
        told = queue._device._abilities.tells_fault
        words = told.fault(queue._handle, self.value) if told is not None else ""
        return KernelFault(
            f"{queue._device.uri}: submission {self.value} failed with {name}"
            + (f": {words}" if words else "")
        )

    def __await__(self) -> Generator[Any, None, Fence]:
        """Polls with growing pauses, 5 ms at most, so that a cancelled await leaves no thread."""
        pause = 0.00005
        while not self.done:
            yield from asyncio.sleep(pause).__await__()
            pause = min(pause * 2, _AWAIT_MOST_S)
        return self.wait(0)

    @property
    def time_ns(self) -> int:
        """Device time of this submission in ns. Waits for the submission first, as `wait()` does.

        The queue must have been opened with timing=True. A queue of a cpu keeps the times of the
        newest 4096 submissions. Raises ValueError if there is no time, and the errors of `wait`.
        """
        queue = self.queue
        if not queue.timing:
            raise ValueError("time_ns: expected a queue that was opened with timing=True")
        self.wait()
        times = queue._backend.times(queue._handle, self.value)
        if times is None:
            raise ValueError(f"time_ns: the queue keeps no times of submission {self.value}")
        return times[1] - times[0]
