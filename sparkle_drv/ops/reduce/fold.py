"""Reductions of maps, such as `sum(x*y)`: one pass, which never stores the product.

A Lazy is an expression or a traced function with its values. On the cpu, fused_map computes and
reduces the expression in one pass. Other devices run a map, then a reduction. This file chooses the
order of the axes for both. reduce calls it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.quoting import shown
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import (
    bind,
    convert,
    fuses,
    graph_of,
    map,
    outline,
    sorted_out,
)
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.shapes import space

Shape = tuple[int, ...]
# (number of elements along neighbouring axes, True if these axes are reduced)
Run = tuple[int, bool]


class Lazy:
    """An expression from `lazy` that is not computed yet: its graph, and its values by name."""

    __slots__ = ("graph", "values")

    def __init__(self, expression: Any, args: tuple[Any, ...], names: dict[str, Any]) -> None:
        self.graph = graph_of(expression)
        self.values = bind(self.graph, args, names)

    def map(self, dev: Device) -> Any:
        """Computes the expression by `map` and returns the result. Raises the errors of `map`."""
        return map(dev, self.graph, *(self.values[name] for name in self.graph.names))


def lazy(expression: str | Graph | Callable[..., Any], /, *args: Any, **names: Any) -> Lazy:
    """Returns an expression (or function) with its values, which `reduce` computes later.

    Takes the arguments of `map` and raises its errors. `reduce` computes the expression while it
    reduces.

    >>> x = np.array([1, -2, 3], np.float32)
    >>> float(sp.ops.reduce(dev, sp.ops.lazy("abs(x)", x)))
    6.0
    """
    return Lazy(expression, args, names)


def fold(dev: Device, expression: Lazy, op: str, axis: Any, keepdims: bool) -> Any:
    """Returns `op` of a Lazy over `axis`; None if the device cannot compute it in one pass.

    Raises TypeError (no arrays, wrong types) and ValueError (wrong shapes).
    """
    arrays, numbers = sorted_out(expression.values, dev)
    if not arrays:
        raise TypeError("reduce: expected at least one array in the expression, got none")
    shape, kinds, _ = outline("reduce", arrays)
    axes = axes_of(axis, len(shape))
    if not fuses(dev) or not math.prod(shape):
        return None
    code, values = fused.program(expression.graph, kinds, numbers)
    result = code.result
    if op == "mean" and result in promote.SUMMED_IN:
        return None  # whole numbers have no mean: `reduce` raises
    narrow = result if result in promote.COMPUTED_IN else ""
    if narrow:
        code, _ = fused.program(expression.graph, kinds, numbers, wide=True)
    stage = staging.Stage(dev, arrays)
    inputs = fused.placed(stage, [stage.inputs[name] for name in code.inputs])
    strides = [space.broadcast(x, shape) for x in inputs]
    order = together(shape, axes, memory_order(shape, strides if stage.in_place else []))
    place = space.Space(shape, [(0,) * len(shape), *strides]).ordered(order).joined()
    if len(place.shape) > space.DIMS:
        return None
    kind = promote.SUMMED_IN.get(result, code.result) if op == "sum" else code.result
    dtype = promote.summed(result) if op == "sum" and not narrow else promote.dtype_of(kind)
    rest = [d for d in order if d not in axes]
    final = kept(shape, axes, keepdims) if stage.on_device else tuple(shape[d] for d in rest)
    target = stage.target(final, dtype)
    cells = code.constants(expression.graph, values)
    cube = cube_of(runs(shape, axes, order))
    fused.launch(stage, code, cells, place, target.pointer, inputs, kind, fold=op, cube=cube)
    folded = arranged(stage.finish(target), rest, axes, keepdims)
    return convert(dev, folded, narrow) if narrow else folded


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Returns the axes to reduce as sorted numbers from 0 on.

    Raises TypeError unless `axis` is None, a whole number or several. Raises ValueError if an axis
    does not exist or is given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    axes: set[int] = set()
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    for entry in several:
        i = check.index(entry)
        if i is None:
            raise TypeError(f"axis: expected None, a number or several, got {shown(axis)}")
        if not -ndim <= i < ndim:
            raise ValueError(
                f"axis: expected {-ndim} to {ndim - 1} for {ndim} dimensions, got {shown(i)}"
            )
        axes.add(i % ndim)
    if len(axes) != len(several):
        raise ValueError(f"axis: expected each axis once, got {shown(axis)}")
    return tuple(sorted(axes))


def kept(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    """Returns the shape of the result of reducing `axes`."""
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keepdims or i not in axes)


def memory_order(shape: Shape, strides: list[Shape]) -> list[int]:
    """Returns the dimensions, outermost first, in the memory order of an array.

    The array is the first of `strides` that is not broadcast. If there is none, the order is 0, 1,
    2, ...
    """
    for own in strides:
        if all(s or d == 1 for s, d in zip(own, shape, strict=True)):
            return space.order_of(tuple(s or 1 for s in own))
    return list(range(len(shape)))


def runs(shape: Shape, axes: Shape, order: list[int]) -> list[Run]:
    """Merges neighbouring axes of `order` that are all reduced, or all not reduced.

    Returns a Run for each group of axes. Axes of length 1 are left out.
    """
    merged: list[Run] = []
    for i in order:
        size, reduced = shape[i], i in axes
        if size == 1:
            continue
        if merged and merged[-1][1] == reduced:
            size *= merged.pop()[0]
        merged.append((size, reduced))
    return merged


def together(shape: Shape, axes: Shape, order: list[int]) -> list[int]:
    """Returns an order of dimensions in which all axes to reduce are neighbours.

    That is `order` itself if they are neighbours in it, else `order` with these axes moved to the
    end.
    """
    if sum(reduced for _, reduced in runs(shape, axes, order)) > 1:
        return [*(i for i in order if i not in axes), *(i for i in order if i in axes)]
    return order


def cube_of(groups: list[Run]) -> tuple[int, int, int]:
    """Returns (outer, n, inner): how a kernel reduces the last entry of `groups` that is reduced.

    An entry stands for neighbouring axes: (their number of elements, True if they are reduced).
    n is the number of elements of the returned entry. outer and inner are the products of those
    before and after it. The returned entry is removed from `groups`.
    """
    reduced = [i for i, (_, reduced) in enumerate(groups) if reduced]
    at = reduced[-1] if reduced else 0
    n = groups.pop(at)[0] if reduced else 1
    outer, inner = (math.prod(size for size, _ in part) for part in (groups[:at], groups[at:]))
    return outer, n, inner


def arranged(result: Any, rest: list[int], axes: Shape, keepdims: bool) -> Any:
    """Returns a host result with its dimensions in the order that they have in the operand.

    `rest` lists the operand's dimensions in the present order of the result. An Array is returned
    unchanged.
    """
    if isinstance(result, Array):
        return result
    result = result.transpose(np.argsort(rest))
    return np.expand_dims(result, axes) if keepdims else result
