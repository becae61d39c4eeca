"""Reductions of Arrays, and products of matrices: by our kernels where numpy's type is theirs."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.commands import Commands
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import ReduceOp
from sparkle_drv.ops.gemm.operation import gemm
from sparkle_drv.ops.map.operation import fuses
from sparkle_drv.ops.reduce.fold import axes_of, lazy
from sparkle_drv.ops.reduce.operation import reduce
from sparkle_drv.ops.shapes import space

from .build import device_of
from .node import Node, bindable, broadcast, is_bindable
from .views import _made, astype

KERNELS = {
    "sum": ("f32", "f64", "i32"), "mean": ("f32", "f64"),
    "max": ("f32", "f64", "i32"), "min": ("f32", "f64", "i32"),
}  # fmt: skip


def reduction(x: Array, op: str, axis: Any, keepdims: bool) -> Array:
    """See Array; `op` is the name of numpy's function."""
    device = x.device
    if op in ("argmax", "argmin") and axis is not None and check.index(axis) is None:
        raise TypeError(f"axis: expected None or a whole number, got {axis!r}")
    axes = axes_of(axis, x.ndim)
    if op in ("max", "min", "argmax", "argmin") and any(x.shape[i] == 0 for i in axes):
        raise ValueError(f"{op}: expected elements to choose from, got shape {x.shape}")
    tag = check.DTYPES.get(x.dtype)
    kernels = (f"reduce_sum_{tag}", *((f"map_{tag}",) if op == "mean" else ()))
    if x.size and tag in KERNELS.get(op, ()) and all(map(device.provides, kernels)):
        if not axes:
            x, axes, keepdims = x.reshape((*x.shape, 1)), (x.ndim,), False
        thunk = x._thunk
        if isinstance(thunk, Node) and fuses(device):  # in one pass; x waits on
            graph, values = thunk.graph()
            given = lazy(graph, *values)
            with device._pending.overtaken(device):
                folded: Any = reduce(device, given, cast(ReduceOp, op), axes, keepdims=keepdims)
            return cast(Array, folded)
        return reduce(device, bindable(x), cast(ReduceOp, op), axes, keepdims=keepdims)
    along = axis if op in ("argmax", "argmin") else axes
    with np.errstate(all="ignore"):
        host = getattr(np, op)(x._host(), axis=along, keepdims=keepdims)
    made = device.array(np.asarray(host))
    made._origin = f"numpy on the host: {op} of {x.dtype} has no kernel on {device.uri}"
    return made


def matmul(a: Any, b: Any) -> Array:
    """a @ b as numpy has it: matrices, vectors, and stacks of matrices that broadcast."""
    device = device_of((a, b))
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, (Array, np.ndarray)):
            raise TypeError(f"{name}: expected an Array or a numpy array, got {type(x).__name__}")
        if not x.ndim:
            raise ValueError(f"{name}: expected 1 dimension or more, got a 0-d array")
    dtype = np.result_type(a.dtype, b.dtype)
    left, right = (device.array(x) if isinstance(x, np.ndarray) else bindable(x) for x in (a, b))
    first = left.reshape(1, -1) if left.ndim == 1 else left
    second = right.reshape(-1, 1) if right.ndim == 1 else right
    if first.shape[-1] != second.shape[-2]:
        raise ValueError(f"@: expected inner sizes that agree, got {a.shape} and {b.shape}")
    try:
        stack = space.common([first.shape[:-2], second.shape[:-2]])
    except ValueError:
        raise ValueError(
            f"@: expected stacks that broadcast, got {a.shape} and {b.shape}"
        ) from None
    (m, k), n = first.shape[-2:], second.shape[-1]
    tag = check.DTYPES.get(dtype)
    final = (*stack, *(() if left.ndim == 1 else (m,)), *(() if right.ndim == 1 else (n,)))
    if tag not in ("f32", "f64") or not device.provides(f"gemm_{tag}"):
        with np.errstate(all="ignore"):
            made = device.array(np.asarray(np.matmul(left._host(), right._host())))
        made._origin = f"numpy on the host: matmul of {dtype} has no kernel on {device.uri}"
        return made
    first, second = (x if x.dtype == dtype else astype(x, dtype) for x in (first, second))
    if second.ndim == 2 and first.ndim > 2:  # one matrix for all: one product
        product: Array = gemm(device, first.reshape(-1, k), second)
        return product.reshape(final)
    if not stack:
        product = gemm(device, first, second)
        return product.reshape(final)
    first = _made(first, broadcast(first, (*stack, m, k)))
    second = _made(second, broadcast(second, (*stack, k, n)))
    count = math.prod(stack)
    lefts, rights = first.reshape(count, m, k), second.reshape(count, k, n)
    made = device.empty((count, m, n), dtype)
    for i in range(count):
        out = _one(made, i)
        straight = is_bindable(out)
        a_i, b_i = bindable(_one(lefts, i)), bindable(_one(rights, i))
        done = gemm(device, a_i, b_i, out if straight else None)
        made.fence = done.fence or made.fence
        if not straight and done.nbytes:
            made.fence = device.default_queue.submit(Commands().copy(out, done))
    return made.reshape(final)


def _one(x: Array, i: int) -> Array:
    nbytes = math.prod(x.shape[1:]) * x.dtype.itemsize
    part = x.buffer.view(i * nbytes, nbytes).array(x.dtype, x.shape[1:])
    part.fence = x.fence
    return part
