"""TaskGraph, which `ctx.graph()` returns: it records operations, then runs them together.

Each operation takes what the operation of `ops` takes, and nodes of the graph. It raises the same
errors while it is recorded, since shapes and dtypes are known then. Each `run` reads the content of
the arrays anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.memory.foreign import is_foreign
from sparkle_drv.sched.model.task import Task, Value, bound
from sparkle_drv.sched.operations.compose import written
from sparkle_drv.sched.operations.recorder import GraphRecorder
from sparkle_drv.sched.operations.table import OPERATIONS, operation_of
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.call_spans import call
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.foreign import taken
from sparkle_drv.sched.run.local import LocalExecutor

from .inputs import check_out, input_kind, input_value, kind_of, overlap
from .run import GraphRun


class Node:
    """A result in a graph. `shape`, `dtype` (numpy's), `layout` and `nbytes` are known at once.

    `array` is the ContextArray of the last run. `numpy()` and `__array__` wait for that array and
    copy it to the host. All three work for outputs of the graph; they raise ValueError for other
    nodes, and before the first run. The operations of a TaskGraph make nodes.
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
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def array(self) -> ContextArray:
        """The result of the last run. Raises ValueError before the first run, and for a node that
        is no output.
        """
        return self._graph._result(self._value)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Waits, and returns the elements of the last run as a read-only host array. Raises as
        `array` does.
        """
        return self.array.numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.array.__array__(dtype, copy)


class TaskGraph(GraphRecorder[Node]):
    """Operations that are recorded once and run together, again and again.

    Its operations (operations/recorder.py) take what those of the Context take, and nodes; each
    returns a Node. Outputs are the nodes that `output` names. If `output` is not called, the
    outputs are the nodes that no operation reads and those with an `out`.

    `run` merges tasks where possible, places and runs them, and returns the outputs. After the
    `with` block or the first run, no operation can be added. Arrays that change from run to run are
    `input`s.

    One thread records the graph. Several threads may run and close it; they take turns.
    """

    def __init__(
        self, executor: LocalExecutor, uris: tuple[str, ...], fuse: bool = True,
        micro_batches: int | str = 1,
    ) -> None:  # fmt: skip
        self._executor, self._uris, self._fuse = executor, uris, bool(fuse)
        self._micro = micro_batches
        if not isinstance(micro_batches, str):
            self._micro = check.whole("micro_batches", micro_batches, 1)
        elif micro_batches != "auto":
            raise ValueError(f"micro_batches: expected a number or 'auto', got {micro_batches!r}")
        self._tasks: list[Task] = []
        self._values: list[Value] = []
        self._given: dict[int, Any] = {}  # the operands' arrays, by the numbers of their Values
        self._kept: list[Any] = []  # the caller's arrays: operands of the graph
        self._known: dict[int, Value] = {}  # the Value of each object in _kept, by the object's id
        self._outs: dict[int, Any] = {}
        self._outputs: list[Value] = []
        self._inputs: dict[int, Value] = {}  # the inputs, by their numbers
        # The Value.kind of each input's array, by the number of the input.
        self._kinds: dict[int, str] = {}
        self._run: GraphRun | None = None
        self._ready = self._closed = False
        # Held by run and close; reentrant because a signal handler may call both.
        self._turn = fork_lock()

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
            f"a graph has no operation {name!r}: expected one of {', '.join(OPERATIONS)}"
        )

    def input(self, shape: Any, dtype: Any = np.float32, *, layout: str | None = None) -> Node:
        """Returns a node for an array of this shape and dtype, which each `run` may bind anew.

        `layout` is the layout of the array, such as "NCHW". Raises TypeError or ValueError for a
        bad shape, dtype or layout.
        """
        self._writable()
        value = input_value(len(self._values), shape, dtype, layout)
        self._values.append(value)
        self._inputs[value.number] = value
        return Node(self, value)

    def output(self, *nodes: Node) -> None:
        """Makes these nodes outputs, in this order, after those of earlier calls.

        Without a call, the outputs are the nodes that no operation reads and those with an `out`.
        An operation that no output and no `out` needs is not computed.

        Raises TypeError for an argument that is no node. Raises ValueError for an input, for a node
        of another graph, and if the graph is closed or complete.
        """
        self._writable()
        for node in nodes:
            value = self._node("output", node)
            if value.number in self._inputs:
                raise ValueError("output: expected a result, got an input of the graph")
            if value not in self._outputs:
                self._outputs.append(value)

    @call
    def run(self, inputs: Mapping[Node, Any] | None = None) -> Any:
        """Runs the graph. Returns the output as a ContextArray, or several outputs as a tuple in
        order.

        The call does not wait, except for a numpy `out`. Operands are read as they are now.
        `inputs` maps nodes that `input` returned to arrays; an input stays bound until it is bound
        again. The plan is kept for arrays of the same kind on the same devices.

        Raises ValueError for a closed or empty graph, a closed operand, and an input that is
        missing or has another shape. Raises it also for a batch that cannot be cut into
        `micro_batches`. Raises TypeError for inputs of another type or dtype. Raises Impossible (a
        ValueError) when no device can do a task, or the devices have too little memory for the
        graph. When every device has failed, raises the last device's error.
        """
        with self._turn:
            if self._closed:
                raise ValueError("run: expected an open graph, got a closed one")
            if not self._tasks:
                raise ValueError("run: expected at least one operation in the graph, got none")
            self._executor.check_open()
            # Waiting arrays are computed here, because no thread of a lane may compute them.
            self._executor.waiting.settle()
            return self._once(inputs)

    def _once(self, inputs: Mapping[Node, Any] | None) -> Any:
        changed = self._bind(inputs or {})
        if self._run is None or changed:
            self._ready = True
            unread, filled = self._unread(), self._with_out()
            self._outputs = self._outputs or [*unread, *(v for v in filled if v not in unread)]
            filled = [v for v in filled if v not in self._outputs]
            if self._run is not None:
                self._run.let_go()
            self._run = GraphRun(
                self._executor, self._uris, bound(self._tasks, self._kinds),
                [*self._outputs, *filled], self._given, self._outs, self._fuse,
                self._micro,
            )  # fmt: skip
        made = self._run.run()
        found = tuple(made[value.number] for value in self._outputs)
        return found[0] if len(found) == 1 else found

    def _bind(self, inputs: Mapping[Node, Any]) -> bool:
        """Binds all inputs, or none of them if one is wrong. Returns whether an input now
        has a kind of array (`input_kind`) that differs from the one before.
        """
        if not isinstance(inputs, Mapping):
            raise TypeError(
                f"inputs: expected a dict of arrays by node, got {type(inputs).__name__}"
            )
        arrays: dict[int, Any] = {}
        for node, x in inputs.items():
            if isinstance(x, Node):
                raise TypeError(f"inputs: expected an array, got the node {x!r}")
            value = self._node("inputs", node)
            if value.number not in self._inputs:
                raise ValueError(f"inputs: expected an input of the graph, got the result {node!r}")
            arrays[value.number] = taken(self._executor.devices, "inputs", x)
        outs = self._outs.values()
        kinds = {n: input_kind(self._executor, self._inputs[n], x, outs) for n, x in arrays.items()}
        for number, value in self._inputs.items():
            if number not in arrays and number not in self._given:
                which = Node(self, value)
                raise ValueError(f"inputs: {which!r} has no array yet: call run({{node: array}})")
        self._given.update(arrays)
        before, self._kinds = self._kinds, {**self._kinds, **kinds}
        return before != self._kinds

    def close(self) -> None:
        """Releases the graph's memory and operands; idempotent. Waits for a run in another thread.

        Results that the caller holds stay valid.
        """
        self._closed = self._ready = True
        with self._turn:
            run, self._run = self._run, None
            self._given.clear()
            self._known.clear()
            self._kept.clear()
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
            raise ValueError("expected an open graph, got a closed one")
        results = self._run.results if self._run is not None else None
        if results is None:
            raise ValueError("expected a graph that was run, got one that was not run yet")
        if value.number not in results:
            raise ValueError(
                "the node is no output and was not kept: call graph.output(node) first"
            )
        return results[value.number]

    def _writable(self) -> None:
        if self._closed:
            raise ValueError("expected an open graph, got a closed one")
        if self._ready:
            raise ValueError("the graph is complete: add nothing after its with block or first run")

    def _is_operand(self, x: Any) -> bool:
        kinds = (np.ndarray, Array, Constant, ContextArray, ContextConstant, Node)
        return isinstance(x, kinds) or is_foreign(x)

    def _is_node(self, x: Any) -> bool:
        return isinstance(x, Node)

    def _node(self, name: str, node: Any) -> Value:
        if not isinstance(node, Node):
            raise TypeError(f"{name}: expected a node, got {type(node).__name__}")
        if node._graph is not self:
            raise ValueError(f"{name}: expected a node of this graph, got one of another graph")
        return node._value

    def _value(self, name: str, operand: Any) -> Value:
        if isinstance(operand, Node):
            return self._node(name, operand)
        known = self._known.get(id(operand))
        if known is not None:
            return known
        key = operand
        operand = taken(self._executor.devices, name, operand)
        kind = kind_of(self._executor, name, operand)
        for out in self._outs.values():
            if overlap(operand, out):
                raise ValueError(
                    f"{name}: expected an array apart from the `out` arrays of this graph, got one "
                    "that overlaps an `out`: its reader would have to run both before and after "
                    "its writer, a cycle; pass the node instead"
                )
        layout = getattr(operand, "layout", None)
        value = Value(
            len(self._values), tuple(operand.shape), np.dtype(operand.dtype), layout, kind
        )
        self._values.append(value)
        self._known[id(key)] = value
        self._kept.append(key)  # keeps the object alive, so that no other gets its id()
        self._given[value.number] = operand
        return value

    def _record(self, task: Task, out: Any) -> Node:
        value = replace(task.out, number=len(self._values))
        if out is not None:
            out = taken(self._executor.devices, "out", out)
            if isinstance(out, Node):
                raise TypeError(
                    "out: expected an array, got a node, which is the result of its own operation"
                )
            outside, outs = self._given.values(), self._outs.values()
            check_out(self._executor, value, out, outside, outs)
            self._outs[value.number] = out
        self._values.append(value)
        words = () if task.expression is None else (written(task.expression),)
        task = replace(task, out=value, made_of=words)
        self._tasks.append(replace(task, made_of=(operation_of(task).words(task),)))
        return Node(self, value)
