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

from typing import Any

from .waiting_arrays import WaitingArrays


class PendingArrays:
    """The expressions of a device that have not ended. `device` is the core.Device.

    `_shut` is True while no launch has the backend's epoch. It becomes True after the epoch has
    advanced, and False before a launch gets the epoch. So an exception between two steps costs one
    more advance, and nothing else.
    """

    def __init__(self, uri: str) -> None:
        self.waiting = WaitingArrays(uri)
        self._lock = self.waiting.lock
        self._shut = False
        # (queue, value) of the newest expression that was launched, until the device is closed. No
        # Fence: the garbage collector does not look into one, and would never free the device.
        self.newest: tuple[Any, int] | None = None

    def add(self, device: Any, array: Any) -> None:
        """Adds an Array that is not computed yet. The caller has the lock."""
        self._shut_out(device)
        self.waiting.add(array)

    def compute(self, device: Any, array: Any) -> None:
        """Computes one Array now. Raises the errors of its operations."""
        with self.waiting.lock:
            self.waiting.compute(array)
            self._let_in(device)

    def launched(self, device: Any, fence: Any) -> None:
        """Records the fence of a launch that computes an expression; None stands for no launch.

        Call it before anybody gets the result.
        """
        if fence is None:
            return
        with self._lock:
            queue, value = self.newest or (None, 0)
            if queue is not fence.queue or value < fence.value:
                self.newest = fence.queue, fence.value
            if len(device._retired.queues) > 1:
                self._shut_out(device)

    def opened(self, device: Any) -> None:
        """Makes a queue that was just opened wait for expressions that were launched before."""
        if self._unended() is not None:
            with self._lock:
                self._shut_out(device)

    def renew(self, device: Any, queue: Any) -> int:
        """Orders the next work of `queue` behind every expression. Returns the epoch for it.

        Raises the errors of `queue.submit`.
        """
        if not self.waiting.locked:
            with self.waiting.lock:
                self.waiting.settle()
                newest = self._unended()
                if newest is not None and queue is not newest[0]:
                    queue._follow(*newest)
                self._let_in(device)
                self._shut = False
                return int(device._backend.epoch())
        return int(device._backend.epoch())

    def settle(self, wait: bool = False) -> None:
        """Launches every expression that waits. The caller may free memory afterwards.

        With `wait` the host waits for the end of all expressions, and may then write memory. Raises
        the errors of `Fence.wait`.
        """
        if self.waiting and not self.waiting.locked:
            self.waiting.settle()
        newest = self._unended() if wait else None
        if newest is not None:
            newest[0].fence(newest[1]).wait()

    def advance(self, device: Any) -> None:
        """Advances the epoch after a close. Launches get the new epoch, unless they are shut out.

        Prepared work is checked again in any case.
        """
        with self._lock:
            was_open = device._epoch == device._backend.epoch()
            now = device._backend.advance()
            if was_open:
                device._epoch = now

    def _unended(self) -> tuple[Any, int] | None:
        queue, value = newest = self.newest or (None, 0)
        return None if queue is None or queue.closed or queue.reached >= value else newest

    def _shut_out(self, device: Any) -> None:
        """Makes every launch stale, so that it calls `renew`."""
        if not self._shut:
            device._backend.advance()
            self._shut = True

    def _let_in(self, device: Any) -> None:
        """Gives launches the backend's epoch, if none has to be ordered behind an expression."""
        alone = len(device._retired.queues) <= 1
        if not self.waiting and (alone or self._unended() is None):
            self._shut = False
            device._epoch = device._backend.epoch()
