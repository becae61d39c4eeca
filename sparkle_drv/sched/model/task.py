"""Arrays and tasks, as plain data. A call outside a graph is one Task. Recording a graph makes
Tasks, fusing changes them, planning and running read them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.shapes import space


@dataclass(frozen=True)
class Value:
    """One array: an operand from outside, or the result of a task."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: str | None = None
    kind: str = "made"
    """Where the array comes from. "made": from a task. "numpy", "constant" (a ContextConstant),
    "context" (a ContextArray), or the URI of the device of a core.Array or Constant: from outside.
    "input": each run binds an array. A ContextConstant bound to an input counts as "context", since
    the next run may bind another."""
    part: tuple[int, int, int] | None = None
    """(number of the array, begin, end): the rows of axis 0 that this value is, in a graph with
    micro-batches. None for a whole array."""

    @property
    def whole(self) -> int:
        """The `number` of this Value, or of the Value that it is a part of."""
        return self.number if self.part is None else self.part[0]

    @property
    def host(self) -> bool:
        """Whether the elements are on the host before the graph runs."""
        return self.kind in ("numpy", "constant")

    @property
    def constant(self) -> bool:
        """Whether the elements are guaranteed not to change."""
        return self.kind == "constant"

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Fold:
    """A change of weights w and bias before a product, to w * scale and bias * scale + shift.

    `scale` and `shift` are expressions of the arrays in `reads`, with a value per channel. The host
    computes them in float64. A `scale` of None stands for 1, a `shift` of None for 0. With
    `positive`, the fold is right only if each scale is above 0.
    """

    reads: Mapping[str, Value]
    scale: Graph | None
    shift: Graph | None
    positive: bool
    weights: str
    """The operand of the product that is w."""


@dataclass(frozen=True)
class Task:
    """One operation. `reads` maps the argument names of the function in `ops` to arrays."""

    op: str
    """Name of the operation, a key of sched/operations/table.py."""
    reads: Mapping[str, Value]
    out: Value
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options as `ops` takes them."""
    expression: Graph | None = None
    """The expression of a map, or of a reduction of an expression."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The scalars of the expression by name."""
    fold: Fold | None = None
    made_of: tuple[str, ...] = ()
    """The recorded operations that this task does, as text."""

    @property
    def brought(self) -> tuple[Value, ...]:
        """The arrays that must be copied to the device before the task begins, each once.

        Numpy arrays that a map broadcasts and operands that a fold changes are left out: `ops`
        copies them itself.
        """
        found = [v for name, v in self.reads.items() if name not in self.folded]
        if self.expression is not None:
            found = [v for v in found if v.shape == self.common or not v.host]
        return tuple(dict.fromkeys(found))

    @property
    def folded(self) -> tuple[str, ...]:
        """The operands that the fold changes: the bias, and the weights if they are scaled. The
        fold may add a bias where there was none.
        """
        if self.fold is None:
            return ()
        return ("bias",) if self.fold.scale is None else ("bias", self.fold.weights)

    @property
    def common(self) -> tuple[int, ...]:
        """The shape that the arrays of an expression broadcast to."""
        return space.common([value.shape for value in self.reads.values()])

    @property
    def arrays(self) -> tuple[Value, ...]:
        """The arrays that the task reads, each once."""
        folded = self.fold.reads if self.fold else {}
        return tuple(dict.fromkeys((*self.reads.values(), *folded.values())))


@dataclass(frozen=True)
class Conversion:
    """A change of an operand's layout before a task, on the same device. `task` makes the operand
    of this name.
    """

    operand: str
    task: Task


def readers(tasks: Sequence[Task]) -> dict[int, list[int]]:
    """Returns the tasks that read each value, by the value's number."""
    by_value: dict[int, list[int]] = {}
    for i, task in enumerate(tasks):
        for value in task.arrays:
            by_value.setdefault(value.number, []).append(i)
    return by_value


def bound(tasks: Sequence[Task], kinds: Mapping[int, str]) -> list[Task]:
    """Returns copies of `tasks` in which some Values that they read have a new `kind`. `kinds` maps
    the `number` of such a Value to its new `kind`.
    """

    def given(value: Value) -> Value:
        return replace(value, kind=kinds[value.number]) if value.number in kinds else value

    return [replace(t, reads={name: given(v) for name, v in t.reads.items()}) for t in tasks]


def needed(tasks: Sequence[Task], outputs: frozenset[int]) -> list[Task]:
    """Returns the tasks that `outputs` depend on."""
    wanted = set(outputs)
    kept = []
    for task in reversed(tasks):
        if task.out.number in wanted:
            kept.append(task)
            wanted.update(value.number for value in task.arrays)
    return kept[::-1]
