"""The reduction of an array, or of an expression, over axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from sparkle_drv import ops
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.arguments.annotations import ReduceOp
from sparkle_drv.ops.expression import promote
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.reduce.fold import Lazy, axes_of
from sparkle_drv.ops.reduce.operation import OPS, outline
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.model.work_class import Class, Runs, filled
from sparkle_drv.sched.shard.cuts import COMBINED, Cut

from . import verify
from .expression_speed import expression_class
from .map import copied_nbytes, expression_nbytes, rows_of
from .operation import Arguments, Host, Operation, Request, is_array, is_free

KINDS = tuple(OPS)


class ReduceOperation(Operation):
    """args: an array, op, axis; or an expression, whose operands are in named beside keepdims."""

    name = "reduce"
    function = staticmethod(ops.reduce)
    reduces = True
    rate = "GB/s"

    def arguments(self, a: Any, op: str = "sum", axis: Any = None, **named: Any) -> Arguments:
        return (a, op, axis), named, None

    def operands(self, request: Request) -> dict[str, Any]:
        lazy = _lazy(request)
        if lazy is None:
            return {"a": request.args[0]}
        return {name: x for name, x in lazy.values.items() if is_array(x)}

    def is_placeable(self, request: Request) -> bool:
        a, op, _ = request.args
        names = request.named.keys() - {"keepdims"}
        try:
            free = is_free(a) and 0 not in a.shape and not names
        except AttributeError:
            return False
        return free and op in KINDS and isinstance(request.named.get("keepdims", False), bool)

    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        _, op, axis = request.args
        keepdims = request.named.get("keepdims", False)
        return self.task(reads, {"op": op, "axis": axis, "keepdims": keepdims})

    def task(self, reads: Mapping[str, Value], options: Mapping[str, Any]) -> Task:
        """Returns the Task of a reduction of an array. Raises as `ops` does."""
        return self.task_over(reads["a"], reads, options, None, {})

    def task_over(
        self, values: Value, reads: Mapping[str, Value], options: Mapping[str, Any],
        graph: Graph | None, numbers: Mapping[str, Any],
    ) -> Task:  # fmt: skip
        """Returns the Task of a reduction of `values`, which `graph` computes from `reads`."""
        _, shape, dtype = outline(values, options["op"], options["axis"], options["keepdims"])
        return Task(self.name, reads, Value(-1, shape, dtype), options, graph, numbers)

    def work_class(self, task: Task) -> tuple[Class, float]:
        """The size is the bytes of the operand; of an expression, the bytes read and written."""
        if task.expression is None:
            a = task.reads["a"]
            return self.of_array(task.options["op"], a.dtype), float(a.nbytes)
        size = expression_nbytes(task)
        nbytes = size / (math.prod(task.common) or 1) or 1.0
        base = partial(self._of_tag, "sum")
        return expression_class(self.name, task, nbytes, base), size

    def _of_tag(self, op: ReduceOp, tag: str, broadcast: bool) -> Class:
        return self.of_array(op, promote.dtype_of(tag))

    def of_array(self, op: ReduceOp, dtype: Any) -> Class:
        """Returns the class of the reduction of an array."""
        kind = np.dtype(dtype)

        def probe(dev: Device, i: int) -> Runs:
            x = filled(dev, (1024 * 4**i,), kind)
            return lambda: ops.reduce(dev, x, op), float(x.nbytes)

        return Class(f"{self.name}_{op}_{check.tag_of(kind)}", probe)

    def cuts(self, task: Task, combine: str = "none") -> list[Cut]:
        """Along an axis that stays, else along a reduced axis, whose partial results are combined.

        A mean has no such cut, since the means of parts cannot be combined. Nor has a sum of 16-bit
        elements, since its partial sums would be rounded to 16 bits.
        """
        if task.expression is not None:
            return []
        a, op, axis = task.reads["a"], task.options["op"], task.options["axis"]
        reduced = set(axes_of(axis, len(a.shape)))
        for at, extent in enumerate(a.shape):
            if at not in reduced and extent > 1:
                before = 0 if task.options["keepdims"] else sum(other < at for other in reduced)
                return [Cut("elements", extent, {"a": at}, at - before)]
        rounds = op == "sum" and check.tag_of(a.dtype) in promote.COMPUTED_IN
        if op not in COMBINED or not reduced or rounds:
            return []
        at = max(reduced, key=lambda at: (a.shape[at], -at))
        return [Cut("terms", a.shape[at], {"a": at}, None, op)]

    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        if task.expression is None:
            return ops.reduce(device, reads["a"], **task.options)
        return ops.reduce(
            device, ops.lazy(task.expression, **reads, **task.numbers), **task.options
        )

    def wrong(self, task: Task, got: Host, reads: Mapping[str, Host], chance: Any) -> str:
        op, axis = task.options["op"], task.options["axis"]
        if task.expression is None:
            return verify.reduction(got, reads["a"], op, axis)
        return verify.folded(got, reads, chance, task.expression, task.numbers, op, axis)

    def keeps_order(self, request: Request) -> bool:
        """Sums add elements in the order of memory. A contiguous copy of a strided array has
        another order.
        """
        a = request.args[0]
        return isinstance(a, np.ndarray) and not a.flags.c_contiguous

    def along(self, task: Task) -> list[str] | str:
        shape = task.reads["a"].shape if task.expression is None else task.common
        if shape and 0 in axes_of(task.options.get("axis"), len(shape)):
            return "expected axis 0, the batch, to stay, got it reduced"
        return rows_of(task, shape)

    def beside_nbytes(self, task: Task, fuses: bool) -> tuple[int, int]:
        """On a device that does not compute an expression in one pass, its values are written and
        read again.
        """
        if task.expression is None or fuses:
            return 0, 0
        reads, writes = copied_nbytes(task, fuses)
        whole = math.prod(task.common) * max(v.dtype.itemsize for v in task.reads.values())
        return reads + whole, writes + whole

    def words(self, task: Task) -> str:
        return self.name if task.expression is None else f"{self.name} of {task.made_of[-1]}"


def _lazy(request: Request) -> Lazy | None:
    """Returns the expression that a call reduces, or None if it reduces an array."""
    a = request.args[0]
    if isinstance(a, Lazy):
        return a
    if isinstance(a, str) or (
        callable(a) and not isinstance(a, Array) and not staging.of_context(a)
    ):
        named = {name: x for name, x in request.named.items() if name != "keepdims"}
        return Lazy(a, (), named)
    return None
