"""ContextArray: an array that may be on several devices at once, and moves when it is needed.

A ContextArray has one core.Array on each device that has a copy. Writing on one device drops the
other copies. The executor, which owns the links, makes the moves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from sparkle_drv.core.array import Array, is_masked, shape_of
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.deferred.operators import Operators
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.errors import OutOfDeviceMemory
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.deferred.views import copy
from sparkle_drv.ops.layout.operation import parse

from .call_spans import BACK, INTO, MEMORY, call, part
from .constants import ContextConstant

if TYPE_CHECKING:
    from sparkle_drv.core.deferred.provider import Thunk

    from .local import LocalExecutor
    from .ways import Wait

_MOST_SEED = 2**128 - 1


def check_own(executor: LocalExecutor, operands: Iterable[Any]) -> None:
    """Raises ValueError if an array or constant of a Context in `operands` is closed, or of another
    Context.
    """
    for x in operands:
        if not isinstance(x, (ContextArray, ContextConstant)):
            continue
        kind = type(x).__name__
        if x.closed:
            executor.check_open()  # else the Context has closed it
            raise ValueError(f"expected an open {kind}, got a closed one")
        if not x.of(executor):
            raise ValueError(
                f"expected a {kind} of this Context, got {x!r} of another Context: "
                "pass x.numpy() instead"
            )


def apart(x: Any, out: Any) -> Any:
    """Returns the operand `x`, or a copy on the host if writing `out` would change `x`."""
    if x is None or isinstance(x, ContextConstant):
        return x
    if isinstance(x, ContextArray) or isinstance(out, ContextArray):
        return np.array(x.numpy()) if x is out and isinstance(x, ContextArray) else x
    return x.copy() if np.may_share_memory(x, out) else x


def here(operands: Iterable[Any], uri: str) -> list[Any]:
    """Returns each argument as `there` does."""
    return [there(x, uri) for x in operands]


def there(x: Any, uri: str) -> Any:
    """Returns an argument as a device takes it: the copy on `uri` of a ContextArray or
    ContextConstant, another one unchanged.
    """
    if isinstance(x, ContextArray):
        return x._read(uri)
    return x.on(uri) if isinstance(x, ContextConstant) else x


def on_host(x: Any) -> np.ndarray[Any, Any]:
    """Returns the elements of an operand or a result as a numpy array. Waits until they are
    computed.
    """
    return x.numpy() if isinstance(x, ContextArray) else np.asarray(x)


class ContextArray(Shaped, Operators):
    """An array of a Context. `shape`, `dtype`, `layout`, `nbytes` are as of a core.Array.

    `Context.array` makes a ContextArray. `places` lists the devices that have a copy, the last
    written first. Operations of the same Context take the array, and numpy does, too: `numpy()` and
    `__array__` wait and copy to the host.

    Operators build expressions as those of a core.Array do. `Context.map` computes an expression
    when it is read, or before an array of the Context is written. Indexing, transposing and
    `reshape` copy. Threads that share a ContextArray need their own lock. It is neither copied nor
    pickled. Once its Context is closed, reading elements raises DeviceLost.
    """

    __slots__ = (
        "__weakref__",
        "_copies",
        "_executor",
        "_lent",
        "_thunk",
        "dtype",
        "layout",
        "nbytes",
        "shape",
    )
    _PROVIDER = "sparkle_drv.sched.deferred.numpy_api"

    def __init__(self, executor: LocalExecutor, uri: str, array: Array) -> None:
        self._executor = executor
        self._copies: dict[str, Array] = {uri: array}
        self._thunk: Thunk | None = None
        self._lent = False
        """True once the caller has a copy, which the caller may write at any time. Expressions over
        the array then run at once."""
        self.shape = array.shape
        self.dtype = array.dtype
        self.layout = array.layout
        self.nbytes = array.nbytes

    @classmethod
    def _deferred(
        cls, executor: LocalExecutor, thunk: Thunk, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> ContextArray:
        """Returns an array that `thunk` computes when somebody reads its elements."""
        array = cls.__new__(cls)
        array._executor, array._thunk, array._copies, array._lent = executor, thunk, {}, False
        array.shape, array.dtype, array.layout = shape, dtype, None
        array.nbytes = math.prod(shape) * dtype.itemsize
        executor.waiting.add(array)
        return array

    def _ready(self) -> None:
        if self._thunk is not None:
            self._executor.waiting.compute(self)

    def _take(self, made: ContextArray) -> None:
        """Takes over the copies of `made`, which the array's thunk has computed."""
        self._copies, self.layout = made._copies, made.layout
        self._thunk = None  # last, because other threads read the fields above without a lock

    def explain(self) -> str:
        """Describes in one line how the array will be computed, or why the host computed it.
        Returns "" if neither applies.
        """
        if self._thunk is not None:
            return self._thunk.explain()
        return next((array.explain() for array in self._copies.values()), "")

    def __repr__(self) -> str:
        where = ", ".join(self._copies) or ("closed" if self._thunk is None else "nowhere yet")
        return f"<ContextArray {self.dtype}{list(self.shape)} on {where}>"

    def __enter__(self) -> ContextArray:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "a ContextArray cannot be copied or pickled: use x.numpy(), or ctx.map('x', x=x)"
        )

    @property
    def places(self) -> tuple[str, ...]:
        """URIs of the devices that have a valid copy, the last written first."""
        self._ready()
        return tuple(self._copies)

    @property
    def copies(self) -> dict[str, Array]:
        """The copies by URI, the last written first. First computes all arrays of the Context that
        are not computed yet, since the caller may write a copy.
        """
        self._lend()
        return dict(self._copies)

    def _lend(self) -> None:
        """Makes the array ready for a caller that may write a copy at any time from now on."""
        self._ready()
        with self._executor.waiting.lock:
            self._lent = True
            self._executor.waiting.settle()

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the array's Context closed."""
        if self._thunk is not None:
            return self._executor.closed
        return not self._copies or all(x.closed for x in self._copies.values())

    def of(self, executor: LocalExecutor) -> bool:
        """Returns whether the array belongs to this executor's Context."""
        return self._executor is executor

    @property
    def fence(self) -> Fence | None:
        """The fence of the operation that fills the array; None if nothing is pending."""
        return self._first().fence

    def on(self, device: str) -> Array:
        """Returns the core.Array on a device of this Context. The array is moved there first if
        necessary.

        The result is for reading: a caller that writes it must call `wrote`. First computes all
        arrays of the Context that are not computed yet, since they may read this one. Expressions
        over this array run at once from now on. Raises ValueError (closed, no such device),
        TypeError (not a str), and what the devices raise.
        """
        array = self._read(device)
        self._lend()
        return array

    def writable(self, device: str) -> Array:
        """Does what `on` does, for a caller that writes the result, calls `wrote`, and then forgets
        it (@private).
        """
        self._executor.waiting.settle()
        return self._read(device)

    def _read(self, device: str) -> Array:
        """Returns the core.Array on a device, as `on` does, for a caller that only reads it. Other
        arrays of the Context that are not computed yet stay so.
        """
        self._first()
        if not isinstance(device, str):
            raise TypeError(f"device: expected a URI as str, got {device!r}")
        return self._on(device)

    def _on(self, device: str, *wait: Wait) -> Array:
        """Returns the core.Array on a device. If the array must be moved there, `wait` waits for
        the move.
        """
        found = self._copies.get(device)
        if found is None:
            found = self._copies[device] = self._executor.moved(self, device, *wait)
        return found

    def wrote(self, device: str) -> None:
        """Records that the copy on `device` has changed, so the others become invalid. Raises
        ValueError if there is no copy.
        """
        kept = self._copies.get(device)
        if kept is None:
            where = ", ".join(self._copies) or "nowhere"
            raise ValueError(f"device: expected one of {where}, which has a copy, got {device!r}")
        for uri, array in self._copies.items():
            if uri != device:
                array.close()
        self._copies = {device: kept}

    @call
    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns the elements on the host: a view of unified memory, else a copy. Waits until the
        array is computed.

        The result is read-only, because other devices may have copies. `fill` writes.
        """
        array = self._nearest()
        host = array.numpy()
        host.flags.writeable = False
        self._came(array)
        return host

    @call
    def get(self, *at: int) -> Any:
        """Returns the element at this index as a numpy scalar: `x.get(2, 0)`.

        Waits until the array is computed, and copies only this element to the host. A negative
        index counts from the end. Raises IndexError (out of range, or not one per dimension),
        TypeError, ValueError (closed).
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
        """Records in a trace that the current call copied the array to the host, or waited
        for it.
        """
        trace = self._executor.trace
        if trace is not None:
            moved = self.nbytes if nbytes is None else nbytes
            about = {} if array.device.info.unified else {"nbytes": moved}
            part(trace, array.device.uri, BACK, "wait" if not about else "result", **about)

    @call
    def fill_random(self, seed: int = 0) -> ContextArray:
        """Fills the array with values of numpy's default_rng(seed). Returns the array.

        Floats are uniform in [0, 1); integers cover the dtype's whole range. The same seed gives
        the same values on any device. Raises TypeError (a dtype without such values, a seed that is
        no integer), ValueError (a negative seed).
        """
        seed = check.whole("seed", seed, 0, _MOST_SEED)
        if self.dtype.kind not in "fiu":
            raise TypeError(
                f"fill_random: expected an array of floats or integers, got one of {self.dtype}"
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
        """Copies `values` into the array. Returns the array.

        `values` must broadcast to the shape, and the dtype must hold them: floats may lose digits,
        integers must fit. Raises TypeError (another kind of values), ValueError (a shape that does
        not broadcast, an integer that does not fit, closed).
        """
        host = np.ascontiguousarray(np.broadcast_to(self._held(values), self.shape))
        self._executor.waiting.settle()
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
        """Returns `values` in the dtype of this array. Checks that they broadcast to its shape."""
        if is_masked(values):
            raise TypeError("values: expected plain elements, got a masked array: fill it first")
        elements, kind = np.asarray(values), self.dtype
        whole = elements.dtype.kind in "iu" and kind.kind in "iu"
        if not whole and not np.can_cast(elements.dtype, kind, "same_kind"):
            raise TypeError(f"values: expected values that {kind} can hold, got {elements.dtype}")
        try:
            fits = np.broadcast_shapes(elements.shape, self.shape) == self.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"values: expected a shape that broadcasts to {self.shape}, got {elements.shape}"
            )
        if whole and elements.size and not np.can_cast(elements.dtype, kind):
            least, most, limits = int(elements.min()), int(elements.max()), np.iinfo(kind)
            if least < limits.min or most > limits.max:
                far = least if least < limits.min else most
                raise ValueError(f"values: expected numbers that fit {kind}, got {far}")
        return elements.astype(kind, copy=False)

    def reshape(self, *shape: Any) -> ContextArray:
        """Returns a copy in another shape of the same size. One dimension may be -1: its length
        follows from the others.

        Raises ValueError (another size, closed), TypeError (a shape that is not of integers).
        """
        array = self._nearest()
        return ContextArray(self._executor, array.device.uri, copy(array.reshape(*shape)))

    def close(self) -> None:
        """Frees all copies; idempotent. Garbage collection does so, too. First computes all arrays
        of the Context that are not computed yet, because they may read this one.
        """
        if self._thunk is not None:  # this array was never read: no need to compute it
            self._executor.waiting.drop(self)
        elif self._copies and not self._executor.closed:
            self._executor.waiting.settle()
        for array in self._copies.values():
            array.close()
        self._copies = {}

    def _first(self) -> Array:
        self._executor.check_open()
        self._ready()
        if not self._copies:
            raise ValueError("expected an open ContextArray, got a closed one")
        return next(iter(self._copies.values()))

    def _nearest(self) -> Array:
        """Returns a copy that numpy can read without a move, else the copy that was written
        last.
        """
        first = self._first()
        unified = (c for c in self._copies.values() if c.device.info.unified)
        return next(unified, first)


@call
def empty(
    executor: LocalExecutor, dev: Device, shape: Any, dtype: Any, layout: str | None
) -> ContextArray:
    """Returns a new array of zeros on one device.

    Raises TypeError or ValueError for a bad shape, dtype or layout. Raises OutOfDeviceMemory if the
    device has no room.
    """
    extents = shape_of(shape)
    if layout is not None:
        parse("layout", layout).check("shape", extents)
    array = ContextArray(executor, dev.uri, dev.empty(extents, dtype, layout))
    trace = executor.trace
    if trace is not None:
        part(trace, dev.uri, MEMORY, "allocate", nbytes=array.nbytes)
    return array


def empty_anywhere(
    executor: LocalExecutor, shape: Any, dtype: Any, layout: str | None
) -> ContextArray:
    """Returns a new array of zeros on the first device that is not lost and has room. Devices that
    take part only when named are left out. Raises as `empty` does.
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
    reasons = "; ".join(map(str, full))
    raise OutOfDeviceMemory(f"expected a device with room for the array, got none: {reasons}")
