"""WaitingArrays: the arrays of one owner that are not computed yet, and the lock that guards them.

The owner is a device, whose arrays are core Arrays, or a Context with its ContextArrays. An array
waits from the making of its expression until its computation. Each step that belongs to one array
is atomic under the lock, and can be repeated after an exception: until the last assignment of
`_take`, the array still waits.
"""

from __future__ import annotations

import os
import weakref
from functools import partial
from typing import Any, NoReturn

from sparkle_drv.errors import FORKED, DeviceLost
from sparkle_drv.fork_lock import fork_lock


class FailedExpression:
    """The thunk of an array whose computation has failed; reading that array raises `error`.

    The error is kept without its traceback. The traceback would keep the variables of every caller
    up to the write that launched the computation.
    """

    def __init__(self, device: Any, error: Exception) -> None:
        self.device, self.error = device, error
        part: BaseException | None = error
        while part is not None:
            part.__traceback__ = None
            part = part.__context__

    def run(self) -> NoReturn:
        raise self.error.with_traceback(None)

    def explain(self) -> str:
        return f"failed: {self.error}"


class WaitingArrays:
    """The arrays of one owner that wait for their computation.

    An array's `_thunk` is None once it is computed. Its `_take` takes over the memory of another
    array. In a forked child, an array may be half changed, so `lock` raises DeviceLost there.
    """

    def __init__(self, owner: str) -> None:
        self._owner, self._pid = owner, os.getpid()
        self._lock: Any = fork_lock()
        self._arrays: dict[int, weakref.ref[Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._arrays)

    @property
    def lock(self) -> Any:
        """The lock that guards every array that waits, for a `with` block of one change."""
        if os.getpid() != self._pid:
            raise DeviceLost(f"{self._owner}: {FORKED}")
        return self._lock

    @property
    def locked(self) -> bool:
        """True if the calling thread has the lock, so that it computes or changes arrays now."""
        return bool(self._lock._is_owned())  # as threading.Condition does

    def add(self, array: Any) -> None:
        """Adds an array that is not computed yet. The caller has the lock."""
        key, arrays = id(array), self._arrays
        # The callback of the weak reference takes no lock: it may run in the middle of another
        # change by this thread.
        arrays[key] = weakref.ref(array, partial(arrays.pop, key))

    def compute(self, array: Any) -> None:
        """Computes one array, unless it is computed. Raises the errors of its operations."""
        with self.lock:
            thunk = array._thunk
            if thunk is not None:
                array._take(thunk.run())
            self._arrays.pop(id(array), None)

    def drop(self, array: Any) -> None:
        """Makes an array that is being closed wait no longer. It is never computed."""
        with self._lock:
            array._thunk = None
            self._arrays.pop(id(array), None)

    def settle(self) -> None:
        """Computes every array that waits. If one fails, reading that array raises its error.

        In a forked child this does nothing, so that a close does no harm there.
        """
        if not self._arrays or os.getpid() != self._pid:
            return
        with self.lock:
            for array in [ref() for ref in list(self._arrays.values())]:
                if array is None:
                    continue
                try:
                    self.compute(array)
                except Exception as error:
                    if array._thunk is not None:
                        array._thunk = FailedExpression(array._thunk.device, error)
                    self._arrays.pop(id(array), None)
