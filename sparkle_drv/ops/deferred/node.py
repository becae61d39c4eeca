"""DeferredNode: a step of an expression over Arrays that is not computed yet. It is a Thunk of
core.

`run` computes a node and those that it depends on as one map. Numbers become arguments of the map,
so the same kernel serves expressions with other numbers. build.py makes nodes. When an Array is
read, core calls `run` of its node. A node never changes, but for the result that `run` keeps. The
caller of `run`, `into` and `graph` has the lock of the arrays that wait (core/deferred).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.commands import Commands
from sparkle_drv.ops.arguments import check
from sparkle_drv.ops.expression.grammar import SIGNS
from sparkle_drv.ops.expression.graph import Builder, Graph
from sparkle_drv.ops.map import operation as map
from sparkle_drv.ops.map.operation import fuses
from sparkle_drv.ops.shapes import space
from sparkle_drv.ops.shapes.view import View
from sparkle_drv.ops.strided.operation import strided_copy

from . import types

Shape = tuple[int, ...]
Step = tuple[Any, ...]
MOST_STEPS, MOST_LEAVES = 24, 8
"""The most steps and arrays of one expression. Operands of a larger one are computed first."""


class DeferredNode:
    """The operation `op` of `operands` (DeferredNodes, Arrays, numbers).

    `tag` is the type in which a map computes the step, even if the type of the result is bool.
    `made` is the result if `run` has computed this node, else None. `kind` is (dtype, tag).
    """

    __slots__ = (
        "device", "dtype", "kind", "leaves", "made", "op", "operands", "shape", "steps", "tag",
    )  # fmt: skip

    def __init__(
        self, device: Any, op: str, operands: tuple[Any, ...], dtype: np.dtype[Any],
        shape: Shape, tag: str,
    ) -> None:  # fmt: skip
        self.device, self.op, self.operands = device, op, operands
        self.dtype, self.shape, self.tag, self.kind = dtype, shape, tag, (dtype, tag)
        self.made: Array | None = None
        steps, leaves = 1, 0
        for x in operands:
            if isinstance(x, DeferredNode):
                steps += x.steps
                leaves += x.leaves
            elif isinstance(x, Shaped):
                leaves += 1
        self.steps: int = steps
        self.leaves: int = leaves

    @staticmethod
    def reads_truths(device: Any) -> bool:
        """Whether maps of this device can read a bool array in memory. Only fused maps can."""
        return fuses(device)

    @property
    def readable(self) -> bool:
        """Whether maps can read the result of this node, once it is computed."""
        return self.dtype != types.BOOL or self.reads_truths(self.device)

    def run(self) -> Any:
        """Computes the array, as Thunk.run says."""
        if self.made is None:
            array = self.device.empty(self.shape, self.dtype)
            self.into(array)
            self.made = array
        return self.made

    def into(self, out: Array) -> None:
        """Computes the elements into `out`, which may be an operand."""
        graph, values = self.graph()
        map.again(self.device, graph, out, *values)
        self.device._pending.launched(self.device, out._fence)

    def graph(self) -> tuple[Graph, list[Any]]:
        """Returns the graph of the expression, and the values of the names in it."""
        written, shape = ExpressionSteps(self), self.shape
        leaves = written.leaves
        if not fuses(self.device):  # a map there needs operands of one shape
            leaves = [
                x if x.shape in ((), shape) else viewed(x, broadcast(x, shape)) for x in leaves
            ]
        kinds = tuple([(x.shape, x.dtype) for x in leaves])
        graph = _graph(tuple(written.steps), kinds, len(written.numbers))
        return graph, leaves + written.numbers

    def explain(self) -> str:
        """Returns one line that says how the array will be computed."""
        return f"{self.where}: {ExpressionSteps(self).text()}, {self.dtype}{list(self.shape)}"

    @property
    def where(self) -> str:
        """Where the expression will be computed, for `explain`."""
        return f"one map on {self.device.uri}"


class ExpressionSteps:
    """The steps of an expression in the order of computation. A node used twice is one step."""

    def __init__(self, node: DeferredNode) -> None:
        self.steps: list[Step] = []
        self.leaves: list[Any] = []
        self.numbers: list[Any] = []
        self._known: dict[int, tuple[str, int]] = {}
        self._value(node)

    def _value(self, x: Any, exponent: bool = False) -> tuple[str, Any]:
        """Returns where operand `x` stands: (list, index), or ("n", x) for a written exponent.

        The list is "" for `steps`, "x" for `leaves` (arrays in memory), "s" for `numbers`.
        """
        if exponent and type(x) in (int, float) and math.isfinite(x):
            return "n", x
        if isinstance(x, DeferredNode) and x.made is not None:
            x = x.made if x.readable else x
        if not isinstance(x, (DeferredNode, Shaped)):
            self.numbers.append(x)
            return "s", len(self.numbers) - 1
        place = self._known.get(id(x))
        if place is None:
            if isinstance(x, DeferredNode):
                power = x.op == "pow"
                operands = [self._value(y, power and i == 1) for i, y in enumerate(x.operands)]
                place = "", len(self.steps)
                self.steps.append((x.op, *operands))
            else:
                place = "x", len(self.leaves)
                self.leaves.append(x)
            self._known[id(x)] = place
        return place

    def graph(self) -> Graph:
        """Returns the expression as a graph of x0, x1... (`leaves`) and s0, s1... (`numbers`), in
        this order. Equal expressions of alike arrays give the same Graph object.
        """
        kinds = tuple([(x.shape, x.dtype) for x in self.leaves])
        return _graph(tuple(self.steps), kinds, len(self.numbers))

    def text(self) -> str:
        """Returns the expression as the text of a map of x0, x1... (`leaves`) and s0, s1..."""
        steps: list[str] = []
        for op, *operands in self.steps:
            parts = [
                f"({value!r})" if kind == "n" else f"{kind}{value}" if kind else steps[value]
                for kind, value in operands
            ]
            sign = SIGNS.get(op)
            steps.append(f"({f' {sign} '.join(parts)})" if sign else f"{op}({', '.join(parts)})")
        return steps[-1]


@lru_cache(maxsize=1024)
def _graph(
    steps: tuple[Step, ...], kinds: tuple[tuple[Shape, np.dtype[Any]], ...], numbers: int
) -> Graph:
    """Returns the graph of an expression of Arrays, whose operations are `steps`.

    The result is cached: equal arguments give the same Graph object. By this object, `again`
    (ops/map) recognises a repeated call.
    """
    builder = Builder("an expression of Arrays")
    names = [f"x{i}" for i in range(len(kinds))] + [f"s{i}" for i in range(numbers)]
    at = {name: builder.add("name", (), name) for name in names}
    step_nodes: list[int] = []
    for op, *operands in steps:
        args = []
        for kind, value in operands:
            if kind == "n":
                args.append(builder.add("number", (), value))
            else:
                args.append(at[f"{kind}{value}"] if kind else step_nodes[value])
        step_nodes.append(builder.add(op, tuple(args)))
    return builder.graph(step_nodes[-1], tuple(names), "", builder.called)


def viewed(x: Array, view: View) -> Array:
    """Returns the elements of `x` that `view` names: a view of the same memory if they are
    contiguous, otherwise a copy. If no kernel can make the copy, the host does.
    """
    size = math.prod(view.shape)
    dims = zip(view.shape, view.strides, space.row_major(view.shape, 1), strict=True)
    if not size or all(n == 1 or step == plain for n, step, plain in dims):
        itemsize = x.dtype.itemsize
        start = view.offset * itemsize if size else 0
        elements = x.buffer.view(start, size * itemsize).array(x.dtype, view.shape)
        elements.fence = x.fence
        return elements
    elements = x.device.empty(view.shape, x.dtype)
    try:
        copy = partial(strided_copy, src_strides=view.strides, src_offset=view.offset)
        return launched(copy(x.device, elements, bindable(x), view.shape))
    except (check.NotThere, ValueError) as error:  # no kernel, for example for elements of 1 byte
        host = x._host()
        steps = [s * host.itemsize for s in view.strides]
        flat = np.lib.stride_tricks.as_strided(host.reshape(-1)[view.offset :], view.shape, steps)
        elements.device.default_queue.write(elements, np.ascontiguousarray(flat)).wait()
        elements._origin = f"numpy on the host: {error}"
        return elements


def launched(x: Array) -> Array:
    """Returns `x`, a result that operators compute at once. Later writes of the operands, on any
    queue, are ordered behind the launch that computes `x`.
    """
    x.device._pending.launched(x.device, x._fence)
    return x


def bindable(x: Array) -> Array:
    """Returns `x`, or a copy if a launch cannot take the memory of `x`.

    OpenGL cannot take a view whose offset is not a multiple of `offset_alignment`.
    """
    device = x.device
    if is_bindable(x):
        return x
    copied, queue, commands = device.empty(x.shape, x.dtype), device.default_queue, Commands()
    if x.fence is not None and x.fence.queue is not queue:
        commands.wait(x.fence)
    copied.fence = queue.submit(commands.copy(copied, x.buffer.view(0, x.nbytes)))
    return copied


def is_bindable(x: Array) -> bool:
    """Returns whether a launch can take a view that begins at the offset of `x`."""
    offset = x.buffer.offset
    return not (offset and offset % x.device.info.offset_alignment)


def broadcast(x: Array, shape: Shape) -> View:
    """Returns the view that broadcasts `x` to `shape`."""
    own = View.of(x.shape)
    strides = tuple(0 if n == 1 else s for n, s in zip(own.shape, own.strides, strict=True))
    return View(shape, (0,) * (len(shape) - len(strides)) + strides, 0)
