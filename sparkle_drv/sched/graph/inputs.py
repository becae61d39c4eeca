"""Inputs and `out` arrays of a graph: their kind, and whether the graph can take them. Only their
metadata is read. A function here raises the same errors as `ops` for the same array.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array, shape_of
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.layout.operation import parse
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.model.task import Value
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.local import LocalExecutor


def input_value(number: int, shape: Any, dtype: Any, layout: Any) -> Value:
    """Returns the Value of an input, whose array is bound later. Raises TypeError or ValueError for
    a bad shape, dtype or layout.
    """
    extents = shape_of(shape)
    check.dtype("a graph", "dtype", dtype, check.TYPES)
    if layout is not None:
        parse("layout", layout).check("shape", extents)
    return Value(number, extents, np.dtype(dtype), layout, "input")


def kind_of(executor: LocalExecutor, name: str, array: Any) -> str:
    """Returns the kind of an array from outside the graph (Value.kind): "numpy", "context",
    "constant", or the URI of its device. Raises TypeError if `array` is no array. Raises ValueError
    if it is closed, or belongs to another Context.
    """
    if isinstance(array, (ContextArray, ContextConstant)):
        if not array.of(executor):
            raise ValueError(
                f"{name}: expected an array of this Context, got one of another Context"
            )
    elif not isinstance(array, Constant) and isinstance(staging.operand(name, array), np.ndarray):
        return "numpy"
    if array.closed:
        raise ValueError(f"{name}: expected an open array, got a closed one")
    if isinstance(array, ContextConstant):
        return "constant"
    if isinstance(array, ContextArray):
        return "context"
    uri = array.device.uri
    if executor.devices.get(uri) is not array.device:
        uris = ", ".join(executor.devices)
        raise ValueError(f"{name}: expected an Array of this Context ({uris}), got one of {uri}")
    return str(uri)


def input_kind(executor: LocalExecutor, value: Value, array: Any, outs: Iterable[Any]) -> str:
    """Returns the kind (Value.kind) of `array`, an array that is bound to the input `value`.

    Raises TypeError or ValueError if `array` is not an array that the input can take.
    """
    name = f"input {value.number}"
    kind = kind_of(executor, name, array)
    check.same_dtype(name, np.dtype(array.dtype), "the input", value.dtype)
    check.shape(name, tuple(array.shape), value.shape, "for this input")
    layout = getattr(array, "layout", None)
    if layout not in (None, value.layout):
        raise ValueError(f"{name}: expected layout {value.layout}, got an array in {layout}")
    if any(overlap(array, out) for out in outs):
        raise ValueError(
            f"{name}: expected an array apart from the `out` arrays of this graph, got one that "
            "overlaps an `out`, which makes a cycle"
        )
    return "context" if kind == "constant" else kind


def check_out(
    executor: LocalExecutor, value: Value, out: Any, operands: Iterable[Any], outs: Iterable[Any]
) -> None:
    """Checks that `out` can take the result `value`. `operands` and `outs` are the operands and the
    other outs of the graph so far. Raises as `ops` does.
    """
    if isinstance(out, (Constant, ContextConstant)):
        raise TypeError(f"out: expected an array, got a {type(out).__name__}")
    kind_of(executor, "out", out)
    if isinstance(out, ContextArray):
        check.same_dtype("out", out.dtype, "the result", value.dtype)
        check.shape("out", out.shape, value.shape, "for this result")
    else:
        staging.check_out(out, value.shape, value.dtype, value.layout)
    if any(overlap(out, x) for x in operands):
        raise ValueError(
            "out: expected an array that is no operand of this graph, got one: "
            "its reader would have to run both before and after its writer, a cycle"
        )
    if any(overlap(out, other) for other in outs):
        raise ValueError("out: expected an array of its own, got the out of another operation")


def overlap(x: Any, y: Any) -> bool:
    """Returns whether writing one array may change the other.

    Two cases are not recognised: a numpy view of an Array in this process's memory, and memory that
    two devices have wrapped.
    """
    if isinstance(x, ContextArray) and isinstance(y, Array):
        return any(overlap(x._read(uri), y) for uri in x.places)
    if isinstance(x, Array) and isinstance(y, ContextArray):
        return overlap(y, x)
    return x is y or staging.overlap(x, y)
