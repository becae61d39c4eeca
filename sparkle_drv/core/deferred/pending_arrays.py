"""PendingArrays: the arrays of one device that are not computed yet, and when they are computed.

In this file an array "waits" from the making of its expression until its computation. While arrays
wait, launches send an old epoch. So the backend refuses every launch, prepared call and command
list as stale. The refused launch then calls `Device._renew`, which computes the arrays first. So no
launch overtakes an earlier expression. If no array waits, launches take no more time than without
this mechanism.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn, Protocol

from .provider import Thunk


class Array(Protocol):
    """The part of core.Array that this file uses; this folder cannot import core.Array."""

    _thunk: Thunk | None
    _fence: Any

    def _take(self, made: Any) -> None: ...


class Device(Protocol):
    """The part of core.Device that this file uses; this folder cannot import core.Device."""

    _backend: Any
    _epoch: int

    def _open_queues(self) -> list[Any]: ...


class Failed:
    """The thunk of an array whose computation has failed; reading that array raises `error`."""

    def __init__(self, device: Any, error: Exception) -> None:
        self.device, self.error = device, error

    def run(self) -> NoReturn:
        raise self.error

    def explain(self) -> str:
        return f"failed: {self.error}"


class PendingArrays:
    """The waiting arrays of a device.

    `stale` is True while arrays wait. `device._epoch` is then older than the backend's epoch, so
    the backend refuses each launch as stale, and the arrays are computed first. The lock is held
    during a computation, so two threads that read one array compute it once.
    """

    def __init__(self) -> None:
        self.stale = False
        self._lock = threading.RLock()
        self._arrays: dict[int, weakref.ref[Array]] = {}
        self._runs = False

    def add(self, device: Device, array: Array) -> None:
        """Adds `array` to the arrays that are not computed yet."""
        with self._lock:
            key = id(array)
            arrays = self._arrays
            # The callback of the weak reference takes no lock: it may run in the middle of another
            # change by this thread.
            arrays[key] = weakref.ref(array, partial(arrays.pop, key))
            if not self.stale:
                self.stale = True
                device._backend.advance()

    def epoch(self, device: Device) -> int:
        """Computes all arrays not computed yet; returns the epoch for a launch refused as stale.

        The computation itself makes launches, and these call `epoch` too: they get the backend's
        epoch at once. For other threads `device._epoch` stays old until the computation has ended.
        """
        if self.stale:
            with self._lock:
                if self._runs:
                    return int(device._backend.epoch())
                self.settle(device, wait=len(device._open_queues()) > 1)
        device._epoch = device._backend.epoch()
        return device._epoch

    def settle(self, device: Device, *, wait: bool = True) -> None:
        """Computes every array that is not computed yet.

        With `wait` the call returns when the launches have ended. A caller sets `wait` if no queue
        orders the caller's next work after these launches. An error of a computation is kept:
        reading the array raises that error.
        """
        if not self.stale:
            return
        with self._lock:
            if self._runs:
                return
            for array in [ref() for ref in list(self._arrays.values())]:
                if array is None or array._thunk is None:
                    continue
                try:
                    self.compute(device, array)
                    if wait and array._fence is not None:
                        array._fence.wait()
                except Exception as error:
                    if array._thunk is not None:
                        array._thunk = Failed(device, error)
            self._arrays.clear()
            self._renewed(device)

    def compute(self, device: Device, array: Array) -> None:
        """Computes one array now. Raises the errors of its operations."""
        with self._lock:
            thunk = array._thunk
            if thunk is None:
                return  # another thread has computed the array
            outer, self._runs = self._runs, True
            try:
                array._take(thunk.run())
                self._arrays.pop(id(array), None)
            finally:
                self._ran(device, outer)

    @contextmanager
    def overtaken(self, device: Device) -> Iterator[None]:
        """In the `with` block, this thread's launches run before the arrays not computed yet.

        Outside the block, a launch first computes those arrays, which may read what it overwrites.
        So launches in the block must write only to new memory.
        """
        with self._lock:
            outer, self._runs = self._runs, True
            try:
                yield
            finally:
                self._ran(device, outer)

    def _ran(self, device: Device, outer: bool) -> None:
        self._runs = outer
        if not outer:
            self._renewed(device)

    def _renewed(self, device: Device) -> None:
        """Makes the epoch of the device's launches equal to the backend's, or older.

        It is equal if all arrays are computed. While arrays are not computed yet, it is older. The
        backend then refuses each launch, so that the arrays are computed first.
        """
        if not self._arrays:
            self.stale = False
            device._epoch = device._backend.epoch()
        elif self.stale:
            device._backend.advance()
