"""Pipeline: a ring of slots whose fences let host and device work at the same time.

Three slots are triple buffering: the device works on one, the next waits in its queue, the host
fills the third. What a slot holds is its maker's affair; here are only fences and turns.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkle_drv.core.closing import Closing
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.fence import Fence, timeout_ns
from sparkle_drv.core.queue import Queue
from sparkle_drv.core.retire import BRIEFLY_S
from sparkle_drv.core.whole_number import within
from sparkle_drv.errors import FenceTimeout, SparkleError

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


class Slot:
    """The default slot: its number, for users who keep their buffers themselves."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Place(NamedTuple):
    """A slot, its queue, and the fence of what it was last submitted with, until its end is known
    and, if it failed, somebody was told.
    """

    slot: Any
    queue: Queue
    pending: deque[Fence]

    def settle(self, timeout_s: float) -> None:
        """Wait for the fence; raises as it does, the failure once."""
        for fence in list(self.pending):
            try:
                fence.wait(timeout_s)
            finally:
                if fence.done:
                    with suppress(ValueError):  # another thread has waited for it, too
                        self.pending.remove(fence)


class Pipeline(Closing):
    """A ring of slots, made by `Device.pipeline`.

        with dev.pipeline(3, make=Slot) as pipe:
            slot = pipe.acquire()
            ...
            pipe.submit(slot, commands)

    `acquire` gives the one of the `depth` `slots` that was submitted longest ago, and blocks only
    on that slot's fence. Work goes to `queue` on `device`, in order. With `overlap` each slot has a
    queue of its own in `queues`: where the device can, it copies for one slot while it computes for
    another, and what a slot is submitted with sees nothing of the other slots' work unless it waits
    for their fences. Any thread may acquire and submit; a slot is for who acquired it, `close` is
    for one thread.
    """

    BRIEFLY = (BRIEFLY_S,)

    def __init__(
        self,
        device: Device,
        depth: int = 3,
        make: Callable[..., Any] | None = None,
        queue: Queue | None = None,
        overlap: bool = False,
    ) -> None:
        if queue is not None:
            if overlap:
                raise ValueError("overlap: each slot opens a queue of its own, give no queue=")
            device._check_own("queue: it", queue.device, "pipeline")
            queue._check_open()
        self.device = device
        self.depth = within("depth", depth, 1, 1024)
        self.closed = False
        self._owns_queue = queue is None
        with ExitStack() as made:  # when one slot cannot be made, those before it are closed
            self.queues = [] if queue is None else [queue]
            for _ in range(self.depth if overlap else not self.queues):
                self.queues.append(device.queue())
                made.callback(self.queues[-1].close)
            self.slots = _make(make, device, self.depth, made)
            self._made = made.pop_all()
        # No lock: each change below is one operation on one container, which Python makes whole.
        queues = self.queues if overlap else self.queues * self.depth
        self._places = [
            _Place(slot, own, deque()) for slot, own in zip(self.slots, queues, strict=True)
        ]
        self._ring = deque(self._places)  # not with the user, in the order of submission
        self._out: dict[int, _Place] = {}  # acquired and not yet submitted, by id of the slot

    @property
    def queue(self) -> Queue:
        """Where the work goes; with `overlap`, that of the first slot."""
        return self.queues[0]

    @property
    def in_flight(self) -> int:
        """How many slots are submitted and not yet reached. Never blocks."""
        return sum(not fence.done for place in self._places for fence in list(place.pending))

    def acquire(self, timeout_s: float = 30) -> Any:
        """The next slot, once the device has done with it.

        Raises ValueError (all slots are out, closed), DeviceLost, and as `Fence.wait`: the failure
        of what the slot was submitted with is told once, the next call gives the slot. After
        FenceTimeout, too, the next call asks for the same slot.
        """
        self._check_open()
        try:
            place = self._ring.popleft()
        except IndexError:
            raise ValueError(f"acquire: all {self.depth} slots are out; submit one first") from None
        slot = place.slot
        try:
            place.settle(timeout_s)
            self._out[id(slot)] = place
        except BaseException:  # Ctrl-C too: the slot must not be lost
            self._out.pop(id(slot), None)
            self._ring.appendleft(place)
            raise
        return slot

    def submit(self, slot: Any, commands: Commands) -> Fence:
        """Submit the work of an acquired slot, which comes round again when this fence is reached.

        Raises ValueError (not acquired, closed), and as `Queue.submit`; the slot then stays out.
        """
        self._check_open()
        place = self._out.pop(id(slot), None)
        if place is None:
            raise ValueError("submit: this slot was not acquired")
        try:
            fence = place.queue.submit(commands)
            place.pending.append(fence)
        except BaseException:
            self._out[id(slot)] = place
            raise
        self._ring.append(place)
        return fence

    def drain(self, timeout_s: float = 30) -> None:
        """Wait for everything submitted; one bound for all of it.

        Raises as `Fence.wait`, once all slots have been waited for: FenceTimeout, else the failure
        of one of them that was not told before.
        """
        failure = self._settled(time.monotonic_ns() + timeout_ns(timeout_s))
        if failure is not None:
            raise failure

    def _settled(self, deadline_ns: int) -> SparkleError | None:
        self.device._check_process()  # a child's refusal is no failure of what was submitted
        failure: SparkleError | None = None
        for place in self._places:
            try:
                place.settle(max(0, deadline_ns - time.monotonic_ns()) / 1e9)
            except SparkleError as error:
                if not isinstance(failure, FenceTimeout):  # the first: no time was left for others
                    failure = error if isinstance(error, FenceTimeout) else failure or error
        return failure

    def close(self, timeout_s: float = 30) -> None:
        """Drain, then close what the pipeline opened, and slots that have a close(); idempotent.

        Raises as `drain`, after everything is closed; FenceTimeout: something still runs, nothing
        is closed and the pipeline may be closed again.
        """
        if self.closed:
            return
        deadline = time.monotonic_ns() + timeout_ns(timeout_s)
        failure = self._settled(deadline)
        if not isinstance(failure, FenceTimeout):
            for queue in self.queues if self._owns_queue else ():  # they may have got more work
                queue.close(max(0, deadline - time.monotonic_ns()) / 1e9)
            self.closed = True
            self._made.close()
        if failure is not None:
            raise failure

    def _check_open(self) -> None:
        self.device._check_open()
        if self.closed:
            raise ValueError("the pipeline is closed")


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
