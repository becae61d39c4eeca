"""ContextArray: an array that may be on several devices at once, and moves when it is needed.

It has one core.Array for each place that has a copy; writing on one device drops the others. What
moves, and over which way, is told to the runner, which owns the links.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkle_drv.core.array import Array, shape_of
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.core.shaped import Shaped

from .noted import call

if TYPE_CHECKING:
    from .local import LocalExecutor


def check_own(executor: LocalExecutor, given: Iterable[Any]) -> None:
    """ValueError when a ContextArray among `given` is closed, or another Context's."""
    for x in given:
        if not isinstance(x, ContextArray):
            continue
        if x.closed:
            raise ValueError("an open ContextArray is wanted, this one is closed")
        if x._executor is not executor:
            raise ValueError(
                f"a ContextArray of this Context is wanted, {x!r} is another's: hand it in as "
                "x.numpy()"
            )


class ContextArray(Shaped):
    """`Context.array` makes them. `shape`, `dtype`, `layout`, `nbytes` as of a core.Array.

    `places` says which devices have a copy; the first is where it was written last. Operations of
    the same Context take it, and numpy does: `numpy()` and `__array__` wait and copy to the host.
    Not for several threads at once without the caller's lock.
    """

    __slots__ = ("__weakref__", "_copies", "_executor", "dtype", "layout", "nbytes", "shape")

    def __init__(self, executor: LocalExecutor, uri: str, array: Array) -> None:
        self._executor = executor
        self._copies: dict[str, Array] = {uri: array}
        self.shape = array.shape
        self.dtype = array.dtype
        self.layout = array.layout
        self.nbytes = array.nbytes

    def __repr__(self) -> str:
        where = ", ".join(self._copies) or "closed"
        return f"<ContextArray {self.dtype}{list(self.shape)} on {where}>"

    def __enter__(self) -> ContextArray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def places(self) -> tuple[str, ...]:
        """URIs of the devices that have a valid copy, the one written last first."""
        return tuple(self._copies)

    @property
    def closed(self) -> bool:
        """True once `close` was called, or its Context closed."""
        return not self._copies or all(copy.closed for copy in self._copies.values())

    def of(self, executor: LocalExecutor) -> bool:
        """Is it an array of this executor's Context?"""
        return self._executor is executor

    @property
    def fence(self) -> Fence | None:
        """That of the operation that fills it; None when nothing is pending."""
        return self._first().fence

    def on(self, device: str) -> Array:
        """The core.Array on a device of this Context, moved there first if it must be.

        For reading: who writes it calls `wrote`. Raises ValueError (closed, no such device).
        """
        self._first()
        found = self._copies.get(device)
        if found is None:
            found = self._copies[device] = self._executor.moved(self, device)
        return found

    def wrote(self, device: str) -> None:
        """The copy on `device` has changed: the others are no longer valid."""
        kept = self._copies[device]
        for uri, copy in self._copies.items():
            if uri != device:
                copy.close()
        self._copies = {device: kept}

    @call
    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements on the host, after waiting: a view of unified memory, else a copy.

        It is read-only: other devices may have copies. `fill` writes.
        """
        host = self._nearest().numpy()
        host.flags.writeable = False
        return host

    @call
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        host = self._nearest().__array__(dtype, copy)
        if not copy:
            host.flags.writeable = False
        return host

    @call
    def fill_random(self, seed: int = 0) -> ContextArray:
        """Fill with values of numpy's default_rng(seed): uniform in [0, 1), whole numbers from the
        dtype's whole range. The same seed gives the same values on any device. Returns itself.
        """
        if not isinstance(seed, (int, np.integer)) or seed < 0:
            raise TypeError(f"seed: a whole number of 0 or more is wanted, got {seed!r}")
        chance = np.random.default_rng(seed)
        if np.issubdtype(self.dtype, np.floating):
            kind = self.dtype if self.dtype in (np.float32, np.float64) else np.dtype(np.float32)
            values = chance.random(self.shape, kind).astype(self.dtype, copy=False)
        else:
            limits = np.iinfo(self.dtype)
            values = chance.integers(limits.min, limits.max, self.shape, self.dtype, endpoint=True)
        return self.fill(values)

    @call
    def fill(self, values: Any) -> ContextArray:
        """Copy `values`, a numpy array of this shape and dtype, or what broadcasts to it. Returns
        itself. Raises ValueError (a shape that does not broadcast, closed).
        """
        host = np.ascontiguousarray(np.broadcast_to(np.asarray(values, self.dtype), self.shape))
        array = self._first()
        uri = next(iter(self._copies))
        if array.nbytes:
            array.device.default_queue.write(array.buffer, host.reshape(-1).view(np.uint8)).wait()
        self.wrote(uri)
        return self

    def close(self) -> None:
        """Free all copies; idempotent. Garbage collection does it too."""
        for copy in self._copies.values():
            copy.close()
        self._copies = {}

    def _first(self) -> Array:
        if not self._copies:
            raise ValueError("the array is closed")
        return next(iter(self._copies.values()))

    def _nearest(self) -> Array:
        """A copy that numpy can see without moving anything, else the first."""
        first = self._first()
        unified = (c for c in self._copies.values() if c.device.info.unified)
        return next(unified, first)


@call
def empty(
    executor: LocalExecutor, dev: Device, shape: Any, dtype: Any, layout: str | None
) -> ContextArray:
    """A new array of zeros on one device. Raises TypeError, ValueError, OutOfDeviceMemory."""
    return ContextArray(executor, dev.uri, dev.empty(shape_of(shape), dtype, layout))
