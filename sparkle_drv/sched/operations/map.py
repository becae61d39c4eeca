"""The map: an expression, or a traced function, for every element of its operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.device import Device
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.expression.promote import dtype_of
from sparkle_drv.ops.map import fused
from sparkle_drv.ops.map import operation as ops_map
from sparkle_drv.ops.map.operation import bind, graph_of, sorted_out
from sparkle_drv.ops.memory import staging
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.model.work_class import Class
from sparkle_drv.sched.shard.cuts import Cut

from . import verify
from .expression_speed import expression_class
from .operation import Arguments, Host, Operation, Request, is_array, is_context_array, is_free


class MapOperation(Operation):
    """args: the expression (a Graph or its text), values. named: values by name."""

    name = "map"
    function = staticmethod(ops.map)
    elementwise = True
    rate = "GB/s"

    def arguments(
        self, expression: Any, /, *values: Any, out: Any = None, **named: Any
    ) -> Arguments:
        return (graph_of(expression), *values), named, out

    def request(self, args: tuple[Any, ...], named: dict[str, Any]) -> Request:
        """0-d arrays beside other arrays become numbers. If one is an array of a Context, the
        result is one, too.
        """
        graph = graph_of(args[0])
        values = bind(graph, args[1:], named)
        home = ""
        if any(is_array(x) and not x.shape for x in values.values()) and any(
            is_array(x) and x.shape for x in values.values()
        ):
            for name, x in values.items():
                if staging.of_context(x) and not x.shape:
                    values[name] = x.numpy()[()]
                    home = home or (x.places[0] if is_context_array(x) else "")
        return Request(self, (args[0], *values.values()), {}, home)

    def operands(self, request: Request) -> dict[str, Any]:
        values = dict(zip(graph_of(request.args[0]).names, request.args[1:], strict=True))
        arrays = {name: x for name, x in values.items() if is_array(x)}
        return {name: x for name, x in arrays.items() if x.shape} or arrays

    def is_placeable(self, request: Request) -> bool:
        operands = request.operands
        try:
            size = math.prod(ops_map.common_shape(operands)) if operands else 0
        except ValueError:
            return False
        values = (x for x in request.args[1:] if is_array(x))
        return (
            size > 0
            and all(is_free(x) for x in values)
            and (request.out is None or is_free(request.out))
        )

    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        graph = graph_of(request.args[0])
        values = dict(zip(graph.names, request.args[1:], strict=True))
        _, numbers = sorted_out({name: _like(x) for name, x in values.items()})
        return self.task(reads, {}, graph, numbers)

    def renewed(self, task: Task, request: Request) -> Task:
        assert task.expression is not None
        values = dict(zip(task.expression.names, request.args[1:], strict=True))
        numbers = {name: values[name] for name in task.numbers}
        plain = {n: x[()] if isinstance(x, np.ndarray) else x for n, x in numbers.items()}
        return replace(task, numbers=plain)

    def task(
        self, reads: Mapping[str, Value], options: Mapping[str, Any], graph: Graph,
        numbers: Mapping[str, Any],
    ) -> Task:  # fmt: skip
        """Returns the Task of a map. Raises as `ops` does."""
        out = expression_value(self.name, graph, reads, numbers)
        return Task(self.name, reads, out, options, graph, numbers)

    def work_class(self, task: Task) -> tuple[Class, float]:
        """The size is the bytes that the map reads and writes."""
        size = expression_nbytes(task)
        return expression_class(self.name, task, size / (math.prod(task.common) or 1) or 1.0), size

    def cuts(self, task: Task, combine: str = "none") -> list[Cut]:
        """Along the first axis of the result with more than one element. Operands that are
        broadcast along this axis are read whole.
        """
        out = task.out.shape
        if any(value.layout for value in task.reads.values()):
            return []
        axis = next((at for at, extent in enumerate(out) if extent > 1), None)
        if axis is None:
            return []
        along: dict[str, int | None] = {}
        for name, value in task.reads.items():
            own = axis - (len(out) - len(value.shape))
            along[name] = own if own >= 0 and value.shape[own] == out[axis] else None
        return [Cut("elements", out[axis], along, axis)]

    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        assert task.expression is not None
        values = {**task.numbers, **reads}
        return ops.map(
            device, task.expression, *(values[n] for n in task.expression.names), out=out
        )

    def wrong(self, task: Task, got: Host, reads: Mapping[str, Host], chance: Any) -> str:
        assert task.expression is not None
        return verify.expression(got, reads, chance, task.expression, task.numbers)

    def along(self, task: Task) -> list[str] | str:
        return rows_of(task, task.common)

    def beside_nbytes(self, task: Task, fuses: bool) -> tuple[int, int]:
        return copied_nbytes(task, fuses)

    def words(self, task: Task) -> str:
        return task.made_of[-1] if task.made_of else self.name

    def images(self, task: Task) -> dict[str, Value]:
        """Only float32 images of one shape, beside arrays of one element, change their layout
        freely.
        """
        out = task.out
        if out.layout not in ("NCHW", "NHWC") or len(out.shape) != 4:
            return {}
        whole = {name: value for name, value in task.reads.items() if value.shape == out.shape}
        rest = [value for name, value in task.reads.items() if name not in whole]
        plain = all(value.dtype == np.float32 for value in (*whole.values(), out))
        return whole if plain and all(math.prod(value.shape) == 1 for value in rest) else {}


def expression_nbytes(task: Task) -> float:
    """Returns the bytes that an expression reads and writes: each operand and the result once."""
    return float(sum(v.nbytes for v in dict.fromkeys(task.reads.values())) + task.out.nbytes)


def fuses(device: Device) -> bool:
    """Returns whether a device computes an expression in one pass, over any strides and types."""
    return ops_map.fuses(device)


def expression_value(
    name: str, graph: Graph, reads: Mapping[str, Value], numbers: Mapping[str, Any],
    later: bool = False,
) -> Value:  # fmt: skip
    """Returns the result of an expression. Raises as `ops` does. `later` says that numbers are
    missing: a graph's run has their values.
    """
    shape, kinds, layout = ops_map.outline(name, dict(reads))
    code, known = fused.program(graph, kinds, dict(numbers))
    if not later:
        code.constants(graph, known)
    return Value(-1, shape, dtype_of(code.result), layout)


def recorded(
    name: str, graph: Graph, values: Mapping[str, Any]
) -> tuple[Value, dict[str, Value], dict[str, Any]]:
    """Returns the result of an expression whose operands `values` are Values and numbers. Also
    returns two dicts by name: the arrays and the numbers. A 0-d array counts as an array.
    """
    stand_ins = {n: _like(v) if isinstance(v, Value) else v for n, v in values.items()}
    arrays, numbers = sorted_out(stand_ins)
    reads = {n: values[n] for n in arrays}
    small = {n: values[n] for n in numbers if isinstance(values[n], Value)}
    if not reads:
        raise TypeError(f"{name}: expected at least one array in the expression, got none")
    out = expression_value(name, graph, reads, numbers, later=bool(small))
    left = {n: number for n, number in numbers.items() if n not in small}
    return out, {**reads, **small}, left


def rows_of(task: Task, shape: tuple[int, ...]) -> list[str] | str:
    """Returns the operands with the axis 0 of an expression's `shape`."""
    if not shape:
        return "expected a result with axis 0, got none"
    return [
        operand
        for operand, value in task.reads.items()
        if len(value.shape) == len(shape) and value.shape[0] == shape[0]
    ]


def copied_nbytes(task: Task, fuses: bool) -> tuple[int, int]:
    """Returns the bytes that copies of broadcast operands read and write on a device that does not
    compute an expression in one pass.
    """
    if fuses:
        return 0, 0
    shape = task.common
    each = sum(v.dtype.itemsize for v in dict.fromkeys(task.reads.values()) if v.shape != shape)
    return math.prod(shape) * each, math.prod(shape) * each


def _like(x: Any) -> Any:
    """Returns a stand-in with the shape and dtype of an array, for the checks of `ops`. A number
    is returned as it is.
    """
    if isinstance(x, np.ndarray) or not hasattr(x, "shape") or isinstance(x, np.generic):
        return x
    return np.broadcast_to(np.zeros((), x.dtype), x.shape)
