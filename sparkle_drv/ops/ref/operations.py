"""The operations in float64 numpy: plain sums, no tiles, no im2col, nothing shared with the C code.

They are slow and easy to read, and public as names of ref. kernels.py builds the oracles of the
manifest's kernels from them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sparkle_drv.ops.expression import grammar, scalars
from sparkle_drv.ops.expression.elementwise import ELEMENTWISE, Array, apply
from sparkle_drv.ops.expression.graph import Graph


def activate(x: Array, activation: str | None) -> Array:
    """Returns `activation` ("relu", "tanh", "sigmoid" or None) of every element.

    >>> ref.activate(np.array([-1.0, 2.0]), "relu")
    array([0., 2.])
    """
    return x if activation is None else ELEMENTWISE[activation](x)


def gemm(a: Array, b: Array, bias: Array | None = None, activation: str | None = None) -> Array:
    """Returns activation(a @ b + bias) for a [m, k], b [k, n], bias [n]: float64 [m, n].

    >>> ref.gemm(np.ones((1, 2)), np.array([[1, 2], [3, 4]]))
    array([[4., 6.]])
    """
    c = f64(a) @ f64(b)
    return activate(c if bias is None else c + f64(bias), activation)


def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    activation: str | None = None,
    layout: str = "NCHW",
) -> Array:
    """Cross-correlates x [n, c, h, w] (or NHWC) with w [oc, c/groups, kh, kw] in float64.

    The result has the layout of x; padding is ((top, bottom), (left, right)).

    >>> ref.conv2d(np.ones((1, 1, 3, 3)), np.ones((1, 1, 3, 3))).shape
    (1, 1, 1, 1)
    """
    x = np.moveaxis(f64(x), 3, 1) if layout == "NHWC" else f64(x)
    padded = np.pad(x, ((0, 0), (0, 0), *padding))
    oc, per_group, *kernel = w.shape
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    (sh, sw), (dh, dw) = stride, dilation
    windows = sliding_window_view(padded, reach, (2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
    n, _, oh, ow, *_ = windows.shape
    weights = f64(w).reshape(groups, oc // groups, per_group, *kernel)
    y = np.zeros((n, groups, oc // groups, oh * ow))
    for i, j in np.ndindex(*kernel):  # add the image, shifted and weighted
        y += weights[..., i, j] @ windows[..., i, j].reshape(n, groups, per_group, oh * ow)
    y = y.reshape(n, oc, oh, ow)
    y = activate(y if bias is None else y + f64(bias)[:, None, None], activation)
    return np.moveaxis(y, 1, 3) if layout == "NHWC" else y


def map(expression: str | Graph, /, **values: Any) -> Array:
    """Computes an expression of arrays and scalars by name, in float64.

    If all arrays are int32, the computation is in int32, with wrap-around. As in a map,
    operations whose operands are all numbers are computed in the types of these numbers.

    >>> ref.map("max(x, y)", x=np.array([1, 5]), y=3)
    array([3., 5.])
    """
    arrays = [np.asarray(v).dtype for v in values.values() if np.ndim(v)]
    kind = np.int32 if arrays and all(t == np.int32 for t in arrays) else np.float64
    graph = expression if isinstance(expression, Graph) else grammar.parse(expression)
    single = scalars.values(graph, {n: v for n, v in values.items() if not np.ndim(v)})
    results: list[Array] = []
    for i, node in enumerate(graph.nodes):
        if node.args and i not in single:
            results.append(apply(node.op, *(results[a] for a in node.args)))
        else:
            value = single[i] if i in single else values[str(node.value)]
            results.append(np.asarray(value, dtype=kind))
    return results[-1]


def reduce(a: Array, op: str = "sum", axis: Any = None, keepdims: bool = False) -> Array:
    """Computes sum, max, min or mean over `axis` in float64.

    Whole numbers and bool are computed in numpy's types.

    >>> ref.reduce(np.arange(6).reshape(2, 3), "mean", axis=1)
    array([1., 4.])
    """
    wide = np.asarray(a) if np.asarray(a).dtype.kind in "iub" else f64(a)
    with np.errstate(all="ignore"):
        if op == "mean" and wide.size == 0:
            return reduce(a, "sum", axis, keepdims) * np.nan
        function: Any = getattr(np, op)
        return np.asarray(function(wide, axis=axis, keepdims=keepdims))


def layout(a: Array, source: str, target: str, channels: int | None = None) -> Array:
    """Converts `a` from layout `source` ("NCHW", "NHWC" or `NCHW<block>c`) to `target`.

    The dtype stays.

    >>> ref.layout(np.zeros((1, 3, 4, 4)), "NCHW", "NHWC").shape
    (1, 4, 4, 3)
    """
    if source == "NHWC":
        a = np.moveaxis(a, 3, 1)
    elif source != "NCHW":
        n, cb, h, w, block = a.shape
        a = np.moveaxis(a, 4, 2).reshape(n, cb * block, h, w)[:, :channels]
    if target == "NHWC":
        a = np.moveaxis(a, 1, 3)
    elif target != "NCHW":
        block = int(target[4:-1])
        padded = np.pad(a, ((0, 0), (0, -a.shape[1] % block), (0, 0), (0, 0)))
        n, c, h, w = padded.shape
        a = np.moveaxis(padded.reshape(n, c // block, block, h, w), 2, 4)
    return np.ascontiguousarray(a)


def f64(a: Any) -> Array:
    return np.asarray(a, dtype=np.float64)
