"""GraphRecorder: the operations as methods of a graph. Each makes a Task and calls `_record`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sparkle_drv.core.array import Array
from sparkle_drv.ops.arguments.annotations import Axis
from sparkle_drv.ops.map.operation import bind, graph_of
from sparkle_drv.ops.reduce.fold import Lazy
from sparkle_drv.ops.shapes.geometry import LAYOUTS
from sparkle_drv.sched.model.task import Task, Value

from .conv2d import change
from .map import recorded
from .table import CONV2D, GEMM, LAYOUT, MAP, REDUCE

NodeT = TypeVar("NodeT")


class GraphRecorder(ABC, Generic[NodeT]):
    """Records operations as Tasks. Each method takes what the function of `ops` takes, and nodes;
    it raises the same errors, since shapes and dtypes are known.
    """

    @abstractmethod
    def _record(self, task: Task, out: Any) -> NodeT:
        """Adds a task, whose `out` gets a number, and returns the node of its result."""

    @abstractmethod
    def _value(self, name: str, x: Any) -> Value:
        """Returns the Value of an operand: an array or a node."""

    @abstractmethod
    def _is_operand(self, x: Any) -> bool:
        """Returns whether `x` is an array or a node."""

    @abstractmethod
    def _is_node(self, x: Any) -> bool:
        """Returns whether `x` is a node."""

    @abstractmethod
    def _writable(self) -> None:
        """Raises ValueError if no operation can be added."""

    def gemm(
        self, a: Any, b: Any, out: Any = None, *, bias: Any = None,
        activation: str | None = None, algo: str = "auto",
    ) -> NodeT:  # fmt: skip
        """Records `sparkle_drv.ops.gemm` and raises as it does. Returns a node of shape [m, n]."""
        self._writable()
        reads = self._reads(a=a, b=b, bias=bias)
        return self._record(GEMM.task(reads, {"activation": activation, "algo": algo}), out)

    def conv2d(
        self, x: Any, w: Any, bias: Any = None, out: Any = None, *,
        stride: int | tuple[int, int] = 1, padding: Any = 0, dilation: int | tuple[int, int] = 1,
        groups: int = 1, activation: str | None = None, layout: str | None = None,
        algo: str = "auto",
    ) -> NodeT:  # fmt: skip
        """Records `sparkle_drv.ops.conv2d` and raises as it does. Returns a node in `layout`, by
        default the layout of `x`.

        If `x` has another layout, a change of layout is recorded before the convolution.
        """
        self._writable()
        reads = self._reads(x=x, w=w, bias=bias)
        own = reads["x"].layout
        layout = layout if layout is not None else own if own in LAYOUTS else "NCHW"
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
                   "layout": layout, "activation": activation, "algo": algo}  # fmt: skip
        before = change(reads["x"], reads["w"], groups, layout)
        if before is None:
            return self._record(CONV2D.task(reads, options), out)
        CONV2D.task({**reads, "x": before.task.out}, options)  # raises before anything is recorded
        changed = self._record(before.task, None)
        return self._record(CONV2D.task({**reads, "x": self._value("x", changed)}, options), out)

    def map(
        self, expression: str | Callable[..., Any], /, *args: Any, out: Any = None, **names: Any
    ) -> NodeT:
        """Records `sparkle_drv.ops.map`. Returns a node of the shape that the arrays
        broadcast to.
        """
        self._writable()
        graph = graph_of(expression)
        made, reads, numbers = recorded("map", graph, self._bound(bind(graph, args, names)))
        return self._record(Task(MAP.name, reads, made, {}, graph, numbers), out)

    def reduce(
        self, a: Any, op: str = "sum", axis: Axis = None, *, keepdims: bool = False, **names: Any
    ) -> NodeT:
        """Records `sparkle_drv.ops.reduce` of an array, or of an expression.

        `names` has the operands of the expression, by the names that it uses for them.
        """
        self._writable()
        options = {"op": op, "axis": axis, "keepdims": bool(keepdims)}
        is_array = isinstance(a, Array) or self._is_node(a)
        if isinstance(a, (str, Lazy)) or (callable(a) and not is_array):
            lazy = a if isinstance(a, Lazy) else Lazy(a, (), names)
            values, reads, numbers = recorded("reduce", lazy.graph, self._bound(lazy.values))
            return self._record(REDUCE.task_over(values, reads, options, lazy.graph, numbers), None)
        if names:
            raise TypeError(
                f"{next(iter(names))}: expected no named operands beside an array `a`, got one"
            )
        return self._record(REDUCE.task(self._reads(a=a), options), None)

    def layout(
        self, a: Any, layout: str, *, source: str | None = None, channels: int | None = None,
        out: Any = None,
    ) -> NodeT:  # fmt: skip
        """Records `sparkle_drv.ops.layout` and raises as it does. Returns a node in `layout`."""
        self._writable()
        options = {"source": source, "target": layout, "channels": channels}
        return self._record(LAYOUT.task(self._reads(a=a), options), out)

    def _reads(self, **operands: Any) -> dict[str, Value]:
        """Returns the operands by name. A bias that is None is left out."""
        there = {name: x for name, x in operands.items() if x is not None or name != "bias"}
        return {name: self._value(name, x) for name, x in there.items()}

    def _bound(self, values: dict[str, Any]) -> dict[str, Any]:
        return {n: self._value(n, x) if self._is_operand(x) else x for n, x in values.items()}
