"""What an operation gives, by the shapes and dtypes of what it is given: the checks of `ops`, made
when a graph is written down. Pure; raises what `ops` raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv.ops import check, fused
from sparkle_drv.ops.conv2d import check_algo
from sparkle_drv.ops.conv2d import outline as conv2d_outline
from sparkle_drv.ops.gemm import ALGOS
from sparkle_drv.ops.gemm import outline as gemm_outline
from sparkle_drv.ops.graph import Graph
from sparkle_drv.ops.map import check_inputs, sorted_out
from sparkle_drv.ops.map import outline as map_outline
from sparkle_drv.ops.reduce import outline as reduce_outline

from .data import Value

Made = tuple[tuple[int, ...], "np.dtype[Any]", "str | None"]
"""(shape, dtype, layout) of a result."""


def gemm(a: Value, b: Value, bias: Value | None, activation: Any, algo: Any) -> Made:
    """Of a product."""
    _, m, n, _ = gemm_outline(a, b, bias)
    check.one_of("algo", algo, ALGOS)
    check.activation(activation)
    return (m, n), a.dtype, None


def conv2d(
    x: Value, w: Value, bias: Value | None, options: Mapping[str, Any], activation: Any, algo: Any
) -> Made:
    """Of a convolution; `options` are stride, padding, dilation, groups and layout."""
    shape = conv2d_outline(x, w, bias, **options)
    check_algo(shape, algo)
    check.activation(activation)
    return shape.out_shape, x.dtype, shape.layout


def map(
    op: str, graph: Graph, values: Mapping[str, Any]
) -> tuple[Made, dict[str, Value], dict[str, Any]]:
    """Of an expression whose names are bound to Values and numbers, and which names are which."""
    arrays, numbers = sorted_out(
        {n: _like(v) if isinstance(v, Value) else v for n, v in values.items()}
    )
    reads = {name: values[name] for name in arrays}
    small = {name: values[name] for name in numbers if isinstance(values[name], Value)}
    if not reads:
        raise TypeError(f"{op}: at least one array is wanted in the expression")
    shape, kinds, layout = map_outline(op, reads)
    code, _ = fused.program(graph, kinds, numbers)
    check_inputs(graph, code.inputs)
    left = {name: number for name, number in numbers.items() if name not in small}
    dtype: np.dtype[Any] = fused.DTYPES[code.result]
    return (shape, dtype, layout), {**reads, **small}, left


def reduce(a: Value, op: Any, axis: Any, keepdims: bool) -> Made:
    """Of a reduction."""
    _, shape, dtype = reduce_outline(a, op, axis, keepdims)
    return shape, dtype, None


def _like(value: Value) -> Any:
    """A numpy array of this shape and dtype, of one element's memory."""
    return np.broadcast_to(np.zeros((), value.dtype), value.shape)
