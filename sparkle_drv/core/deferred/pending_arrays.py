"""PendingArrays: the expressions of one device, and their order to all other work of the device.

An expression waits, then it is launched on the default queue, then it ends. Two rules make sure
that no write changes an expression that was made before it:

1. Before the device takes other work, every expression that waits is launched.
2. Before another queue takes work, that queue waits on the device for the newest expression that
   was launched. The host does not wait.

Launches learn of both rules by epochs (native/include/sp_queue.h). A launch sends `device._epoch`.
If that is not the backend's epoch, the backend refuses the launch as stale, and the launch calls
`renew`. So `device._epoch` is the backend's epoch only while no expression waits, and the newest
one has ended or the device has one queue only. While that holds, launches take no more time than
without this mechanism.

The lock of WaitingArrays guards all of this. A thread that has it computes expressions: its
launches go first.
"""

from __future__ import annotations

from typing import Any, Protocol

from .waiting_arrays import WaitingArray, WaitingArrays


class Device(Protocol):
    """The part of core.Device that this file uses; this folder cannot import core.Device."""

    uri: str
    _backend: Any
    _epoch: int
    _retired: Any


class PendingArrays:
    """The expressions of a device that have not ended.

    `_shut` is True while no launch has the backend's epoch. It becomes True after the epoch has
    advanced, and False before a launch gets the epoch. So an exception between two steps costs one
    more advance, and nothing else.
    """

    def __init__(self, uri: str) -> None:
        self.waiting = WaitingArrays(uri)
        self._shut = False
        # (queue, value) of the newest expression that was launched. No Fence: the garbage collector
        # does not look into one, and the device would never be freed.
        self._newest: tuple[Any, int] | None = None

    def add(self, device: Device, array: WaitingArray) -> None:
        """Adds `array` to the arrays that are not computed yet."""
        with self.waiting.lock:
            self._shut_out(device)
            self.waiting.add(array)

    def compute(self, device: Device, array: WaitingArray) -> None:
        """Computes one array now. Raises the errors of its operations."""
        with self.waiting.lock:
            self.waiting.compute(array)
            self._let_in(device)

    def launched(self, device: Device, fence: Any) -> None:
        """Records the fence of a launch that computes an expression; None stands for no launch.

        Call it before anybody gets the result.
        """
        if fence is None:
            return
        with self.waiting.lock:
            newest = self._newest
            if newest is None or newest[0] is not fence.queue or newest[1] < fence.value:
                self._newest = fence.queue, fence.value
            if len(device._retired.queues) > 1:
                self._shut_out(device)

    def opened(self, device: Device) -> None:
        """Makes a queue that was just opened wait for expressions that were launched before."""
        if self._unended() is not None:
            with self.waiting.lock:
                self._shut_out(device)

    def renew(self, device: Device, queue: Any) -> int:
        """Orders the next work of `queue` behind every expression. Returns the epoch for it.

        Raises the errors of `queue.submit`.
        """
        if self.waiting.locked:
            return int(device._backend.epoch())
        with self.waiting.lock:
            self.waiting.settle()
            newest = self._unended()
            if newest is not None and queue is not newest[0]:
                queue._follow(*newest)
            self._let_in(device)
            self._shut = False
            return int(device._backend.epoch())

    def order(self, device: Device, queue: Any) -> None:
        """Does what `renew` does, for work that sends no epoch, such as a copy."""
        if device._epoch != device._backend.epoch():
            self.renew(device, queue)

    def settle(self) -> None:
        """Launches every expression that waits, for a caller that frees memory afterwards."""
        if self.waiting and not self.waiting.locked:
            self.waiting.settle()

    def finish(self) -> None:
        """Launches every expression, and waits for their end. Then the host may write memory of
        the device. Raises the errors of `Fence.wait`.
        """
        self.settle()
        newest = self._unended()
        if newest is not None:
            queue, value = newest
            queue.fence(value).wait()

    def ended(self) -> None:
        """Forgets the queue of the newest expression, once the device is closed."""
        self._newest = None

    def advance(self, device: Device) -> None:
        """Advances the epoch after a close. Launches get the new epoch, unless they are shut out.

        Prepared work is checked again in any case.
        """
        with self.waiting.lock:
            was_open = device._epoch == device._backend.epoch()
            now = device._backend.advance()
            if was_open:
                device._epoch = now

    def _unended(self) -> tuple[Any, int] | None:
        newest = self._newest
        if newest is None:
            return None
        queue, value = newest
        return None if queue.closed or queue.reached >= value else newest

    def _shut_out(self, device: Device) -> None:
        """Makes every launch stale, so that it calls `renew`."""
        if not self._shut:
            device._backend.advance()
            self._shut = True

    def _let_in(self, device: Device) -> None:
        """Gives launches the backend's epoch, if none has to be ordered behind an expression."""
        alone = len(device._retired.queues) <= 1
        if not self.waiting and (alone or self._unended() is None):
            self._shut = False
            device._epoch = device._backend.epoch()
