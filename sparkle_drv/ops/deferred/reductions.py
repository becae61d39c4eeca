"""Reductions of Arrays, and products of matrices.

If a kernel of this package can compute the result in the type that numpy would give it, the kernel
does. Otherwise numpy computes it on the host.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.commands import Commands
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import ReduceOp
from sparkle_drv.ops.gemm.operation import THROUGH, TYPES, gemm
from sparkle_drv.ops.map.operation import fuses
from sparkle_drv.ops.reduce.fold import axes_of, lazy
from sparkle_drv.ops.reduce.operation import reduce
from sparkle_drv.ops.shapes import space

from .build import by_numpy, device_of
from .node import DeferredNode, bindable, broadcast, is_bindable, launched, viewed
from .views import astype, getitem

KERNELS = {
    "sum": ("f32", "f64", "i32"), "mean": ("f32", "f64"),
    "max": ("f32", "f64", "i32"), "min": ("f32", "f64", "i32"),
}  # fmt: skip


def reduction(x: Array, op: str, axis: Any, keepdims: bool) -> Array:
    """Computes a reduction method of Array; `op` is the name of numpy's function."""
    device = x.device
    if op in ("argmax", "argmin") and axis is not None and check.index(axis) is None:
        raise TypeError(f"axis: expected None or a whole number, got {axis!r}")
    axes = axes_of(axis, x.ndim)
    if op in ("max", "min", "argmax", "argmin") and any(x.shape[i] == 0 for i in axes):
        raise ValueError(f"{op}: expected one element or more along an axis, got shape {x.shape}")
    tag = check.tag_of(x.dtype)
    if x.size and tag and axes and op in KERNELS and fuses(device):
        return _folded(x, op, axes, keepdims)
    kernels = (f"reduce_sum_{tag}", *((f"map_{tag}",) if op == "mean" else ()))
    if x.size and tag in KERNELS.get(op, ()) and all(map(device.provides, kernels)):
        if not axes:
            x, axes, keepdims = x.reshape((*x.shape, 1)), (x.ndim,), False
        return launched(reduce(device, bindable(x), cast(ReduceOp, op), axes, keepdims=keepdims))
    along = axis if op in ("argmax", "argmin") else axes
    host = partial(getattr(np, op), x._host(), axis=along, keepdims=keepdims)
    return by_numpy(device, f"{op} of {x.dtype}", host)


def _folded(x: Array, op: str, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Reduces the expression of x in the same pass that computes it. The elements of x are not
    stored, so x still waits for its computation.
    """
    device, real = x.device, op == "mean" and x.dtype.kind in "iub"
    with device._pending.waiting.lock:
        node = x._thunk
        if isinstance(node, DeferredNode):
            if real:
                node = DeferredNode(
                    device, "mul", (node, 1.0), np.dtype(np.float64), x.shape, "f64"
                )
            graph, values = node.graph()
            elements: Any = lazy(graph, *values)
        else:
            elements = lazy("x * 1.0", x) if real else bindable(x)
        return launched(reduce(device, elements, cast(ReduceOp, op), axes, keepdims=keepdims))


def matmul(a: Any, b: Any) -> Array:
    """Returns a @ b by numpy's rules: matrices, vectors, and stacks of matrices that broadcast."""
    device = device_of((a, b))
    for name, x in (("a", a), ("b", b)):
        if not isinstance(x, (Array, np.ndarray)):
            raise TypeError(f"{name}: expected an Array or a numpy array, got {type(x).__name__}")
        if not x.ndim:
            raise ValueError(f"{name}: expected 1 dimension or more, got a 0-d array")
    samples = (np.zeros((1, 1), x.dtype) for x in (a, b))
    dtype = np.matmul(*samples).dtype  # for bfloat16 it is float32
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
    tag = check.tag_of(dtype)
    final = (*stack, *(() if left.ndim == 1 else (m,)), *(() if right.ndim == 1 else (n,)))
    if tag not in TYPES or not device.provides(f"gemm_{THROUGH.get(tag, tag)}"):
        host = partial(np.matmul, left._host(), right._host())
        return by_numpy(device, f"matmul of {dtype}", host)
    first, second = (x if x.dtype == dtype else astype(x, dtype) for x in (first, second))
    if second.ndim == 2:  # every matrix has the same b: one product
        first = first.reshape(math.prod(first.shape[:-1]), k)
        return _shaped(launched(gemm(device, first, second)), final)
    first = viewed(first, broadcast(first, (*stack, m, k)))
    second = viewed(second, broadcast(second, (*stack, k, n)))
    count = math.prod(stack)
    lefts, rights = first.reshape(count, m, k), second.reshape(count, k, n)
    products = device.empty((count, m, n), dtype)
    for i in range(count):
        out = getitem(products, i)
        straight = is_bindable(out)
        a_i, b_i = bindable(getitem(lefts, i)), bindable(getitem(rights, i))
        done = gemm(device, a_i, b_i, out if straight else None)
        products.fence = done.fence or products.fence
        if not straight and done.nbytes:
            products.fence = device.default_queue.submit(Commands().copy(out, done))
        products._origin = done._origin
    return _shaped(launched(products), final)


def _shaped(x: Array, shape: tuple[int, ...]) -> Array:
    made = x.reshape(shape)
    made._origin = x._origin
    return made
