"""Functions of the array API standard that make arrays, on `device` or on the cpu device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.registry import open_device
from sparkle_drv.ops.deferred import views


def array_of(x: Any) -> Array:
    """Returns `x`. Raises TypeError if `x` is not an Array."""
    if not isinstance(x, Array):
        raise TypeError(f"x: expected an Array, got {type(x).__name__}")
    return x


_opened: list[Device] = []


def cpu_device() -> Device:
    """Returns the cpu device for new arrays, which is opened at first use and after a close."""
    if not _opened or _opened[0].closed:
        _opened[:] = [open_device("cpu")]
    return _opened[0]


def _new(host: Any, device: Device | None) -> Array:
    if device is not None and not isinstance(device, Device):
        raise TypeError(f"device: expected an open Device or None, got {type(device).__name__}")
    return (device or cpu_device()).array(np.asarray(host, order="C"))


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Device | None = None, copy: Any = None
) -> Array:
    """Returns an Array of the elements of `obj`.

    `obj` is an Array, an array of another library, a number, or nested sequences of numbers. Any
    other `obj` raises TypeError. Raises ValueError if `copy` is False and a copy is needed.
    """
    if isinstance(obj, Array) and device in (None, obj.device):
        if dtype is None or np.dtype(dtype) == obj.dtype:
            return views.copy(obj) if copy else obj
        if copy is not False:
            return obj.astype(dtype)
    if copy is False:
        raise ValueError("copy: expected None or True, because this array needs a copy")
    if isinstance(obj, (list, tuple)):
        obj = _nested(obj)
    elif hasattr(obj, "__dlpack__") and not isinstance(obj, (Array, np.ndarray, np.generic)):
        obj = np.from_dlpack(obj)
    return _new(np.asarray(obj, dtype), device)


def _nested(obj: Any) -> Any:
    if isinstance(obj, (list, tuple)):
        return [_nested(x) for x in obj]
    return obj.numpy() if isinstance(obj, Array) else obj


def from_dlpack(x: Any, /, *, device: Device | None = None, copy: Any = None) -> Array:
    """Returns an Array with the elements of `x`, which exports DLPack."""
    return asarray(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
    """Returns a new Array whose elements are all `fill_value`."""
    return _new(np.full(shape, fill_value, dtype), device)


def full_like(
    x: Array, /, fill_value: Any, *, dtype: Any = None, device: Device | None = None
) -> Array:
    """Does what `full` does, with the shape of x, and its dtype and device if none are given."""
    kind = array_of(x).dtype if dtype is None else dtype
    return full(x.shape, fill_value, dtype=kind, device=device or x.device)


def filled(value: float) -> tuple[Callable[..., Array], Callable[..., Array]]:
    """Returns two functions, such as `ones` and `ones_like`, whose elements are all `value`.

    The dtype of the first is float64 by default.
    """

    def function(shape: Any, *, dtype: Any = None, device: Device | None = None) -> Array:
        return full(shape, value, dtype=np.float64 if dtype is None else dtype, device=device)

    def like(x: Array, /, *, dtype: Any = None, device: Device | None = None) -> Array:
        return full_like(x, value, dtype=dtype, device=device)

    return function, like


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None,
    device: Device | None = None,
) -> Array:  # fmt: skip
    """Returns the numbers from `start` to `stop`, without `stop`. One number alone means `stop`."""
    given = (0, start, step) if stop is None else (start, stop, step)
    return _new(np.arange(*given, dtype=dtype), device)
