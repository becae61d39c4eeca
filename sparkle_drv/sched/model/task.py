"""Arrays and tasks of a task graph, as plain data: what recording makes, fusing changes, and
placing and running read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.shapes import space
from sparkle_drv.ops.shapes.geometry import FORM, Geometry, geometry


@dataclass(frozen=True)
class Value:
    """One array: an operand from outside, or what a task makes."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: str | None = None
    kind: str = "made"
    """"made" by a task, or from outside: "numpy", "constant" (a ContextConstant), "context" (a
    ContextArray), or the URI of the device that a core.Array or a Constant is on. "input": each run
    tells which of them; a ContextConstant then counts as "context", since the next run may have
    another.
    """
    part: tuple[int, int, int] | None = None
    """(number of the array, begin, end) of the rows of axis 0 that this is, of a graph that is done
    in micro-batches; None: it is a whole array."""

    @property
    def whole(self) -> int:
        """The number of the array that it is, or is a part of."""
        return self.number if self.part is None else self.part[0]

    @property
    def host(self) -> bool:
        """Has the host its elements before the graph runs?"""
        return self.kind in ("numpy", "constant")

    @property
    def constant(self) -> bool:
        """Can it not change?"""
        return self.kind == "constant"

    @property
    def nbytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Fold:
    """What is put into weights and bias before a product: w * scale and bias * scale + shift.

    Both are expressions over channels, by name in `reads`, computed in float64 on the host; None:
    1 and 0. `positive`: only right where the scale is above 0.
    """

    reads: Mapping[str, Value]
    scale: Graph | None
    shift: Graph | None
    positive: bool


@dataclass(frozen=True)
class Task:
    """One operation. `reads` has its arrays by the names that `ops` knows them by."""

    op: str
    """gemm, conv2d, map, reduce or layout."""
    reads: Mapping[str, Value]
    out: Value
    options: Mapping[str, Any] = field(default_factory=dict)
    """As `ops` takes them."""
    expression: Graph | None = None
    """Of a map, or of a reduction of one."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The scalars of the expression by name."""
    fold: Fold | None = None
    made_of: tuple[str, ...] = ()
    """What was recorded that is done here, in words."""

    @property
    def brought(self) -> tuple[Value, ...]:
        """The arrays that must be on the device before it begins, once. `ops` brings the others
        itself: numpy arrays that a map broadcasts, and what a fold changes.
        """
        found = [v for name, v in self.reads.items() if name not in self.folded]
        if self.expression is not None:
            found = [v for v in found if v.shape == self.common or not v.host]
        return tuple(dict.fromkeys(found))

    @property
    def folded(self) -> tuple[str, ...]:
        """The operands that its fold changes: a bias, if there is one by then, and the weights
        where they are scaled.
        """
        if self.fold is None:
            return ()
        return ("bias",) if self.fold.scale is None else ("bias", self.weights)

    @property
    def common(self) -> tuple[int, ...]:
        """The shape that the arrays of an expression have together."""
        return space.common([value.shape for value in self.reads.values()])

    @property
    def arrays(self) -> tuple[Value, ...]:
        """Every array that it reads, once."""
        folded = self.fold.reads if self.fold else {}
        return tuple(dict.fromkeys((*self.reads.values(), *folded.values())))

    @property
    def geometry(self) -> Geometry:
        """That of a convolution."""
        how = {name: self.options[name] for name in FORM}
        return geometry(self.reads["x"].shape, self.reads["w"].shape, **how)

    @property
    def channels(self) -> int:
        """The axis of a product's result that its bias goes along."""
        return 1 if self.op == "conv2d" and self.options.get("layout") != "NHWC" else -1

    @property
    def weights(self) -> str:
        """The name of the operand that has the product's output channels."""
        return "w" if self.op == "conv2d" else "b"


def readers(tasks: Sequence[Task]) -> dict[int, list[int]]:
    """By value, the tasks that read it."""
    found: dict[int, list[int]] = {}
    for i, task in enumerate(tasks):
        for value in task.arrays:
            found.setdefault(value.number, []).append(i)
    return found


def bound(tasks: Sequence[Task], kinds: Mapping[int, str]) -> list[Task]:
    """`tasks` as they were written down, with the inputs of these numbers being of these kinds."""

    def given(value: Value) -> Value:
        return replace(value, kind=kinds[value.number]) if value.number in kinds else value

    return [replace(t, reads={name: given(v) for name, v in t.reads.items()}) for t in tasks]


def needed(tasks: Sequence[Task], outputs: frozenset[int]) -> list[Task]:
    """The tasks without which there would not be all of `outputs`."""
    wanted = set(outputs)
    kept = []
    for task in reversed(tasks):
        if task.out.number in wanted:
            kept.append(task)
            wanted.update(value.number for value in task.arrays)
    return kept[::-1]
