"""Constant: a private copy of an array on one device, for weights that never change.

An operation reads a plain array in each call, because it cannot know whether the array has changed.
A Constant cannot change, because nobody else has its memory. So the cpu device packs a Constant
once for each plan, and the Constant keeps the packed copies. gemm, conv2d and users of
`sparkle_drv.ops` use Constants. sched/run/constants.py makes a Constant for each device of a
Context. weights.py has the function `constant`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import numpy as np

from sparkle_drv import _hot
from sparkle_drv._native import lib
from sparkle_drv.core.array import Array
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.closing import Closing
from sparkle_drv.core.device import Device
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.ops.arguments.quoting import short

MOST = 8
"""The most packed copies of a constant. Convolutions need one for each shape of x; without a bound,
images of many sizes would fill the memory."""


class Constant(_hot.ConstantBase, Shaped, Closing):
    """An array that never changes, made by `constant`.

    `shape`, `dtype`, `layout` and `nbytes` are those of the source. Operations take a Constant like
    an array of their device, but a Constant does not make a call asynchronous. `numpy()` and
    `__array__` return copies only. Several threads may use a Constant at once. After `close`,
    operations on it raise ValueError.

    >>> w = sp.ops.constant(dev, np.eye(3, dtype=np.float32))
    >>> w.shape, w.nbytes
    ((3, 3), 36)
    >>> sp.ops.gemm(dev, np.ones((1, 3), np.float32), w)
    array([[1., 1., 1.]], dtype=float32)
    >>> w.close()
    """

    __slots__ = ("__weakref__", "_array", "_blobs", "_lock", "dtype", "layout", "nbytes", "shape")

    def __init__(self, array: Array) -> None:
        """Makes a Constant of `array`, to which no other reference may exist (@private)."""
        self.shape, self.dtype, self.layout = array.shape, array.dtype, array.layout
        self.nbytes = array.nbytes
        self._array = array
        self._blobs: dict[Hashable, Array] = {}
        self._lock = fork_lock()  # reentrant, because a signal handler may close the Constant

    def __repr__(self) -> str:
        uri = self._array.buffer._uri()
        return f"<Constant {self.dtype}{list(self.shape)} {f'on {uri}' if uri else 'closed'}>"

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a Constant cannot be copied or pickled: use its numpy()")

    @property
    def device(self) -> Device:
        """The device that has the memory; raises ValueError if the Constant is closed."""
        return self._open().device

    @property
    def closed(self) -> bool:
        """True if the Constant or its device is closed."""
        return self._array.closed

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns a copy of the elements as a numpy array.

        Raises ValueError if the Constant is closed.
        """
        return self._open().buffer.read(self.dtype, self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError(
                "copy: expected None or True, got False: a Constant gives out copies only"
            )
        return self.numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def close(self) -> None:
        """Closes the Constant; its memory is freed when the device has finished with it.

        A second call does nothing.
        """
        with self._lock:
            for blob in self._blobs.values():
                blob.close()
            self._forget()
            self._array.close()

    def _open(self) -> Array:
        if self.closed:
            raise ValueError("constant: expected an open Constant, got a closed one")
        return self._array

    def array(self, name: str, dev: Device) -> Array:
        """Returns the unpacked elements, for a launch (@private).

        Raises the errors of `check_here`.
        """
        check_here(name, self, self._array, dev)
        return self._array

    def packed(self, key: Hashable, pack: Callable[[Array], Array]) -> Array:
        """Returns the packed copy for this key, which `pack` makes at the first call (@private)."""
        with self._lock:
            blob = self._blobs.get(key)
            if blob is None:
                if len(self._blobs) >= MOST:
                    # The packed copies are not closed: another thread may be about to launch with
                    # them.
                    self._forget()
                blob = self._blobs[key] = pack(self._open())
            return blob

    def _forget(self) -> None:
        self._calls = None
        self._blobs = {}


def check_here(name: str, operand: object, memory: Array, dev: Device) -> None:
    """Raises ValueError if the memory of an operand is closed or of another device.

    Raises DeviceLost if the device is closed, which has closed the memory.
    """
    why = _hot.whose(memory, dev)
    if why:
        dev._check_open()
        closed = why == lib.SP_REFUSED_CLOSED
        got = "a closed one" if closed else f"one of {dev._another(memory.device)}"
        kind = type(operand).__name__
        raise ValueError(f"{short(name)}: expected an open {kind} of {dev.uri}, got {got}")
