"""Reductions of maps: `sum(x*y)` in one pass, without the product ever being stored.

A Lazy is an expression or a traced function with its values. On the cpu, fused_map folds it as it
is computed; elsewhere it is a map, then a reduction. Called by reduce.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.scalars import with_truths
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import (
    bind,
    check_inputs,
    common_shape,
    fuses,
    graph_of,
    map,
    sorted_out,
)
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import readable
from sparkle_drv.ops.shapes import space

Runs = tuple[int, int, int]
_WANTED = ("f32", "f64", "i32")


class Lazy:
    """What `lazy` returns: `graph`, and `values` by name."""

    __slots__ = ("_expression", "graph", "values")

    def __init__(self, expression: Any, args: tuple[Any, ...], names: dict[str, Any]) -> None:
        self._expression = expression
        self.graph = graph_of(expression)
        self.values = bind(self.graph, args, names)

    def map(self, dev: Device) -> Any:
        """The elements, by `map`."""
        return map(dev, self._expression, **self.values)


def lazy(expression: str | Graph | Callable[..., Any], /, *args: Any, **names: Any) -> Lazy:
    """An expression (or function) and its values, for `reduce` to compute as it goes.

    Takes what `map` takes; nothing is computed yet. Raises as `map`.
    """
    return Lazy(expression, args, names)


def fold(
    dev: Device, given: Lazy, op: str, axes_of: Callable[[int], tuple[int, ...]], keepdims: bool
) -> Any:
    """`op` over the axes that `axes_of` says for a number of dimensions; None: not in one pass.

    TypeError: no arrays, types; ValueError: shapes.
    """
    arrays, scalars = sorted_out(readable(dev, given.values))
    for name, x in arrays.items():
        check.dtype("reduce", name, x.dtype, _WANTED)
    if not arrays:
        raise TypeError("reduce: at least one array is wanted in the expression")
    shape = common_shape(arrays)
    axes = axes_of(len(shape))
    if not fuses(dev) or not math.prod(shape):
        return None
    kinds = {name: check.DTYPES[np.dtype(x.dtype)] for name, x in arrays.items()}
    graph = with_truths(given.graph, frozenset(scalars))
    code, values = fused.program(graph, kinds, scalars)
    check_inputs(graph, code.inputs)
    if op == "mean" and code.result == "i32":
        return None  # reduce says what is wrong
    stage = staging.Stage(dev, arrays)
    inputs = fused.placed(stage, [arrays[name] for name in code.inputs])
    strides = [space.broadcast(x, shape) for x in inputs]
    plain = stage.on_device or not stage.unified
    order = list(range(len(shape))) if plain else _memory_order(shape, strides)
    order, cube = _cube(order, shape, axes)
    rest = [d for d in order if d not in axes]
    place = space.Space(shape, [(0,) * len(shape), *strides]).ordered(order).joined()
    if len(place.shape) > space.DIMS:
        return None
    kind = "i64" if code.result == "i32" and op == "sum" else code.result
    kept = [1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes]
    final = tuple(kept) if stage.on_device else tuple(shape[d] for d in rest)
    target = stage.target(final, fused.DTYPES[kind])
    cells = code.constants(graph, values)
    fused.launch(stage, code, cells, place, target.pointer, inputs, kind, fold=op, cube=cube)
    result = stage.finish(target)
    if isinstance(result, Array):
        return result
    result = result.transpose(np.argsort(rest))
    return np.expand_dims(result, axes) if keepdims else result


def _memory_order(shape: tuple[int, ...], strides: list[tuple[int, ...]]) -> list[int]:
    """The dimensions in the order of the first array that has them all, outermost first."""
    for own in strides:
        if all(s or d == 1 for s, d in zip(own, shape, strict=True)):
            return space.order_of(tuple(s or 1 for s in own))
    return list(range(len(shape)))


def _cube(
    order: list[int], shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[list[int], Runs]:
    """An order of dimensions in which those to reduce lie together, and (outer, n, inner)."""
    reduced = [i for i, d in enumerate(order) if d in axes and shape[d] != 1]
    if reduced and any(
        order[i] not in axes and shape[order[i]] != 1 for i in range(reduced[0], reduced[-1] + 1)
    ):
        order = [*(d for d in order if d not in axes), *(d for d in order if d in axes)]
        reduced = [i for i, d in enumerate(order) if d in axes]
    first, last = (reduced[0], reduced[-1] + 1) if reduced else (len(order), len(order))
    sizes = [shape[d] for d in order]
    outer, n, inner = (math.prod(s) for s in (sizes[:first], sizes[first:last], sizes[last:]))
    return order, (outer, n, inner)
