"""Constant: a private copy of an array on one device, for weights that never change.

An operation reads a plain array in each call, because nothing tells whether it has changed since
the last one. A Constant cannot change: nobody else has its memory. So the cpu device packs it once
for each plan, and the packed elements live here. Called by gemm, conv2d and the users of
`sparkle_drv.ops`; sched/run/constants.py makes one for each device of a Context.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import numpy as np

from sparkle_drv._hot import ConstantBase
from sparkle_drv.core.array import Array
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments.words import short

from . import staging

MOST = 8
"""Packed copies that a constant has at a time. Convolutions need one for each shape of x: without
a bound, images of many sizes would fill the memory."""


class Constant(ConstantBase, Shaped):
    """What `constant` makes. `shape`, `dtype`, `layout` and `nbytes` are those of its source.

    Operations take it as they take an array of their device, and are not asynchronous because of
    it. It gives out copies only: `numpy()` and `__array__`. Several threads may use it at once.
    After `close`, which is idempotent, operations raise ValueError.
    """

    __slots__ = ("__weakref__", "_array", "_blobs", "_lock", "dtype", "layout", "nbytes", "shape")

    def __init__(self, array: Array) -> None:
        """`array` is this constant's own: no other reference may be left (@private)."""
        self.shape, self.dtype, self.layout = array.shape, array.dtype, array.layout
        self.nbytes = array.nbytes
        self._array = array
        self._blobs: dict[Hashable, Array] = {}
        self._lock = threading.RLock()  # re-entrant: a signal's handler may close it

    def __repr__(self) -> str:
        uri = self._array.buffer._uri()
        return f"<Constant {self.dtype}{list(self.shape)} {f'on {uri}' if uri else 'closed'}>"

    def __enter__(self) -> Constant:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Constant is not copied or pickled: take its numpy()")

    @property
    def device(self) -> Device:
        """Where its memory is; ValueError once it is closed."""
        return self.of("constant", None)._array.device

    @property
    def closed(self) -> bool:
        """Was it closed, or its device?"""
        return self._array.closed

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the elements on the host. Raises ValueError (closed)."""
        return self.of("constant", None)._array.buffer.read(self.dtype, self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a Constant gives out copies only, got copy=False")
        return self.numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def close(self) -> None:
        """Free its memory, behind what the device does with it; idempotent."""
        with self._lock:
            for blob in self._blobs.values():
                blob.close()
            self._forget()
            self._array.close()

    def of(self, name: str, dev: Device | None) -> Constant:
        """Itself, if it is open and of `dev`; ValueError otherwise (@private)."""
        if self.closed:
            raise ValueError(f"{short(name)}: expected an open Constant, got a closed one")
        there = self._array.device  # DeviceLost: it was closed
        if dev is not None and there is not dev:
            raise ValueError(
                f"{short(name)}: expected a Constant of {dev.uri}, got one of {dev._another(there)}"
            )
        return self

    def array(self, name: str, dev: Device) -> Array:
        """The elements as they are, for a launch to read. Raises as `of` (@private)."""
        return self.of(name, dev)._array

    def packed(self, key: Hashable, pack: Callable[[Array], Array]) -> Array:
        """What `pack` made of the elements for this key, now or before (@private)."""
        with self._lock:
            found = self._blobs.get(key)
            if found is None:
                if len(self._blobs) >= MOST:
                    self._forget()  # not closed: another thread may be about to launch with one
                found = self._blobs[key] = pack(self.of("constant", None)._array)
            return found

    def _forget(self) -> None:
        self._calls = None
        self._blobs = {}


def constant(dev: Device, w: Any) -> Constant:
    """A private copy of `w`, made now, for weights that never change.

    `w` is a numpy array of any strides, an Array of any device, a ContextArray or a Constant. The
    cpu device packs the copy once, in the first call of a kernel that wants packed weights. Other
    devices keep it in their memory.

    Raises TypeError (no array, a dtype without fixed bytes), ValueError (closed),
    OutOfDeviceMemory.
    """
    staging.device(dev)
    if isinstance(w, Constant) or staging.of_context(w):
        w = w.__array__()
    w = staging.operand("w", w)
    if isinstance(w, np.ndarray):
        return Constant(dev.array(w))
    if w.closed:
        raise ValueError("w: expected an open Array, got a closed one")
    if w.device is not dev:
        return Constant(dev.array(w.numpy(), w.layout))
    made = staging.Stage(dev, {"w": w}).copy(w)
    if made.fence is not None:
        made.fence.wait()
        made.fence = None
    return Constant(made)


def arrays(dev: Device, **operands: Any) -> tuple[Any, ...]:
    """`operands` of a launch, with its Array in the place of each Constant."""
    return tuple(
        x.array(name, dev) if isinstance(x, Constant) else x for name, x in operands.items()
    )


def readable(dev: Device, operands: dict[str, Any], out: Any = None) -> dict[str, Any]:
    """`operands` with an array in the place of each Constant, for operations that only read it.

    Beside an Array, or with one as `out`, that is an Array, so that the call stays asynchronous.
    Else it is numpy's, so that the call stays synchronous: a read-only view where memory is shared,
    a copy elsewhere.
    """
    if not any(isinstance(x, Constant) for x in operands.values()):
        return operands
    arrays = any(isinstance(x, Array) for x in (*operands.values(), out))
    return {
        name: _read(dev, name, x, arrays) if isinstance(x, Constant) else x
        for name, x in operands.items()
    }


def _read(dev: Device, name: str, given: Constant, arrays: bool) -> Any:
    array = given.array(name, dev)
    if arrays:
        return array
    host = array.numpy()
    host.flags.writeable = False
    return host
