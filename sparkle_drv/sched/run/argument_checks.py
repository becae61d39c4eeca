"""Refuses calls that `ops` would refuse, before anything is measured, moved or launched.

The functions run the checks of `ops` on the metadata of arrays of a Context, and raise what `ops`
raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.lower import Lowered
from sparkle_drv.ops.expression.promote import dtype_of
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map.operation import outline as map_outline
from sparkle_drv.ops.map.operation import sorted_out
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.shapes.geometry import FORM
from sparkle_drv.sched.model import outline
from sparkle_drv.sched.model.outline import Made
from sparkle_drv.sched.model.task import Value

from .arrays import ContextArray
from .constants import ContextConstant


def gemm(a: Any, b: Any, bias: Any, out: Any, options: Mapping[str, Any]) -> None:
    """Raises TypeError or ValueError, as `ops.gemm` does, if an argument is not valid."""
    _arrays(a=a, b=b, bias=bias)
    activation, algo = options.get("activation"), options.get("algo", "auto")
    _out(out, outline.gemm(a, b, bias, activation, algo), {"a": a, "b": b, "bias": bias})


def conv2d(x: Any, w: Any, bias: Any, out: Any, options: Mapping[str, Any]) -> None:
    """Raises TypeError or ValueError, as `ops.conv2d` does, if an argument is not valid."""
    _arrays(x=x, w=w, bias=bias)
    how: dict[str, Any] = {**FORM, **options}
    activation, algo = how.pop("activation", None), how.pop("algo", "auto")
    changed = outline.as_worked_in(_value(x), w, how["groups"], how["layout"])
    image = x if changed is None else changed[0]
    _out(out, outline.conv2d(image, w, bias, how, activation, algo), {"x": x, "w": w, "bias": bias})


def map(
    graph: Graph, arrays: Mapping[str, Any], numbers: Mapping[str, Any], out: Any
) -> tuple[Lowered, dict[int, Any]]:
    """Raises TypeError or ValueError, as `ops.map` does, if an argument is not valid. Returns the
    map's program, and a dict from nodes of the expression's graph to the values of numbers.
    """
    _, scalars = sorted_out({**numbers, **{name: _like(x) for name, x in arrays.items()}})
    shape, kinds, layout = map_outline("map", dict(arrays))
    code, found = fused.program(graph, kinds, scalars)
    code.constants(graph, found)
    _out(out, (shape, dtype_of(code.result), layout), arrays)
    return code, found


def reduce(a: Any, op: Any, axis: Any) -> None:
    """Raises TypeError or ValueError, as `ops.reduce` does, if an argument is not valid."""
    _arrays(a=a)
    outline.reduce(a, op, axis, False)


def layout(a: Any, shape: tuple[int, ...], target: str, out: Any) -> None:
    """Raises TypeError or ValueError, as `ops.layout` does, if an argument is not valid. `shape` is
    the shape of the result, and `target` is its layout.
    """
    _arrays(a=a)
    _out(out, (shape, a.dtype, target), {"a": a})


def _arrays(**given: Any) -> None:
    for name, x in given.items():
        if x is not None and not isinstance(x, (ContextArray, ContextConstant)):
            staging.operand(name, x)


def _out(out: Any, made: Made, operands: Mapping[str, Any]) -> None:
    """Raises TypeError or ValueError if the result cannot be stored in `out`."""
    if out is None:
        return
    if not isinstance(out, ContextArray):
        staging.operand("out", out)
        for name, x in operands.items():
            if isinstance(x, ContextArray):
                staging.check_out_kind(out, name)
    staging.check_out(out, *made)


def _value(x: Any) -> Value:
    return Value(-1, x.shape, x.dtype, getattr(x, "layout", None))


def _like(x: Any) -> Any:
    """Returns a stand-in with the shape and dtype of an array of a Context, for the checks of
    `ops`.
    """
    if not isinstance(x, (ContextArray, ContextConstant)):
        return x
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)
