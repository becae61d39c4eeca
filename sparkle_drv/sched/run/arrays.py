"""ContextArray: an array that may be on several devices at once, and moves when it is needed.

It has one core.Array for each place that has a copy; writing on one device drops the others. What
moves, and over which way, is told to the runner, which owns the links.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sparkle_drv.core.array import Array, is_masked, shape_of
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.errors import OutOfDeviceMemory
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.layout.operation import parse

from .call_spans import BACK, INTO, MEMORY, call, part
from .constants import ContextConstant

if TYPE_CHECKING:
    from .local import LocalExecutor
    from .ways import Wait

_MOST_SEED = 2**128 - 1


def check_own(executor: LocalExecutor, given: Iterable[Any]) -> None:
    """ValueError when an array or a constant of a Context among `given` is closed, or another
    Context's.
    """
    for x in given:
        if not isinstance(x, (ContextArray, ContextConstant)):
            continue
        kind = type(x).__name__
        if x.closed:
            raise ValueError(f"an open {kind} is wanted, this one is closed")
        if not x.of(executor):
            raise ValueError(
                f"a {kind} of this Context is wanted, {x!r} is another's: hand it in as x.numpy()"
            )


def apart(x: Any, out: Any) -> Any:
    """An operand, or a copy of it on the host when writing `out` would change it."""
    if x is None or isinstance(x, ContextConstant):
        return x
    if isinstance(x, ContextArray) or isinstance(out, ContextArray):
        return np.array(x.numpy()) if x is out and isinstance(x, ContextArray) else x
    return x.copy() if np.may_share_memory(x, out) else x


def here(given: Iterable[Any], uri: str) -> list[Any]:
    """Arguments as operations on this device take them."""
    return [x.on(uri) if isinstance(x, (ContextArray, ContextConstant)) else x for x in given]


def on_host(x: Any) -> np.ndarray[Any, Any]:
    """The elements of an operand or a result. Waits for them."""
    return x.numpy() if isinstance(x, ContextArray) else np.asarray(x)


class ContextArray(Shaped):
    """`Context.array` makes them. `shape`, `dtype`, `layout`, `nbytes` as of a core.Array.

    `places` says which devices have a copy; the first is where it was written last. Operations of
    the same Context take it, and numpy does: `numpy()` and `__array__` wait and copy to the host.
    Not for several threads at once without the caller's lock, and neither copied nor pickled. Once
    its Context is closed, what wants its elements raises DeviceLost.
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

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "a ContextArray is not copied or pickled: take x.numpy(), or ctx.map('x', x=x)"
        )

    @property
    def places(self) -> tuple[str, ...]:
        """URIs of the devices that have a valid copy, the one written last first."""
        return tuple(self._copies)

    @property
    def copies(self) -> dict[str, Array]:
        """The copies themselves, by URI, in that order."""
        return dict(self._copies)

    @property
    def closed(self) -> bool:
        """True once `close` was called, or its Context closed."""
        return not self._copies or all(copy.closed for copy in self._copies.values())

    def of(self, executor: LocalExecutor) -> bool:
        """Is it an array of this executor's Context?"""
        return self._executor is executor.own

    @property
    def fence(self) -> Fence | None:
        """That of the operation that fills it; None when nothing is pending."""
        return self._first().fence

    def on(self, device: str) -> Array:
        """The core.Array on a device of this Context, moved there first if it must be.

        For reading: who writes it calls `wrote`. Raises ValueError (closed, no such device),
        TypeError (no text), and what the devices do.
        """
        self._first()
        if not isinstance(device, str):
            raise TypeError(f"device: a URI as text is wanted, got {device!r}")
        return self._on(device)

    def _on(self, device: str, *wait: Wait) -> Array:
        """The same; `wait` waits for what moves."""
        found = self._copies.get(device)
        if found is None:
            found = self._copies[device] = self._executor.moved(self, device, *wait)
        return found

    def wrote(self, device: str) -> None:
        """The copy on `device` has changed: the others are no longer valid. ValueError: it has
        none there.
        """
        kept = self._copies.get(device)
        if kept is None:
            where = ", ".join(self._copies) or "nowhere"
            raise ValueError(f"device: there is no copy on {device!r}, it is on {where}")
        for uri, copy in self._copies.items():
            if uri != device:
                copy.close()
        self._copies = {device: kept}

    @call
    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements on the host, after waiting: a view of unified memory, else a copy.

        It is read-only: other devices may have copies. `fill` writes.
        """
        array = self._nearest()
        host = array.numpy()
        host.flags.writeable = False
        self._came(array)
        return host

    @call
    def get(self, *at: int) -> Any:
        """The element at this index as a numpy scalar, after waiting: `x.get(2, 0)`. It alone is
        copied to the host. An index below 0 counts from the end.

        Raises IndexError (outside, or not one for each dimension), TypeError, ValueError (closed).
        """
        array = self._nearest()
        found = array.get(*at)
        self._came(array, self.dtype.itemsize)
        return found

    @call
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self._nearest()
        host = array.__array__(dtype, copy)
        if not copy:
            host.flags.writeable = False
        self._came(array)
        return host

    def _came(self, array: Array, nbytes: int | None = None) -> None:
        """The call that is going on was one that brings a copy to the host, or waits for it."""
        trace = self._executor.trace
        if trace is not None:
            moved = self.nbytes if nbytes is None else nbytes
            about = {} if array.device.info.unified else {"nbytes": moved}
            part(trace, array.device.uri, BACK, "wait" if not about else "result", **about)

    @call
    def fill_random(self, seed: int = 0) -> ContextArray:
        """Fill with values of numpy's default_rng(seed): uniform in [0, 1), whole numbers from the
        dtype's whole range. The same seed gives the same values on any device. Returns itself.
        Raises TypeError (a dtype that has no such values, no seed), ValueError (a negative one).
        """
        seed = check.whole("seed", seed, 0, _MOST_SEED)
        if self.dtype.kind not in "fiu":
            raise TypeError(
                f"fill_random: an array of real or whole numbers is wanted, this is {self.dtype}"
            )
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
        """Copy `values`, a numpy array of this shape and dtype, or what broadcasts to it and this
        dtype can hold: real numbers may lose digits, whole ones must fit. Returns itself.

        Raises TypeError (another kind of values), ValueError (a shape that does not broadcast, a
        number that does not fit, closed).
        """
        host = np.ascontiguousarray(np.broadcast_to(self._held(values), self.shape))
        array = self._first()
        uri = next(iter(self._copies))
        if array.nbytes:
            array.device.default_queue.write(array.buffer, host.reshape(-1).view(np.uint8)).wait()
        self.wrote(uri)
        trace = self._executor.trace
        if trace is not None:
            part(trace, uri, INTO, "fill", nbytes=self.nbytes)
        return self

    def _held(self, values: Any) -> np.ndarray[Any, Any]:
        """`values` in this dtype, of a shape that broadcasts to this one."""
        if is_masked(values):
            raise TypeError("values: a masked array has no plain elements, fill it first")
        given, kind = np.asarray(values), self.dtype
        whole = given.dtype.kind in "iu" and kind.kind in "iu"
        if not whole and not np.can_cast(given.dtype, kind, "same_kind"):
            raise TypeError(f"values: what {kind} can hold is wanted, got {given.dtype}")
        try:
            fits = np.broadcast_shapes(given.shape, self.shape) == self.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"values: a shape that broadcasts to {self.shape} is wanted, got {given.shape}"
            )
        if whole and given.size and not np.can_cast(given.dtype, kind):
            least, most, limits = int(given.min()), int(given.max()), np.iinfo(kind)
            if least < limits.min or most > limits.max:
                far = least if least < limits.min else most
                raise ValueError(f"values: {far} does not fit {kind}")
        return given.astype(kind, copy=False)

    def close(self) -> None:
        """Free all copies; idempotent. Garbage collection does it too."""
        for copy in self._copies.values():
            copy.close()
        self._copies = {}

    def _first(self) -> Array:
        self._executor.check_open()
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
    extents = shape_of(shape)
    if layout is not None:
        parse("layout", layout).check("shape", extents)
    made = ContextArray(executor, dev.uri, dev.empty(extents, dtype, layout))
    trace = executor.trace
    if trace is not None:
        part(trace, dev.uri, MEMORY, "allocate", nbytes=made.nbytes)
    return made


def empty_anywhere(
    executor: LocalExecutor, shape: Any, dtype: Any, layout: str | None
) -> ContextArray:
    """`empty` on the first device that is not lost, has room and need not be named. Raises as it
    does.
    """
    there = [executor.devices[uri] for uri in executor.usual]
    full: list[OutOfDeviceMemory] = []
    for dev in [d for d in there if not executor.costs.nodes[d.uri].lost] or there:
        try:
            return empty(executor, dev, shape, dtype, layout)
        except OutOfDeviceMemory as error:
            full.append(error)
    if len(full) == 1:
        raise full[0]
    raise OutOfDeviceMemory("; ".join(map(str, full)))
