"""What `ctx.graph()` returns: operations are written down, then run together.

Each takes what the operation of `ops` takes, nodes of the graph too, and raises what that raises,
when it is written down: shapes and dtypes are known then. What arrays hold is read by each `run`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.ops import check, staging
from sparkle_drv.ops.fold import Lazy
from sparkle_drv.ops.map import bind, graph_of

from ..arrays import ContextArray
from ..local import LocalExecutor
from ..noted import call
from . import outline
from .compose import written
from .data import Task, Value
from .run import GraphRun

OPERATIONS = ("gemm", "conv2d", "map", "reduce")
"""What can be written down."""


class Node:
    """A result in a graph: `shape`, `dtype` (numpy's), `layout`, `nbytes` are known at once.

    `array` is the ContextArray that the last run made of it, `numpy()` and `__array__` wait for it
    and copy it to the host, for outputs of the graph: ValueError for others and before the first
    run. Made by the operations of a TaskGraph.
    """

    __slots__ = ("__weakref__", "_graph", "_value", "dtype", "layout", "nbytes", "shape")

    def __init__(self, graph: TaskGraph, value: Value) -> None:
        self._graph, self._value = graph, value
        self.shape, self.dtype, self.layout = value.shape, value.dtype, value.layout
        self.nbytes = value.nbytes

    def __repr__(self) -> str:
        return f"<Node {self._value.number} {self.dtype}{list(self.shape)}>"

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return math.prod(self.shape)

    @property
    def array(self) -> ContextArray:
        """What the last run made of it."""
        return self._graph._result(self._value)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements that the last run made, on the host; read-only."""
        return self.array.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.array.__array__(dtype, copy)


class TaskGraph:
    """Operations that are written down and then run together, again and again.

    `gemm`, `conv2d`, `map` and `reduce` take what those of the Context take, nodes among it, and
    give a Node. Outputs are the nodes that nothing reads, unless `output` says others. `run` fuses
    what can be one task, places the tasks, runs them and gives the outputs. Nothing can be added
    behind the `with` block, or the first run. Not for several threads at once.
    """

    def __init__(self, executor: LocalExecutor, uris: tuple[str, ...], fuse: bool = True) -> None:
        self._executor, self._uris, self._fuse = executor, uris, bool(fuse)
        self._tasks: list[Task] = []
        self._values: list[Value] = []
        self._given: dict[int, Any] = {}  # by the number of its value
        self._known: dict[int, Value] = {}  # by the id of what is in _given
        self._outs: dict[int, Any] = {}
        self._outputs: list[Value] = []
        self._run: GraphRun | None = None
        self._ready = self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self._tasks)} operations"
        return f"<TaskGraph of {state}>"

    def __enter__(self) -> TaskGraph:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._ready = True
        if kind is not None:
            self.close()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a graph has no operation {name!r}: there are {', '.join(OPERATIONS)}"
        )

    def gemm(
        self, a: Any, b: Any, out: Any = None, *, bias: Any = None,
        activation: str | None = None, algo: str = "auto",
    ) -> Node:  # fmt: skip
        """`sparkle_drv.ops.gemm`, written down: a node of shape [m, n]."""
        self._writable()
        reads = self._reads({"a": a, "b": b, "bias": bias})
        made = outline.gemm(reads["a"], reads["b"], reads.get("bias"), activation, algo)
        options = {"activation": activation, "algo": algo}
        return self._add("gemm", reads, made, out, options=options)

    def conv2d(
        self, x: Any, w: Any, bias: Any = None, out: Any = None, *, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, activation: str | None = None,
        layout: str = "NCHW", algo: str = "auto",
    ) -> Node:  # fmt: skip
        """`sparkle_drv.ops.conv2d`, written down: a node in `layout`."""
        self._writable()
        reads = self._reads({"x": x, "w": w, "bias": bias})
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
               "layout": layout}  # fmt: skip
        made = outline.conv2d(reads["x"], reads["w"], reads.get("bias"), how, activation, algo)
        options = {**how, "activation": activation, "algo": algo}
        return self._add("conv2d", reads, made, out, options=options)

    def map(
        self, expression: str | Callable[..., Any], /, *args: Any, out: Any = None, **names: Any
    ) -> Node:
        """`sparkle_drv.ops.map`, written down: a node of the shape that the arrays have."""
        self._writable()
        graph = graph_of(expression)
        values = self._bound(bind(graph.names, args, names))
        made, reads, numbers = outline.map("map", graph, values)
        return self._add("map", reads, made, out, expression=graph, numbers=numbers)

    def reduce(
        self, a: Any, op: str = "sum", axis: Any = None, *, keepdims: bool = False, **names: Any
    ) -> Node:
        """`sparkle_drv.ops.reduce`, written down, of an array or of an expression of `names`."""
        self._writable()
        options = {"op": op, "axis": axis, "keepdims": bool(keepdims)}
        if isinstance(a, (str, Lazy)) or (callable(a) and not isinstance(a, (Array, Node))):
            lazy = a if isinstance(a, Lazy) else Lazy(a, (), names)
            values = self._bound(lazy.values)
            (shape, dtype, _), reads, numbers = outline.map("reduce", lazy.graph, values)
            whole = Value(-1, shape, dtype)
            made = outline.reduce(whole, op, axis, keepdims)
            return self._add(
                "reduce", reads, made, None, options=options, expression=lazy.graph, numbers=numbers
            )
        if names:
            raise TypeError(f"{next(iter(names))}: names are for expressions, and a is an array")
        reads = self._reads({"a": a})
        return self._add("reduce", reads, outline.reduce(reads["a"], op, axis, keepdims), None,
                         options=options)  # fmt: skip

    def output(self, *nodes: Node) -> None:
        """These are the outputs, in this order, beside those that were named so before. Without a
        call, the nodes that nothing reads are. What no output needs is not computed.
        """
        self._writable()
        for node in nodes:
            value = self._node("output", node)
            if value not in self._outputs:
                self._outputs.append(value)

    @call
    def run(self) -> Any:
        """Run all: the output as a ContextArray, or a tuple of several, in order; asynchronous but
        for numpy's `out`.

        Arrays are read as they are now. Raises Impossible (a ValueError) when no device can do a
        task or the graph does not fit anywhere, ValueError (closed, empty, an operand closed), and
        what devices raise when none is left to do it.
        """
        if self._closed:
            raise ValueError("run: the graph is closed")
        if self._run is None:
            if not self._tasks:
                raise ValueError("run: there is no operation in the graph")
            self._ready = True
            outputs = self._outputs or self._unread()
            self._outputs = [*outputs, *(v for v in self._with_out() if v not in outputs)]
            self._run = GraphRun(
                self._executor, self._uris, self._tasks, self._outputs, self._given, self._outs,
                self._fuse,
            )  # fmt: skip
        made = self._run.run()
        found = tuple(made[value.number] for value in self._outputs)
        return found[0] if len(found) == 1 else found

    def close(self) -> None:
        """Let go of its memory and its operands; idempotent. Results stay with who has them."""
        self._closed = self._ready = True
        run, self._run = self._run, None
        self._given.clear()
        self._known.clear()
        self._outs.clear()
        if run is not None:
            run.let_go()

    def _unread(self) -> list[Value]:
        read = {value.number for task in self._tasks for value in task.arrays}
        return [task.out for task in self._tasks if task.out.number not in read]

    def _with_out(self) -> list[Value]:
        return [task.out for task in self._tasks if task.out.number in self._outs]

    def _result(self, value: Value) -> ContextArray:
        if self._closed:
            raise ValueError("the graph is closed")
        made = self._run.results if self._run is not None else None
        if made is None:
            raise ValueError("the graph was not run yet")
        if value.number not in made:
            raise ValueError("it is not an output and was not kept: say graph.output(node) before")
        return made[value.number]

    def _writable(self) -> None:
        if self._closed:
            raise ValueError("the graph is closed")
        if self._ready:
            raise ValueError("the graph is complete: nothing is added behind its with block or run")

    def _reads(self, given: dict[str, Any]) -> dict[str, Value]:
        return {name: self._operand(name, x) for name, x in given.items() if x is not None}

    def _bound(self, values: dict[str, Any]) -> dict[str, Any]:
        kinds = (np.ndarray, Array, ContextArray, Node)
        return {
            name: self._operand(name, x) if isinstance(x, kinds) else x
            for name, x in values.items()
        }

    def _node(self, name: str, given: Any) -> Value:
        if not isinstance(given, Node):
            raise TypeError(f"{name}: a node is wanted, got {type(given).__name__}")
        if given._graph is not self:
            raise ValueError(f"{name}: it is a node of another graph")
        return given._value

    def _operand(self, name: str, given: Any) -> Value:
        if isinstance(given, Node):
            return self._node(name, given)
        known = self._known.get(id(given))
        if known is not None:
            return known
        kind = self._kind(name, given)
        for out in self._outs.values():
            if _overlap(given, out):
                raise ValueError(
                    f"{name}: it is the out of another operation of this graph: who reads it would "
                    "have to come before and behind who writes it, a cycle; take the node"
                )
        layout = getattr(given, "layout", None)
        made = Value(len(self._values), tuple(given.shape), np.dtype(given.dtype), layout, kind)
        self._values.append(made)
        self._known[id(given)] = made
        self._given[made.number] = given
        return made

    def _kind(self, name: str, given: Any) -> str:
        """`Value.kind` of what comes from outside."""
        if isinstance(given, ContextArray):
            if not given.of(self._executor):
                raise ValueError(f"{name}: it is a ContextArray of another Context")
        elif isinstance(staging.operand(name, given), np.ndarray):
            flags = given.flags
            return "settled" if flags.owndata and not flags.writeable else "numpy"
        if given.closed:
            raise ValueError(f"{name}: an open array is wanted, this one is closed")
        if isinstance(given, ContextArray):
            return "context"
        uri = given.device.uri
        if self._executor.devices.get(uri) is not given.device:
            uris = ", ".join(self._executor.devices)
            raise ValueError(
                f"{name}: an Array of this Context ({uris}) is wanted, got one of {uri}"
            )
        return str(uri)

    def _add(
        self, op: str, reads: dict[str, Value], made: outline.Made, out: Any, *,
        options: dict[str, Any] | None = None, **more: Any,
    ) -> Node:  # fmt: skip
        shape, dtype, layout = made
        value = Value(len(self._values), shape, dtype, layout)
        if out is not None:
            self._check_out(out, value)
            self._outs[value.number] = out
        self._values.append(value)
        words = written(more["expression"]) if "expression" in more else op
        words = f"reduce of {words}" if op == "reduce" and words != op else words
        self._tasks.append(Task(op, reads, value, options or {}, made_of=(words,), **more))
        return Node(self, value)

    def _check_out(self, out: Any, value: Value) -> None:
        if isinstance(out, Node):
            raise TypeError("out: a node is the result of its own operation, an array is wanted")
        self._kind("out", out)
        if isinstance(out, ContextArray):
            check.same_dtype("out", out.dtype, "the result", value.dtype)
            check.shape("out", out.shape, value.shape, "for this result")
        else:
            staging.check_out(out, value.shape, value.dtype, value.layout)
        if any(_overlap(out, given) for given in self._given.values()):
            raise ValueError(
                "out: it is an operand of this graph, too: who reads it would have to come before "
                "and behind who writes it, a cycle"
            )
        if any(_overlap(out, other) for other in self._outs.values()):
            raise ValueError("out: another operation of this graph has it already")


def _overlap(x: Any, y: Any) -> bool:
    """May writing one change the other?"""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return bool(np.may_share_memory(x, y))
    if isinstance(x, Array) and isinstance(y, Array):
        if x.device is not y.device:
            return False
        a, b = x.buffer.address, y.buffer.address
        return bool(a < b + y.nbytes and b < a + x.nbytes)
    return x is y
