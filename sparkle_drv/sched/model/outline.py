"""Returns the shape and dtype of an operation's result, from those of its operands.

The functions run the checks of `ops` while a graph is recorded, and raise what `ops` raises. All
functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv.core.array import shape_of
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.conv2d.operation import check_algo
from sparkle_drv.ops.conv2d.operation import outline as conv2d_outline
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.promote import dtype_of
from sparkle_drv.ops.gemm.operation import ALGOS
from sparkle_drv.ops.gemm.operation import outline as gemm_outline
from sparkle_drv.ops.layout.operation import outline as layout_outline
from sparkle_drv.ops.layout.operation import parse
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import outline as map_outline
from sparkle_drv.ops.map.operation import sorted_out
from sparkle_drv.ops.reduce.operation import outline as reduce_outline
from sparkle_drv.ops.shapes.geometry import LAYOUTS

from .task import Value

Made = tuple[tuple[int, ...], "np.dtype[Any]", "str | None"]
"""(shape, dtype, layout) of a result: its outline."""


def input(shape: Any, dtype: Any, layout: Any) -> Made:
    """Returns the outline of a graph's input, whose array is bound later."""
    extents = shape_of(shape)
    check.dtype("a graph", "dtype", dtype, check.TYPES)
    if layout is not None:
        parse("layout", layout).check("shape", extents)
    return extents, np.dtype(dtype), layout


def gemm(a: Value, b: Value, bias: Value | None, activation: Any, algo: Any) -> Made:
    """Returns the outline of a product."""
    _, m, n, _ = gemm_outline(a, b, bias)
    check.one_of("algo", algo, ALGOS)
    check.activation(activation)
    return (m, n), a.dtype, None


def conv2d(
    x: Value, w: Value, bias: Value | None, options: Mapping[str, Any], activation: Any, algo: Any
) -> Made:
    """Returns the outline of a convolution. `options` are stride, padding, dilation, groups and
    layout.
    """
    shape = conv2d_outline(x, w, bias, **options)
    check_algo(shape, algo)
    check.activation(activation)
    return shape.out_shape, x.dtype, shape.layout


def map(
    op: str, graph: Graph, values: Mapping[str, Any]
) -> tuple[Made, dict[str, Value], dict[str, Any]]:
    """Returns the outline of an expression whose operands `values` are task.Value objects and
    numbers. Also returns two dicts by name: the arrays and the numbers of the expression.
    """
    arrays, numbers = sorted_out(
        {n: _like(v) if isinstance(v, Value) else v for n, v in values.items()}
    )
    reads = {name: values[name] for name in arrays}
    small = {name: values[name] for name in numbers if isinstance(values[name], Value)}
    if not reads:
        raise TypeError(f"{op}: expected at least one array in the expression, got none")
    shape, kinds, layout = map_outline(op, reads)
    code, found = fused.program(graph, kinds, numbers)
    if not small:  # The value of a 0-d array is known only when the graph runs.
        code.constants(graph, found)
    left = {name: number for name, number in numbers.items() if name not in small}
    return (shape, dtype_of(code.result), layout), {**reads, **small}, left


def reduce(a: Value, op: Any, axis: Any, keepdims: bool) -> Made:
    """Returns the outline of a reduction."""
    _, shape, dtype = reduce_outline(a, op, axis, keepdims)
    return shape, dtype, None


def layout(a: Value, target: Any, source: Any, channels: Any) -> tuple[Made, str]:
    """Returns the outline of a change of layout, and the name of the layout before the change."""
    found = layout_outline(a, target, source, channels)
    return (found.shape, a.dtype, found.after.name), found.before.name


def worked_in(x: Value, given: Any) -> Any:
    """Returns the layout that a convolution of `x` works in. `given` is the caller's choice, or
    None.
    """
    return given if given is not None else x.layout if x.layout in LAYOUTS else "NCHW"


def as_worked_in(x: Value, w: Value, groups: Any, layout: Any) -> tuple[Value, int | None] | None:
    """Returns the Value of the image `x` in `layout`, and the argument `channels` with which
    ops.layout makes it. Returns None if `x` has this layout already, or has no layout.

    `w` are the filters. Their shape says how many channels of a blocked image are no padding.
    """
    if x.layout in (None, layout):
        return None
    check.one_of("layout", layout, LAYOUTS)
    check.dims("w", w.shape, 4, "(oc, c/groups, kh, kw)")
    channels = None
    if x.layout not in LAYOUTS:
        channels = w.shape[1] * check.whole("groups", groups, 1)
    shape = layout_outline(x, layout, None, channels).shape
    return Value(-1, shape, x.dtype, layout), channels


def _like(value: Value) -> Any:
    """Returns a numpy array of this shape and dtype, backed by one element."""
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)
