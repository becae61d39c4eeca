"""Operation: what the scheduler asks about an operation. Request: one call of an operation.

A Task says what a call computes, as data. A Request has the arrays beside it. It makes the Task
only when a plan needs one, since a repeated call runs by the plan of the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.memory import staging
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.model.task import Conversion, Task, Value
from sparkle_drv.sched.model.work_class import Class
from sparkle_drv.sched.shard.cuts import Cut
from sparkle_drv.sched.shard.terms import Terms

Host = np.ndarray[Any, Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any], Any]
"""Arguments by position and by name, and `out`."""


def is_free(x: Any) -> bool:
    """Returns whether a call with the operand `x` may run on any device. A core.Array or Constant
    is bound to its device, and a lazy expression has no elements yet.
    """
    return isinstance(x, np.ndarray) or staging.of_context(x)


def is_context_array(x: Any) -> bool:
    """Returns whether `x` is a ContextArray, whose class this room must not import."""
    return staging.of_context(x) and hasattr(x, "wrote")


class Operation(ABC):
    """What the scheduler knows of one operation. The fields hold for every call of it.

    `operands` and `task` describe a call, the other methods one Task. Only `launch` and the
    operation's `function` of ops use a device.
    """

    name = ""
    """The operation's name, which is the method of a Context and of a graph."""
    function: Callable[..., Any]
    """The function of `ops`."""
    elementwise = False
    """Whether the result has one element for each of the operands': an expression. It may be merged
    into its reader, and overwrite an operand."""
    reduces = False
    """Whether an expression can be merged into the operation, which then folds its values. Memory
    for the result is its own."""
    rate = "GFLOPS"
    """Unit of size per second: GFLOPS, GB/s or Gelements/s."""

    def arguments(self, *args: Any, **named: Any) -> Arguments:
        """Returns the arguments of the Context's method as those of `request`, and `out`."""
        return args, named, named.pop("out", None)

    def request(self, args: tuple[Any, ...], named: dict[str, Any]) -> Request:
        """Returns the call `function(device, *args, **named)` as a Request."""
        return Request(self, args, named)

    @abstractmethod
    def operands(self, request: Request) -> dict[str, Any]:
        """Returns the operands of a call by name: arrays, None left out."""

    @abstractmethod
    def is_placeable(self, request: Request) -> bool:
        """Returns whether a plan can be made for the call. Other calls go to a device unplanned;
        `ops` then raises the error of a wrong one.
        """

    @abstractmethod
    def task_of(self, request: Request, reads: Mapping[str, Value]) -> Task:
        """Returns the Task of a call that is placeable. Raises as `ops` does."""

    @abstractmethod
    def work_class(self, task: Task) -> tuple[Class, float]:
        """Returns the class of work of a task, and its size."""

    def cuts(self, task: Task, combine: str = "none") -> list[Cut]:
        """Returns the ways to divide a task among devices. `combine` "sum" asks for a cut whose
        partial results are added.
        """
        return []

    def piece(self, task: Task, cut: Cut, begin: int, end: int) -> Task:
        """Returns the task that computes the part [begin, end) of a cut."""
        reads = {
            name: resized(value, cut.operands[name], end - begin)
            for name, value in task.reads.items()
        }
        return replace(task, reads=reads, out=resized(task.out, cut.out, end - begin))

    def launch_piece(
        self, device: Device, task: Task, reads: Mapping[str, Any], begin: int, end: int
    ) -> Any:
        """Runs the part [begin, end) of a cut of the task, whose operands are `reads`."""
        return self.launch(device, task, reads)

    @abstractmethod
    def launch(self, device: Device, task: Task, reads: Mapping[str, Any], out: Any = None) -> Any:
        """Runs a task on a device. `reads` are there, or arrays that `ops` copies there."""

    def renewed(self, task: Task, request: Request) -> Task:
        """Returns the Task of a call whose shapes and options are those of `task`."""
        return task

    def wrong(self, task: Task, got: Host, reads: Mapping[str, Host], chance: Any) -> str:
        """Returns a description of the error in a result, or "" if it is right or not checked."""
        return ""

    def keeps_order(self, request: Request) -> bool:
        """Returns whether numpy operands must not be copied to a device one by one, since the
        result would have other bits.
        """
        return False

    def refusal(self, task: Task, device: Device) -> str:
        """Returns why a device cannot do the task although it has kernels of the class; "" if it
        can.
        """
        return ""

    def along(self, task: Task) -> list[str] | str:
        """Returns the operands whose axis 0 is that of the result, or why the result's axis 0
        cannot be cut.
        """
        return "its result cannot be cut"

    def beside_nbytes(self, task: Task, fuses: bool) -> tuple[int, int]:
        """Returns the bytes that the task reads and writes besides its operands and its result."""
        return 0, 0

    def images(self, task: Task) -> dict[str, Value]:
        """Returns, by name, the operands that must have the layout in which the task works. Returns
        {} if the task cannot work in another layout.
        """
        return {}

    def in_layout(self, task: Task, layout: str) -> dict[str, Any]:
        """Returns the options of a task of images, if it works in another layout."""
        return dict(task.options)

    def words(self, task: Task) -> str:
        """Returns the recorded operation as text."""
        return self.name


class Request:
    """One call of an operation, as its caller made it."""

    __slots__ = (
        "_operands", "_task", "args", "conversion", "home", "is_direct", "measured", "named",
        "operation", "out", "terms",
    )  # fmt: skip

    def __init__(
        self, operation: Operation, args: tuple[Any, ...], named: dict[str, Any], home: str = "",
        conversion: Conversion | None = None,
    ) -> None:  # fmt: skip
        self.operation, self.args, self.named = operation, args, named
        self.out: Any = None
        self.terms: Terms | None = None
        """How several devices may share the call; None if one runs it."""
        self.is_direct = True
        """Whether the function of ops does the call with the caller's own arguments, each operand
        on the device."""
        self.measured = False
        """Whether the devices were measured for this call already."""
        self.home = home
        """The device on which a numpy result becomes an array of the Context; "" if none."""
        self.conversion = conversion
        """The change of layout of args[0] that comes first; None if none does."""
        self._operands: dict[str, Any] | None = None
        self._task: Task | None = None

    @property
    def operands(self) -> dict[str, Any]:
        """The arrays that the call reads, by the names of `task.reads`."""
        if self._operands is None:
            self._operands = self.operation.operands(self)
        return self._operands

    @property
    def task(self) -> Task | None:
        """What the call computes; None for a call that no plan can be made for. Raises as `ops`
        does for a wrong call.
        """
        if self._task is None and self.operation.is_placeable(self):
            reads = {}
            for number, (name, x) in enumerate(self.operands.items()):
                if isinstance(x, np.ndarray):
                    staging.operand(name, x)
                reads[name] = value_of(number, x)
            task = self.operation.task_of(self, reads)
            self._check_out(task.out)
            self._task = task
        return self._task

    def check(self) -> None:
        """Raises as `ops` does for a wrong call that a plan can be made for."""
        _ = self.task

    def adopt(self, task: Task) -> None:
        """Takes the Task of an earlier call with the same shapes and options."""
        self._task = self.operation.renewed(task, self)

    def _check_out(self, value: Value) -> None:
        out = self.out
        if out is None:
            return
        if not staging.of_context(out):
            staging.operand("out", out)
            for name, x in self.operands.items():
                if is_context_array(x):
                    staging.check_out_kind(out, name)
        staging.check_out(out, value.shape, value.dtype, value.layout)

    def call(
        self, device: Device, place: Callable[[Any], Any], out: Any, changed: Any = None
    ) -> Any:
        """Calls the function of ops on a device. `place` returns an operand as it is there.
        `changed` is args[0] in another layout; None without a conversion.
        """
        args = [place(x) if is_array(x) else x for x in self.args]
        if changed is not None:
            args[0] = changed
        named = {name: place(x) if is_array(x) else x for name, x in self.named.items()}
        if out is not None:
            named["out"] = out
        return self.operation.function(device, *args, **named)

    def given(self, operands: Mapping[str, Any]) -> Request:
        """Returns the call with other arrays in place of its operands."""
        swap = {id(x): operands[name] for name, x in self.operands.items()}
        request = Request(
            self.operation, tuple(swap.get(id(x), x) for x in self.args),
            {name: swap.get(id(x), x) for name, x in self.named.items()}, self.home,
            self.conversion,
        )  # fmt: skip
        request.out, request.terms, request.measured = self.out, self.terms, self.measured
        request.is_direct = self.is_direct
        request._operands, request._task = dict(operands), self._task
        return request


def is_array(x: Any) -> bool:
    """Returns whether an argument is an operand: an array, on the host, a device or a Context."""
    return isinstance(x, (np.ndarray, Array, Constant)) or staging.of_context(x)


def value_of(number: int, x: Any) -> Value:
    """Returns the Value of an operand."""
    kind = "context" if is_context_array(x) else "constant"
    kind = "numpy" if isinstance(x, np.ndarray) else kind
    return Value(number, tuple(x.shape), np.dtype(x.dtype), getattr(x, "layout", None), kind)


def resized(value: Value, axis: int | None, extent: int) -> Value:
    """Returns a Value with another extent along an axis; the same Value if `axis` is None."""
    if axis is None:
        return value
    return replace(value, shape=(*value.shape[:axis], extent, *value.shape[axis + 1 :]))
