"""Node: a step of an expression over Arrays that is not computed yet; core's Thunk.

`run` writes the nodes that it needs down as one graph and maps it. Numbers become arguments of the
map, so that an expression with other numbers is not another kernel. Called by build.py and, through
core, by whoever reads an Array.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.array_shape import Shaped
from sparkle_drv.core.commands import Commands
from sparkle_drv.ops.expression.graph import Builder, Graph
from sparkle_drv.ops.map import operation as map
from sparkle_drv.ops.map.operation import fuses
from sparkle_drv.ops.shapes.view import View
from sparkle_drv.ops.strided.moves import DIMS
from sparkle_drv.ops.strided.operation import strided_copy

from . import types

Shape = tuple[int, ...]
Step = tuple[Any, ...]
MOST_STEPS, MOST_LEAVES = 24, 8
"""Of one expression: beyond them its operands are computed first."""


class Node:
    """`op` of `operands` (Nodes, Arrays, numbers). `tag` is the type of a truth's elements.

    `made` is its result, if it was computed on its own; `kind` is (dtype, tag).
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
            if isinstance(x, Node):
                steps += x.steps
                leaves += x.leaves
            elif isinstance(x, Shaped):
                leaves += 1
        self.steps: int = steps
        self.leaves: int = leaves

    @staticmethod
    def reads_truths(device: Any) -> bool:
        """Do maps of this device read truths that are computed? Only fused maps do."""
        return fuses(device)

    @property
    def readable(self) -> bool:
        """Do maps read its result, once it is computed?"""
        return self.dtype != types.BOOL or self.reads_truths(self.device)

    def run(self, out: Array | None = None) -> Array:
        """See core's Thunk; `out`: memory for the result."""
        if self.made is not None:
            return self.made
        graph, values = self.graph()
        made = self.device.empty(self.shape, self.dtype) if out is None else out
        map.again(self.device, graph, made, *values)
        self.made = made
        return made

    def graph(self) -> tuple[Graph, list[Any]]:
        """The expression, and the values of its names."""
        written = _Written()
        written.value(self)
        leaves = written.leaves
        if not fuses(self.device):
            leaves = [_widened(x, self.shape) for x in leaves]
        kinds = tuple([(x.shape, x.dtype) for x in leaves])
        graph = _graph(tuple(written.steps), kinds, len(written.numbers))
        return graph, leaves + written.numbers

    def explain(self) -> str:
        """See core's Thunk."""
        written = _Written()
        text = written.text(self)
        return f"one map on {self.device.uri}: {text}, {self.dtype}{list(self.shape)}"


class _Written:
    """The steps of an expression in the order of their computation; equal nodes are one."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.leaves: list[Array] = []
        self.numbers: list[Any] = []
        self._known: dict[int, tuple[str, int]] = {}

    def value(self, x: Any) -> tuple[str, Any]:
        """What a step calls this operand: the number of a step, of a leaf or of a number."""
        if isinstance(x, Node) and x.made is not None:
            x = x.made if x.readable else x
        if not isinstance(x, (Node, Array)):
            return self.number(x)
        found = self._known.get(id(x))
        if found is None:
            if isinstance(x, Array):
                found = "x", len(self.leaves)
                self.leaves.append(x)
            else:
                step: list[Any] = [x.op]
                for i, operand in enumerate(x.operands):
                    written = x.op == "pow" and i == 1 and type(operand) in (int, float)
                    step.append(("n", operand) if written else self.value(operand))
                found = "", len(self.steps)
                self.steps.append(tuple(step))
            self._known[id(x)] = found
        return found

    def number(self, x: Any) -> tuple[str, int]:
        self.numbers.append(x)
        return "s", len(self.numbers) - 1

    def text(self, x: Any) -> str:
        """The expression as a reader has it."""
        if isinstance(x, Node) and x.made is None:
            return f"{x.op}({', '.join(map_text(self, o) for o in x.operands)})"
        return f"x{self.value(x)[1]}" if isinstance(x, (Node, Array)) else repr(x)


def map_text(written: _Written, operand: Any) -> str:
    return written.text(operand)


@lru_cache(maxsize=1024)
def _graph(
    steps: tuple[Step, ...], kinds: tuple[tuple[Shape, np.dtype[Any]], ...], numbers: int
) -> Graph:
    """One object for leaves of these shapes and dtypes: see map.again."""
    builder = Builder("an expression of Arrays")
    names = [f"x{i}" for i in range(len(kinds))] + [f"s{i}" for i in range(numbers)]
    at = {name: builder.add("name", (), name) for name in names}
    made: list[int] = []
    for op, *operands in steps:
        args = []
        for kind, value in operands:
            if kind == "n":
                args.append(builder.add("number", (), value))
            else:
                args.append(at[f"{kind}{value}"] if kind else made[value])
        made.append(builder.add(op, tuple(args)))
    return builder.graph(made[-1], tuple(names), "", builder.called)


def _widened(x: Array, shape: Shape) -> Array:
    """`x` of this shape: devices without fused maps take arrays of one shape."""
    if x.shape == shape or not x.shape or 0 in shape:
        return x
    view = broadcast(x, shape)
    made = x.device.empty(shape, x.dtype)
    if sum(n > 1 for n in shape) > DIMS:
        x.device.default_queue.write(made, np.broadcast_to(x._host(), shape)).wait()
        return made
    return strided_copy(x.device, made, x, shape, src_strides=view.strides, src_offset=view.offset)


def bindable(x: Array) -> Array:
    """`x`, or a copy of what a kernel of this device cannot be given: a view that begins at an odd
    address (OpenGL).
    """
    device = x.device
    if is_bindable(x):
        return x
    made, queue, commands = device.empty(x.shape, x.dtype), device.default_queue, Commands()
    if x.fence is not None and x.fence.queue is not queue:
        commands.wait(x.fence)
    made.fence = queue.submit(commands.copy(made, x.buffer.view(0, x.nbytes)))
    return made


def is_bindable(x: Array) -> bool:
    """May it stand among the arguments of a launch, where its memory begins?"""
    offset = x.buffer.offset
    return not (offset and offset % x.device.info.offset_alignment)


def broadcast(x: Array, shape: Shape) -> View:
    """The elements of `x` as this shape, which it broadcasts to, has them."""
    own = View.of(x.shape)
    strides = tuple(0 if n == 1 else s for n, s in zip(own.shape, own.strides, strict=True))
    return View(shape, (0,) * (len(shape) - len(strides)) + strides, 0)
