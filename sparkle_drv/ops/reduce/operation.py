"""reduce: sum, max, min or mean over any axes.

The kernels reduce the middle of [outer, n, inner]. Axes that lie together in memory become one such
middle; axes that do not are reduced one run after the other, innermost first.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.words import listed, shown
from sparkle_drv.ops.calls import plans, table
from sparkle_drv.ops.expression import program
from sparkle_drv.ops.map.operation import run as run_map
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import readable
from sparkle_drv.ops.tiles import gpu as tiles_gpu

from .fold import Lazy, fold

OPS = {"sum": "sum", "max": "max", "min": "min", "mean": "sum"}  # and the kernel that does it
Run = tuple[int, bool]  # elements along axes that lie together; are they reduced?


def reduce(
    dev: Device,
    a: Any,
    /,
    op: str = "sum",
    axis: Any = None,
    *,
    keepdims: bool = False,
    **names: Any,
) -> Any:
    """`op` ("sum", "max", "min" or "mean") over `axis`: None for all, a number, or several.

    a is float32, float64 or int32; the result has its dtype, but the sum of int32 is int64 as in
    numpy, and there is no mean of int32. NaN wins in max and min. keepdims: reduced axes stay, with
    length 1. numpy in: synchronous, a numpy array out (0-d when nothing is left). Array in:
    asynchronous, an Array out with `.fence`.

    a may be an expression or a function of `names`, reduce(dev, "relu(x) * y", x=x, y=y), or what
    `ops.lazy` makes of one: on the cpu device it is computed as it is reduced, in one pass over its
    arrays, of any strides. The same input gives the same bits for any number of threads.

    Raises TypeError, and ValueError: no such axis, an axis twice, max or min of nothing.
    """
    staging.device(dev)
    values = a, op, axis, keepdims
    found = None if names else table.again(dev, ("reduce", dev, *values))
    if found is not None:
        return found
    check.one_of("op", op, tuple(OPS))
    if isinstance(a, (Lazy, str)) or (callable(a) and not isinstance(a, Array)):
        if isinstance(a, Lazy) and names:
            raise TypeError(f"{listed(names)}: a, made by lazy, has its values already")
        given = a if isinstance(a, Lazy) else Lazy(a, (), names)
        found = fold(dev, given, op, lambda ndim: _axes(axis, ndim), keepdims)
        if found is not None:
            return found
        a, names = given.map(dev), {}
    if names:
        raise TypeError(f"{listed(names)}: names are for expressions, and a is an array")
    a = staging.operand("a", readable(dev, {"a": a})["a"])
    axes, kept, dtype = outline(a, op, axis, keepdims)
    tag = check.DTYPES[np.dtype(a.dtype)]
    if op == "mean":
        staging.check_there(dev, "mean", "map", tag, ("f32", "f64"))
    if isinstance(a, np.ndarray) and a.ndim and not a.flags.c_contiguous:
        found = fold(dev, Lazy("x", (a,), {}), op, lambda ndim: _axes(axis, ndim), keepdims)
        if found is not None:
            return found
    shape = tuple(a.shape)
    count = math.prod(shape[i] for i in axes)

    stage = staging.Stage(dev, {"a": a})
    if not math.prod(shape):
        nothing = np.full(kept, np.nan if op == "mean" else 0, dtype)
        return stage.moved(nothing) if stage.on_device else nothing
    order = _memory_order(a)
    if dtype != a.dtype and _separate(_runs(shape, axes, order)):
        # No kernel sums the int64 that a first pass would leave: bring the reduced axes together.
        order = [*(i for i in order if i not in axes), *axes]
        a = a.numpy() if isinstance(a, Array) else a
    if isinstance(a, np.ndarray):
        a = staging.plain(dev, a.transpose(order))
    rest = [i for i in order if i not in axes]
    final = kept if stage.on_device else tuple(shape[i] for i in rest)
    target = _passes(stage, a, _runs(shape, axes, order), f"{OPS[op]}_{tag}", final, dtype)
    if op == "mean":
        code = program.compile_map("x / n", frozenset("n"), tag)
        run_map(stage, code, tag, target.pointer, [target.pointer], [float(count)])
    result = stage.finish(target)
    if isinstance(result, Array):
        return result
    result = result.transpose(np.argsort(rest))
    result = np.expand_dims(result, axes) if keepdims else result
    return table.remember(stage, result, "reduce", values, (table.RESULT, 0))


def outline(
    a: Any, op: str, axis: Any, keepdims: bool
) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    """(the axes to reduce, shape and dtype of the result) for what has this shape and dtype."""
    check.one_of("op", op, tuple(OPS))
    tag = check.dtype("reduce", "a", a.dtype, ("f32", "f64", "i32"))
    if op == "mean" and tag == "i32":
        raise TypeError("a: mean takes float32 or float64, got int32")
    shape: tuple[int, ...] = tuple(a.shape)
    axes = _axes(axis, len(shape))
    kept = tuple(1 if i in axes else d for i, d in enumerate(shape) if keepdims or i not in axes)
    empty = 0 in shape
    if op in ("max", "min") and empty and 0 not in kept:
        raise ValueError(
            f"a: {op} over no elements has no value, got shape {shape}, axis {shown(axis)}"
        )
    return axes, kept, np.dtype(np.int64) if tag == "i32" and op == "sum" else np.dtype(a.dtype)


def _in_parts(stage: staging.Stage, x: Array, n: int, name: str) -> tuple[Array, int]:
    """A long row as its parts' results and how many there are, else as it is. (Not for int32: its
    sums are int64, which no kernel adds.)"""
    parts = tiles_gpu.reduce_parts(stage.dev.info, n)
    if parts == 1:
        return x, n
    each, size = n // parts // 4 * 4, x.dtype.itemsize
    rest = n - parts * each
    found = stage.dev.empty((parts + bool(rest),), x.dtype)
    function = plans.reduce(stage.dev, name, parts, each, 1)
    stage.launch(function, found, x, parts, each, 1)
    if rest:
        function = plans.reduce(stage.dev, name, 1, rest, 1)
        to = found.buffer.view(parts * size, size)
        stage.launch(function, to, x.buffer.view(parts * each * size, rest * size), 1, rest, 1)
    return found, parts + bool(rest)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes to reduce, from 0 on, in order."""
    if axis is None:
        return tuple(range(ndim))
    found: list[int] = []
    for given in axis if isinstance(axis, (tuple, list)) else (axis,):
        try:
            i = None if isinstance(given, (bool, np.bool_)) else operator.index(given)
        except TypeError:
            i = None
        if i is None:
            raise TypeError(f"axis: None, a number or several are wanted, got {shown(axis)}")
        if not -ndim <= i < ndim:
            raise ValueError(
                f"axis: {-ndim} to {ndim - 1} are possible for {ndim} dimensions, got {shown(i)}"
            )
        found.append(i % ndim)
    if len(set(found)) != len(found):
        raise ValueError(f"axis: each may stand there once, got {shown(axis)}")
    return tuple(sorted(found))


def _memory_order(a: staging.Operand) -> list[int]:
    """The axes as they lie in memory, outermost first, if that is row-major; else as they are."""
    plain = list(range(len(a.shape)))
    if isinstance(a, Array) or a.flags.c_contiguous:
        return plain
    order = sorted(plain, key=lambda i: -abs(a.strides[i]))
    return order if a.transpose(order).flags.c_contiguous else plain


def _runs(shape: tuple[int, ...], axes: tuple[int, ...], order: list[int]) -> list[Run]:
    """Neighbours in memory that have the same fate, as one; axes of length 1 have none."""
    runs: list[Run] = []
    for i in order:
        size, reduced = shape[i], i in axes
        if size == 1:
            continue
        if runs and runs[-1][1] == reduced:
            size *= runs.pop()[0]
        runs.append((size, reduced))
    return runs


def _separate(runs: list[Run]) -> bool:
    return sum(reduced for _, reduced in runs) > 1


def _passes(
    stage: staging.Stage, a: Any, runs: list[Run], kernel: str, shape: tuple[int, ...], dtype: Any
) -> staging.Target:
    """One launch for each run to reduce, the innermost first; one for none, which copies."""
    current = stage.pointer(a)
    while True:
        at = max((i for i, (_, reduced) in enumerate(runs) if reduced), default=0)
        n = runs.pop(at)[0] if runs and runs[at][1] else 1
        outer = math.prod(size for size, _ in runs[:at])
        inner = math.prod(size for size, _ in runs[at:])
        for name, value in (("outer", outer), ("reduced", n), ("inner", inner)):
            check.size(f"a: elements along the {name} axes", value)
        last = not any(reduced for _, reduced in runs)
        if outer * inner == 1 and isinstance(current, Array) and not kernel.endswith("i32"):
            current, n = _in_parts(stage, current, n, f"reduce_{kernel}")
        target = stage.target(shape if last else (outer * inner,), dtype)
        function = plans.reduce(stage.dev, f"reduce_{kernel}", outer, n, inner)
        stage.launch(function, target.pointer, current, outer, n, inner)
        if last:
            return target
        current = target.pointer
