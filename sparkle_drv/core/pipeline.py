"""Pipeline: a ring of slots whose fences let host and device work at the same time.

Three slots are triple buffering: the device works on one, the next waits in its queue, the host
fills the third. What a slot holds is its maker's affair; here are only fences and turns.
"""

from __future__ import annotations

import inspect
import operator
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
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


class _Place:
    """A slot and the fence of what it was last submitted with, until that was waited for."""

    __slots__ = ("fence", "slot")

    def __init__(self, slot: Any) -> None:
        self.slot = slot
        self.fence: Fence | None = None


class Pipeline:
    """A ring of slots, made by `Device.pipeline`.

        with dev.pipeline(3, make=Slot) as pipe:
            slot = pipe.acquire()
            ...
            pipe.submit(slot, commands)

    `acquire` gives the one of the `depth` `slots` that was submitted longest ago, and blocks only
    on that slot's fence. Work goes to `queue` on `device`. Any thread may acquire and submit; a
    slot is for who acquired it, `close` is for one thread.
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
        if queue is not None:
            if queue.device is not device:
                raise ValueError(
                    f"queue: it belongs to {queue.device.uri}, this pipeline to {device.uri}"
                )
            queue._check_open()
        self.device = device
        self.depth = operator.index(depth)
        self.closed = False
        self._owns_queue = queue is None
        with ExitStack() as made:  # when one slot cannot be made, those before it are closed
            self.queue = device.queue() if queue is None else queue
            if self._owns_queue:
                made.callback(self.queue.close)
            self.slots = _make(make, device, self.depth, made)
            self._made = made.pop_all()
        self._places = [_Place(slot) for slot in self.slots]
        self._lock = threading.Lock()  # of the two below; nobody waits for a fence under it
        self._ring = deque(self._places)  # not with the user, in the order of submission
        self._out: list[_Place] = []  # acquired and not yet submitted

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self.close()
        except SparkleError:
            if kind is None:  # else the error of the body is the one to tell
                raise

    @property
    def in_flight(self) -> int:
        """How many slots are submitted and not yet reached. Never blocks."""
        fences = [place.fence for place in self._places]
        return sum(fence is not None and not fence.done for fence in fences)

    def acquire(self, timeout_s: float = 30) -> Any:
        """The next slot, once the device has done with it.

        Raises ValueError (all slots are out, closed), DeviceLost, and as `Fence.wait`: the failure
        of what the slot was submitted with is told once, the next call gives the slot. After
        FenceTimeout, too, the next call asks for the same slot.
        """
        self._check()
        with self._lock:
            if not self._ring:
                raise ValueError(f"acquire: all {self.depth} slots are out; submit one first")
            place = self._ring.popleft()
        try:
            _settle(place, timeout_s)
        except BaseException:  # Ctrl-C too: the slot must not be lost
            with self._lock:
                self._ring.appendleft(place)
            raise
        with self._lock:
            self._out.append(place)
        return place.slot

    def submit(self, slot: Any, commands: Commands) -> Fence:
        """Submit the work of an acquired slot, which comes round again when this fence is reached.

        Raises ValueError (not acquired, closed), and as `Queue.submit`; the slot then stays out.
        """
        self._check()
        with self._lock:  # also over the submission: the ring is in the order of the timeline
            place = next((out for out in self._out if out.slot is slot), None)
            if place is None:
                raise ValueError("submit: this slot was not acquired")
            place.fence = fence = self.queue.submit(commands)
            self._out.remove(place)
            self._ring.append(place)
        return fence

    def drain(self, timeout_s: float = 30) -> None:
        """Wait for everything submitted; one bound for all of it.

        Raises as `Fence.wait`: the first failure, once all slots have been waited for.
        """
        deadline = time.monotonic_ns() + timeout_ns(timeout_s)
        failure: SparkleError | None = None
        for place in sorted(self._places, key=_value):
            try:
                _settle(place, max(0, deadline - time.monotonic_ns()) / 1e9)
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
        deadline = time.monotonic_ns() + timeout_ns(timeout_s)
        failure: SparkleError | None = None
        try:
            self.drain(timeout_s)
        except FenceTimeout:
            raise
        except SparkleError as error:
            failure = error
        if self._owns_queue:  # it may have got more than the slots' work
            self.queue.close(max(0, deadline - time.monotonic_ns()) / 1e9)
        self.closed = True
        self._made.close()
        if failure is not None:
            raise failure

    def _check(self) -> None:
        # The process before the lock: in a forked child nobody may be left to release it.
        self.device._check_open()
        if self.closed:
            raise ValueError("the pipeline is closed")


def _settle(place: _Place, timeout_s: float) -> None:
    """Wait for the place's fence, which is forgotten once it is reached, well or not."""
    fence = place.fence
    if fence is None:
        return
    try:
        fence.wait(timeout_s)
    finally:
        if fence.done and place.fence is fence:
            place.fence = None


def _value(place: _Place) -> int:
    fence = place.fence
    return 0 if fence is None else fence.value


def _make(
    make: Callable[..., Any] | None, device: Device, depth: int, made: ExitStack
) -> list[Any]:
    """`depth` different slots; `made` gets the close() of each, as soon as it is there."""
    if make is None:
        return [Slot(index) for index in range(depth)]
    if not callable(make):
        raise TypeError(f"make: what makes a slot is wanted, got {make!r}")
    try:
        inspect.signature(make).bind(device)
        arguments: tuple[Device, ...] = (device,)
    except (TypeError, ValueError):
        arguments = ()
    slots: list[Any] = []
    for index in range(depth):
        slot = make(*arguments)
        if any(slot is other for other in slots):
            raise ValueError(f"make: slot {index} is an object that another slot is already")
        close = getattr(slot, "close", None)
        if callable(close):
            made.callback(close)
        slots.append(slot)
    return slots
