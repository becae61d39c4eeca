"""Pipeline: a ring of slots whose fences let host and device work at the same time.

Three slots are triple buffering: the device works on one, the next waits in its queue, and the host
fills the third. The caller decides what a slot holds; this file handles only fences and order.
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
    """The default slot, which has only a number, for callers who keep the buffers themselves."""

    def __init__(self, index: int) -> None:
        self.index = index


class _RingSlot(NamedTuple):
    """A slot, its queue, and the fences of its submissions that are not known to have ended.

    The fence of a failed submission is removed from `pending` when its error is raised.
    """

    slot: Any
    queue: Queue
    pending: deque[Fence]

    def settle(self, timeout_s: float) -> None:
        """Waits for the fences of submissions that may still run. Raises the errors of
        `Fence.wait`. The failure of a submission is raised only once.
        """
        for fence in list(self.pending):
            try:
                fence.wait(timeout_s)
            finally:
                if fence.done:
                    with suppress(ValueError):  # another thread has removed the fence
                        self.pending.remove(fence)


class Pipeline(Closing):
    """A ring of slots, made by `Device.pipeline`.

        with dev.pipeline(3, make=Slot) as pipe:
            slot = pipe.acquire()
            ...
            pipe.submit(slot, commands)

    `slots` has `depth` slots. `acquire` returns the one that was submitted longest ago, and waits
    only for its fence. Work goes to `queue` on `device`, in order.

    With `overlap` each slot has its own queue in `queues`, so a capable device copies for one slot
    while it computes for another. Work of different slots is then ordered only by waits for fences.

    Any thread may acquire and submit. Only the thread that acquired a slot may use it. One thread
    calls `close`.

    >>> k = dev.kernel("fill_f32")
    >>> with dev.pipeline(2, make=lambda dev: dev.buffer(64)) as pipe:
    ...     for step in range(3):
    ...         slot = pipe.acquire()
    ...         fill = sp.Commands().dispatch(k, slot, float(step), 16, groups=1)
    ...         fence = pipe.submit(slot, fill)
    ...     fence.wait().done
    ...     float(pipe.slots[0].array(np.float32, (16,)).numpy()[0])
    True
    2.0
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
                raise ValueError("overlap: each slot opens its own queue, so queue= must be None")
            device._check_own("queue: it", queue.device, "pipeline")
            queue._check_open()
        self.device = device
        self.depth = within("depth", depth, 1, 1024)
        self.closed = False
        self._owns_queue = queue is None
        with ExitStack() as stack:  # if a slot cannot be made, the earlier slots are closed
            self.queues = [] if queue is None else [queue]
            for _ in range(self.depth if overlap else not self.queues):
                self.queues.append(device.queue())
                stack.callback(self.queues[-1].close)
            self.slots = _make(make, device, self.depth, stack)
            self._made = stack.pop_all()
        # No lock guards _places, _ring and _out: each change of them is one atomic operation.
        queues = self.queues if overlap else self.queues * self.depth
        self._places = [
            _RingSlot(slot, own, deque()) for slot, own in zip(self.slots, queues, strict=True)
        ]
        self._ring = deque(self._places)  # slots that are not acquired, in order of submission
        self._out: dict[int, _RingSlot] = {}  # slots acquired and not yet submitted, by their id()

    @property
    def queue(self) -> Queue:
        """The queue of all slots; with `overlap`, the queue of the first slot."""
        return self.queues[0]

    @property
    def in_flight(self) -> int:
        """The number of submissions whose fence is not reached; reading it never blocks."""
        return sum(not fence.done for place in self._places for fence in list(place.pending))

    def acquire(self, timeout_s: float = 30) -> Any:
        """Waits until the device has finished with the next slot, and returns that slot.

        Raises ValueError if all slots are acquired or the pipeline is closed. Raises DeviceLost if
        the device is lost, and the errors of `Fence.wait`. The failure of a slot's submission is
        raised once; the next call returns the slot. After FenceTimeout the next call waits for the
        same slot.
        """
        self._check_open()
        try:
            place = self._ring.popleft()
        except IndexError:
            raise ValueError(f"acquire: all {self.depth} slots are acquired; submit one") from None
        slot = place.slot
        try:
            place.settle(timeout_s)
            self._out[id(slot)] = place
        except BaseException:  # the slot must not be lost, even on Ctrl-C
            self._out.pop(id(slot), None)
            self._ring.appendleft(place)
            raise
        return slot

    def submit(self, slot: Any, commands: Commands) -> Fence:
        """Submits the work of an acquired slot. `acquire` returns the slot again after this fence.

        Raises ValueError if the slot is not acquired or the pipeline is closed, and the errors of
        `Queue.submit`. On an error the slot stays acquired.
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
        """Waits for all submissions; `timeout_s` bounds the whole wait.

        After it has waited for all slots, it raises FenceTimeout if a wait timed out. Otherwise it
        raises a failure (see `Fence.wait`) that was not raised before, if there is one.
        """
        failure = self._settled(time.monotonic_ns() + timeout_ns(timeout_s))
        if failure is not None:
            raise failure

    def _settled(self, deadline_ns: int) -> SparkleError | None:
        self.device._check_process()  # a forked child gets DeviceLost, not a submission's failure
        failure: SparkleError | None = None
        for place in self._places:
            try:
                place.settle(max(0, deadline_ns - time.monotonic_ns()) / 1e9)
            except SparkleError as error:
                # A timeout is returned rather than any other failure, because its work still runs.
                if not isinstance(failure, FenceTimeout):
                    failure = error if isinstance(error, FenceTimeout) else failure or error
        return failure

    def close(self, timeout_s: float = 30) -> None:
        """Drains, then closes the queues that the pipeline opened, and the slots.

        Only slots that have a close() are closed. A second call does nothing. The errors of `drain`
        are raised after everything is closed. On FenceTimeout a submission still runs: nothing is
        closed, and `close` may be called again.
        """
        if self.closed:
            return
        deadline = time.monotonic_ns() + timeout_ns(timeout_s)
        failure = self._settled(deadline)
        if not isinstance(failure, FenceTimeout):
            # Other code may have submitted more work to these queues; `close` waits for that work
            # too.
            for queue in self.queues if self._owns_queue else ():
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
    make: Callable[..., Any] | None, device: Device, depth: int, stack: ExitStack
) -> list[Any]:
    """Returns `depth` different slots. Adds the `close` of each slot to `stack` at once,
    so that an error in the next `make` closes it.
    """
    if make is None:
        return [Slot(index) for index in range(depth)]
    if not callable(make):
        raise TypeError(f"make: expected a function that makes a slot, got {make!r}")
    try:
        inspect.signature(make).bind(device)
        arguments: tuple[Device, ...] = (device,)
    except (TypeError, ValueError):
        arguments = ()
    slots: list[Any] = []
    for index in range(depth):
        slot = make(*arguments)
        if any(slot is other for other in slots):
            raise ValueError(
                f"make: expected a new object for each slot, got an earlier one for slot {index}"
            )
        close = getattr(slot, "close", None)
        if callable(close):
            stack.callback(close)
        slots.append(slot)
    return slots
