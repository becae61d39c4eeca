"""Pending: the arrays of one device that wait to be computed, and when they are.

While arrays wait, the epoch that launches send is an old one, so the backend refuses every launch,
prepared call and list as stale. `Device._renew`, which each of them then calls, computes the arrays
first: work of ours never overtakes an expression, and launches without one pay nothing.
"""

from __future__ import annotations

import sys
import threading
import weakref
from typing import Any, NoReturn, Protocol

from .provider import Thunk


class Array(Protocol):
    """core.Array, which is above this folder."""

    _thunk: Thunk | None
    _fence: Any

    def _take(self, made: Any) -> None: ...


class Device(Protocol):
    """core.Device, which is above this folder."""

    _backend: Any
    _epoch: int

    def _open_queues(self) -> list[Any]: ...


class Failed:
    """The thunk of an array whose computation failed before a write: reading it raises `error`."""

    def __init__(self, device: Device, error: Exception) -> None:
        self.device, self.error = device, error

    def run(self) -> NoReturn:
        raise self.error

    def explain(self) -> str:
        return f"failed: {self.error}"


class Pending:
    """`stale`: do arrays wait, so that the device's epoch is kept old? The lock covers a run, so
    two threads that read one array compute it once.
    """

    def __init__(self) -> None:
        self.stale = False
        self._lock = threading.RLock()
        self._arrays: dict[int, weakref.ref[Array]] = {}
        self._runs = False

    def add(self, device: Device, array: Array) -> None:
        """`array` waits from now on."""
        with self._lock:
            key = id(array)
            arrays = self._arrays
            # Without the lock: a finalizer may run while this thread is in the middle of a change.
            arrays[key] = weakref.ref(array, lambda _: arrays.pop(key, None))
            if not self.stale:
                self.stale = True
                device._backend.advance()

    def epoch(self, device: Device) -> int:
        """The epoch for a launch that was refused as stale: computes what waits.

        Launches of such a computation get the true epoch, which other threads do not see.
        """
        if self.stale:
            with self._lock:
                if self._runs:
                    return int(device._backend.epoch())
                self.settle(device, wait=len(device._open_queues()) > 1)
        device._epoch = device._backend.epoch()
        return device._epoch

    def settle(self, device: Device, *, wait: bool = True) -> None:
        """Compute every array that waits. `wait`: until they are done, because what comes next is
        not ordered after them. Errors are kept for who reads the array.
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
        """Compute one array now; raises as its operations do."""
        with self._lock:
            thunk = array._thunk
            if thunk is None:
                return  # another thread was first
            outer = self._runs
            self._runs = True
            # With no other thread there is none to hide the epoch from, and C launches by itself.
            if not outer and self.stale and len(sys._current_frames()) == 1:
                device._epoch = device._backend.epoch()
            try:
                made = thunk.run()
                array._take(made)
            finally:
                self._runs = outer
                if not outer:
                    if array._thunk is None:
                        self._arrays.pop(id(array), None)
                    self._renewed(device)

    def _renewed(self, device: Device) -> None:
        """After a run: the epoch is true if nothing waits, else old."""
        if not self._arrays:
            self.stale = False
            device._epoch = device._backend.epoch()
        elif self.stale:
            device._backend.advance()
