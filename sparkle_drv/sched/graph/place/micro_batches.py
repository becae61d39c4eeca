"""Cuts a graph into micro-batches: which tasks can be cut along axis 0, and the tasks of each part
of the batch. All functions are pure.

The operations that lead to an output decide which arrays are cut. A product cuts the rows of its
left operand, a convolution its images, an expression the operands that are not broadcast. All other
arrays stay whole, and every micro-batch reads the same ones: weights, biases, and their operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.operations.table import operation_of


@dataclass(frozen=True)
class Batch:
    """Tasks that can be done in micro-batches."""

    tasks: Sequence[Task]
    extent: int
    """Length of axis 0 of all arrays that are cut."""
    cut: frozenset[int]
    """Numbers of the arrays that are cut, the graph's inputs and outputs among them."""

    def sized(self, rows: int) -> list[Task]:
        """Returns the tasks of one micro-batch of `rows` rows, to predict its cost. Each
        Value keeps its `number`.
        """
        return [self._task(task, {}, (0, rows)) for task in self.tasks]

    def parts(self, count: int) -> tuple[list[Task], list[int]]:
        """Returns the tasks of `count` micro-batches. Returns also, for each task, the index of the
        task in `self.tasks` that it is made from.

        First come the tasks that stay whole. Then each micro-batch in turn has a part of every task
        that is cut.
        """
        values = [v for t in self.tasks for v in (*t.arrays, t.out)]
        free = 1 + max(value.number for value in values)
        numbered = [(t, i) for i, t in enumerate(self.tasks) if t.out.number not in self.cut]
        for begin, end in ranges(self.extent, count):
            numbers = {n: free + i for i, n in enumerate(sorted(self.cut))}
            free += len(numbers)
            numbered += [
                (self._task(t, numbers, (begin, end)), i)
                for i, t in enumerate(self.tasks)
                if t.out.number in self.cut
            ]
        tasks, layers = zip(*numbered, strict=True)
        return list(tasks), list(layers)

    def _task(self, task: Task, numbers: dict[int, int], rows: tuple[int, int]) -> Task:
        """Returns the task for rows [begin, end) of the arrays that are cut. `numbers` maps
        the `Value.number` of such an array to the number of its part.
        """

        def part(value: Value) -> Value:
            if value.number not in self.cut:
                return value
            # If the array is a constant, its part counts as a numpy array: each run copies the
            # part's rows from the host.
            kind = "numpy" if value.constant else value.kind
            number = numbers.get(value.number, value.number)
            shape = (rows[1] - rows[0], *value.shape[1:])
            return replace(value, number=number, shape=shape, kind=kind, part=(value.number, *rows))

        reads = {name: part(value) for name, value in task.reads.items()}
        return replace(task, reads=reads, out=part(task.out))


def ranges(extent: int, count: int) -> list[tuple[int, int]]:
    """Returns [begin, end) of each micro-batch. Sizes differ by at most one row, the larger ones
    first.
    """
    small, more = divmod(extent, count)
    ends = [i * small + min(i, more) for i in range(count + 1)]
    return list(pairwise(ends))


def rows(extent: int, count: int) -> dict[int, int]:
    """Returns the number of micro-batches by their number of rows. The larger number of rows comes
    first.
    """
    return dict(Counter(end - begin for begin, end in ranges(extent, count)))


def batch(tasks: Sequence[Task], outputs: Iterable[int]) -> Batch:
    """Returns how these tasks, in topological order, can be cut along axis 0 of all outputs.

    Raises ValueError, with the task and the reason, if they cannot.
    """
    cut, whole = set(outputs), dict[int, str]()
    values = {v.number: v for task in tasks for v in (*task.arrays, task.out)}
    for i, task in reversed(list(enumerate(tasks))):
        number, name = task.out.number, f"task {i} ({' + '.join(task.made_of)})"
        if number in cut:
            if number in whole:
                raise _refused(whole[number])
            along = _along(task, name)
            cut |= {task.reads[operand].number for operand in along}
            for operand, value in task.reads.items():
                if operand not in along:
                    whole.setdefault(value.number, f"{name}: every part reads all of {operand}")
            rest = tuple(task.fold.reads.values()) if task.fold else ()
            why = f"{name}: every part reads all of its scale and shift"
        else:
            rest, why = task.arrays, whole.get(number, name)
        for value in rest:
            whole.setdefault(value.number, why)
    for number in cut & whole.keys():
        raise _refused(whole[number])
    extents = {n: values[n].shape[0] for n in cut}
    if len(set(extents.values())) > 1:
        named = ", ".join(f"{list(values[n].shape)}" for n in sorted(extents))
        raise ValueError(f"micro_batches: expected the same axis 0 of all arrays, got {named}")
    return Batch(tasks, next(iter(extents.values())), frozenset(cut))


def _refused(why: str) -> ValueError:
    return ValueError(f"micro_batches: {why}, which depends on the batch")


def _along(task: Task, name: str) -> list[str]:
    """Returns the names of the operands whose axis 0 is that of the result.

    Raises ValueError if the result has no axis 0, or if the task reduces axis 0 of its operand.
    """
    along = operation_of(task).along(task)
    if isinstance(along, str):
        raise ValueError(f"micro_batches: {name}: {along}")
    return along
