"""Indexing, assignment, transposes and conversions of Arrays, which are row-major.

If the elements of a result are contiguous, the result is a view of the same memory. Otherwise it is
a strided copy on the device. If no kernel can make that copy, the host does, and `explain()` of the
result says so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array, dtype_of
from sparkle_drv.core.array import check_fixed as check_fixed_bytes
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.map.operation import convert, fuses
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.shapes.view import View
from sparkle_drv.ops.strided.operation import strided_copy

from .build import by_numpy
from .node import bindable, broadcast, launched, viewed


def getitem(x: Array, key: object) -> Array:
    """Returns `x[key]`, as Array.__getitem__ says."""
    x.buffer._open()
    return viewed(x, View.of(x.shape).at(key))


def transpose(x: Array, axes: tuple[Any, ...]) -> Array:
    """Returns x with its dimensions permuted, as Array.transpose says."""
    x.buffer._open()
    whole = len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list)))
    return viewed(x, View.of(x.shape).turned((axes[0] if whole else axes) or None))


def setitem(x: Array, key: object, value: object) -> None:
    """Does `x[key] = value`, and returns when the elements are written.

    The call waits because only `x` would get the fence of the copy, not other views of this memory.
    """
    device = x.device
    if x.readonly:
        raise ValueError("x[...] = value: expected a writable Array, got a read-only one")
    if isinstance(value, Array):
        device._check_own("value: it", value.device, "array")
    elif not isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        raise TypeError(
            f"value: expected an Array, a numpy array or a number, got {type(value).__name__}"
        )
    x.buffer._open()
    view = View.of(x.shape).at(key)
    shape = value.shape if isinstance(value, (Array, np.ndarray)) else ()
    while len(shape) > len(view.shape) and shape[0] == 1:
        shape = shape[1:]
    if len(shape) > len(view.shape) or any(
        n not in (1, m) for n, m in zip(shape[::-1], view.shape[::-1], strict=False)
    ):
        raise ValueError(f"value: expected a shape that broadcasts to {view.shape}, got {shape}")
    if isinstance(value, Array):
        source = astype(value, x.dtype) if value.dtype != x.dtype else value
        if staging.overlap(x, source):
            source = copy(source)
    else:
        with np.errstate(all="ignore"):
            if isinstance(value, (np.generic, np.ndarray)):
                host = np.asarray(value).astype(x.dtype)
            else:
                host = np.asarray(value, x.dtype)  # a large Python integer raises OverflowError
        if view == View.of(x.shape):
            x.device.default_queue.write(x, np.broadcast_to(host, view.shape)).wait()
            return
        source = device.array(host)
    source = bindable(source.reshape(shape))
    read = broadcast(source, view.shape)
    try:
        strided_copy(
            device, x, source, view.shape, dst_strides=view.strides, dst_offset=view.offset,
            src_strides=read.strides,
        )  # fmt: skip
        if x.fence is not None:
            x.fence.wait()
    except (check.NotThere, ValueError):  # no kernel, for example for positions beyond 2**32
        _assign_on_host(x, view, source._host())


def _assign_on_host(x: Array, view: View, values: np.ndarray[Any, Any]) -> None:
    """Writes `values` to the elements of `view`. Moves no byte before the first or behind the last
    of them, and reads none if they are contiguous.
    """
    ends = [(n - 1) * step for n, step in zip(view.shape, view.strides, strict=True)]
    before = -sum(min(end, 0) for end in ends)
    extent = before + sum(max(end, 0) for end in ends) + 1
    itemsize = x.dtype.itemsize
    memory = x.buffer.view((view.offset - before) * itemsize, extent * itemsize)
    span = memory.array(x.dtype, (extent,))
    span.fence = x.fence
    dense = extent == math.prod(view.shape)
    host = np.empty(extent, x.dtype) if dense else span._host().copy()
    steps = [step * itemsize for step in view.strides]
    np.lib.stride_tricks.as_strided(host[before:], view.shape, steps)[...] = values
    x.device.default_queue.write(span, host).wait()


def copy(x: Array) -> Array:
    """Returns an Array with the elements of x in memory of its own."""
    return launched(staging.Stage(x.device, {"x": x}).copy(x))


def astype(x: Array, dtype: Any) -> Array:
    """Returns a copy of x in another dtype, as Array.astype says."""
    kind = dtype_of(dtype)
    check_fixed_bytes("dtype: ", kind)
    x.buffer._open()
    if kind == x.dtype:
        return copy(x)
    before, after = check.tag_of(x.dtype), check.tag_of(kind)
    if fuses(x.device) and promote.converts(before, after):
        return launched(convert(x.device, x, after))
    return by_numpy(x.device, f"{x.dtype} to {kind}", lambda: x._host().astype(kind))
