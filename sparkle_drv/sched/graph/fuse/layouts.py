"""Changes of layout in a graph: finds which cancel, and which vanish if other work changes its
layout. All functions are pure.

`cancelled` removes a change that undoes an earlier one. Convolutions work in two layouts, maps in
any. `relaid` moves connected convolutions and maps to the other layout if fewer bytes then change
their layout. Such tasks stand between two changes of layout, or have results that are smaller than
their operands. Whether the move saves time depends on the devices: place/plans.py compares both
versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparkle_drv.sched.model.task import Task, Value, needed
from sparkle_drv.sched.operations.table import change_task, is_change, operation_of

OTHER = {"NCHW": "NHWC", "NHWC": "NCHW"}
"""The layouts that convolutions work in, each with the other one."""
_TURN = {"NCHW": (0, 3, 1, 2), "NHWC": (0, 2, 3, 1)}
"""For each target layout, the axes of the other layout in the order of the target's axes."""


def cancelled(tasks: Sequence[Task], outputs: frozenset[int]) -> list[Task]:
    """Returns `tasks` without changes of layout that only undo an earlier one."""
    changes: dict[int, Task] = {}
    same: dict[int, Value] = {}
    left = []
    for task in tasks:
        task = _reading(task, same)
        before = changes.get(task.reads["a"].number) if is_change(task) else None
        if before is not None and task.out.number not in outputs and _back(before, task):
            same[task.out.number] = before.reads["a"]
            continue
        if is_change(task):
            changes[task.out.number] = task
        left.append(task)
    return needed(left, outputs)


def _back(before: Task, task: Task) -> bool:
    """Returns whether `task` restores the operand of `before` to the last byte."""
    x, first, second = before.reads["a"], before.options, task.options
    ways = (first["source"], first["target"]) == (second["target"], second["source"])
    padded = len(x.shape) == 5 and first["channels"] not in (None, x.shape[1] * x.shape[4])
    return ways and x.shape == task.out.shape and not padded


def _reading(task: Task, same: dict[int, Value]) -> Task:
    reads = {name: same.get(value.number, value) for name, value in task.reads.items()}
    return replace(task, reads=reads) if reads != task.reads else task


def relaid(tasks: Sequence[Task], outputs: frozenset[int], free: int) -> list[Task] | None:
    """Returns a version of `tasks` whose changes of layout move fewer bytes. Returns None if
    there is no such version. New values get numbers from `free` on.
    """
    now = list(tasks)
    while True:
        for part in _parts(now):
            made = needed(_flipped(now, part, outputs, free), outputs)
            if changed_nbytes(made) < changed_nbytes(now):
                now = made
                free = max(free, *(1 + task.out.number for task in made))
                break
        else:
            return now if now != list(tasks) else None


def changed_nbytes(tasks: Sequence[Task]) -> int:
    """Returns the bytes that changes of layout read and write."""
    return sum(t.reads["a"].nbytes + t.out.nbytes for t in tasks if is_change(t))


def _images(task: Task) -> dict[str, Value]:
    return operation_of(task).images(task)


def _parts(tasks: Sequence[Task]) -> Iterator[frozenset[int]]:
    """Yields connected groups of tasks in one layout: tasks that read or make the same images, the
    arrays with a layout.
    """
    group: dict[int, set[int]] = {}
    by_value: dict[int, int] = {}
    for i, task in enumerate(tasks):
        images = _images(task)
        if not images:
            continue
        group[i] = {i}
        for value in (*images.values(), task.out):
            other = by_value.setdefault(value.number, i)
            if tasks[other].out.layout == task.out.layout and group[other] is not group[i]:
                group[other] |= group[i]
                for member in group[i]:
                    group[member] = group[other]
    seen: set[int] = set()
    for i, members in group.items():
        if i not in seen:
            seen |= members
            yield frozenset(members)


def _flipped(
    tasks: Sequence[Task], part: frozenset[int], outputs: frozenset[int], free: int
) -> list[Task]:
    """Returns `tasks` with those of `part` in the other layout.

    Changes of layout are added at the borders of `part`, except where a task of `tasks` makes that
    change already.
    """
    here = str(tasks[min(part)].out.layout)
    there = OTHER[here]
    makers = {task.out.number: task for task in tasks if is_change(task, there, here)}
    leaving = _leaving(tasks, part, here)
    inside = {tasks[i].out.number for i in part}
    turned: dict[int, Value] = {}
    flipped: list[Task] = []

    def turn(value: Value) -> Value:
        nonlocal free
        free += 1
        shape = tuple(value.shape[axis] for axis in _TURN[there])
        return replace(value, number=free - 1, shape=shape, layout=there, kind="made")

    for i, task in enumerate(tasks):
        if any(task is one for one in leaving.values()):
            continue
        if i not in part:
            flipped.append(task)
            continue
        words = task.made_of
        for value in _images(task).values():
            maker = makers.get(value.number)
            if value.number in inside:
                continue
            if maker is not None:
                turned[value.number] = maker.reads["a"]
                words = (*maker.made_of, *words)
            elif value.number not in turned:
                turned[value.number] = turn(value)
                flipped.append(change_task(value, turned[value.number], here, there))
        out, end = task.out, leaving.get(task.out.number)
        turned[out.number] = turn(out) if end is None else end.out
        words = words if end is None else (*words, *end.made_of)
        reads = {**task.reads, **{n: turned[v.number] for n, v in _images(task).items()}}
        options = operation_of(task).in_layout(task, there)
        flipped.append(
            replace(task, reads=reads, out=turned[out.number], options=options, made_of=words)
        )
        flipped.append(change_task(turned[out.number], out, there, here))
    return flipped


def _leaving(tasks: Sequence[Task], part: frozenset[int], here: str) -> dict[int, Task]:
    """Returns the tasks that change a result of `part` from layout `here` to the other layout.

    `part` holds the indices of tasks that work in layout `here`. The keys of the dict are the
    numbers of the results. Of several such tasks for one result, the dict has the first.
    """
    inside = {tasks[i].out.number for i in part}
    leaving: dict[int, Task] = {}
    for task in tasks:
        if is_change(task, here, OTHER[here]) and task.reads["a"].number in inside:
            leaving.setdefault(task.reads["a"].number, task)
    return leaving
