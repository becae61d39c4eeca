"""The steps of a placed graph, in the order in which they begin, and the memory that they share.
All functions are pure.

A step copies an array to a device or runs a task there. A result for another device is copied just
before the task that reads it. By then all earlier steps have begun, so waiting for the result
delays none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.operations.table import operation_of

from .reuse import Item, PackedMemory, pack

Key = tuple[int, str]
"""(number, URI) of a value on a device."""


@dataclass(frozen=True)
class Bring:
    """The step that copies `value` to `uri`, from the device `source`. A `source` of "" means from
    outside the graph.
    """

    value: Value
    uri: str
    source: str

    def __str__(self) -> str:
        where = f"from {self.source} " if self.source else ""
        return f"copy of {self.value.nbytes} bytes {where}to {self.uri}"


@dataclass(frozen=True)
class Do:
    """The step that runs task number `task` on `uri`."""

    task: int
    uri: str

    def __str__(self) -> str:
        return f"task {self.task} on {self.uri}"


@dataclass(frozen=True)
class Steps:
    """All steps of a graph, and the memory that they share on each device."""

    steps: tuple[Bring | Do, ...]
    memory: Mapping[str, PackedMemory]
    offsets: Mapping[Key, int]
    """Offsets of values in that memory, in bytes. A value without an entry has memory of
    its own."""
    values: Mapping[int, Value]

    @property
    def moves(self) -> tuple[Bring, ...]:
        """The steps that move a result from device to device."""
        return tuple(s for s in self.steps if isinstance(s, Bring) and s.source)


def steps(
    tasks: Sequence[Task], order: Sequence[Do], outputs: frozenset[int], ahead: bool = False
) -> Steps:
    """Returns the steps (bring an operand to a device, do a task) for the tasks in this `order`.

    Outputs of the graph and results of reductions have memory of their own. `ahead`
    says that an operand may be copied to a device while the previous task there runs.
    """
    ordered: list[Bring | Do] = []
    home: dict[int, str] = {}
    there: set[Key] = set()
    for do in order:
        for value in tasks[do.task].brought:
            if (value.number, do.uri) not in there:
                there.add((value.number, do.uri))
                ordered.append(Bring(value, do.uri, home.get(value.number, "")))
        ordered.append(do)
        out = tasks[do.task].out
        home[out.number] = do.uri
        there.add((out.number, do.uri))
    values = {v.number: v for task in tasks for v in (*task.arrays, task.out)}
    return _with_memory(tasks, tuple(ordered), outputs, values, ahead)


def _with_memory(
    tasks: Sequence[Task],
    ordered: tuple[Bring | Do, ...],
    outputs: frozenset[int],
    values: Mapping[int, Value],
    ahead: bool,
) -> Steps:
    begin: dict[Key, int] = {}
    end: dict[Key, int] = {}
    makes: dict[Key, Bring | Do] = {}
    doing: dict[str, int] = {}  # the last task of each device so far, by URI
    for at, step in enumerate(ordered):
        if isinstance(step, Bring):
            if step.source:
                end[step.value.number, step.source] = at
            if step.source or step.value.kind == "numpy" or _elsewhere(step):
                key = step.value.number, step.uri
                begin[key] = doing.get(step.uri, at) if ahead else at
                makes[key] = step
        else:
            doing[step.uri] = at
            task = tasks[step.task]
            # A task's weights count as read even if a fold replaces them. They may lie in memory
            # that the results of several tasks use one after another.
            for value in task.reads.values():
                end[value.number, step.uri] = at
            if task.out.number not in outputs and not operation_of(task).reduces:
                begin[task.out.number, step.uri] = at
                makes[task.out.number, step.uri] = step
    end = {key: max(end.get(key, at), at) for key, at in begin.items()}
    memory: dict[str, PackedMemory] = {}
    offsets: dict[Key, int] = {}
    for uri in dict.fromkeys(step.uri for step in ordered):
        keys = [key for key in begin if key[1] == uri]
        index = {key: i for i, key in enumerate(keys)}
        items = []
        for key in keys:
            over = _over(tasks, makes[key], begin, end)
            items.append(
                Item(
                    values[key[0]].nbytes,
                    begin[key],
                    end[key],
                    None if over is None else index[over],
                )
            )
        memory[uri] = pack(items)
        offsets.update(zip(keys, memory[uri].offsets, strict=True))
    return Steps(ordered, memory, offsets, values)


def _elsewhere(step: Bring) -> bool:
    """Returns whether the step copies a core.Array of another device."""
    return step.value.kind not in ("numpy", "constant", "context", step.uri)


def _over(
    tasks: Sequence[Task], step: Bring | Do, begin: Mapping[Key, int], end: Mapping[Key, int]
) -> Key | None:
    """Returns the key of an operand of a map that the result may overwrite, because the map is the
    operand's last reader. Returns None if there is no such operand.
    """
    if isinstance(step, Bring) or not operation_of(tasks[step.task]).elementwise:
        return None
    out = tasks[step.task].out
    now = begin.get((out.number, step.uri))
    for value in tasks[step.task].reads.values():
        key = value.number, step.uri
        alike = value.shape == out.shape and value.dtype == out.dtype and value.nbytes > 0
        if alike and key in begin and end[key] == now:
            return key
    return None
