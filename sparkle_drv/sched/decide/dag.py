"""A task graph as a scheduling problem, and a schedule with its length: plain data.

The model: a device does one task at a time, in the order of the schedule. Of devices that share a
resource (cpu and llvmpipe), only one does a task at a time. A move of a result takes the time of
the link and occupies no device. A task waits for all results that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

ROUNDS = 100
"""Iterations that adjust the shadow prices of lanes for the lower bound (`relaxed_bound`)."""


@dataclass(frozen=True)
class Problem:
    """A scheduling problem. The tasks are 0, 1, ...; each comes after the tasks that it reads."""

    seconds: tuple[tuple[float, ...], ...]
    """Seconds as a table [task][device], with the transfer of operands from outside the graph. A
    value is inf where the device cannot do the task."""
    reads: tuple[tuple[int, ...], ...]
    """For each task, the earlier tasks whose results it reads."""
    moves: Mapping[tuple[int, int, int], float]
    """Seconds to move the result of a task, by (task, from device, to device). A missing entry
    means 0."""
    lanes: tuple[int, ...]
    """For each device, the number of the resource (lane) that it uses. Devices of one lane do not
    run at the same time."""

    def __post_init__(self) -> None:
        for task, sources in enumerate(self.reads):
            if any(not 0 <= source < task for source in sources):
                raise ValueError(f"task {task}: expected to read earlier tasks, got {sources}")
        if any(min(row, default=float("inf")) == float("inf") for row in self.seconds):
            raise ValueError("expected a device for each task, got a task that no device can do")

    @property
    def devices(self) -> range:
        """The device numbers 0, 1, ... of the problem."""
        return range(len(self.lanes))

    def move(self, task: int, source: int, to: int) -> float:
        """Returns the seconds to bring the result of `task` from one device to another."""
        return 0.0 if source == to else self.moves.get((task, source, to), 0.0)

    @cached_property
    def table(self) -> list[list[list[float]]]:
        """The seconds that `move` returns, as a table [task][from device][to device]."""
        return [
            [[self.move(task, a, b) for b in self.devices] for a in self.devices]
            for task in range(len(self.reads))
        ]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For each task, the tasks that read its result."""
        by_task: list[list[int]] = [[] for _ in self.reads]
        for task, sources in enumerate(self.reads):
            for source in dict.fromkeys(sources):
                by_task[source].append(task)
        return tuple(tuple(tasks) for tasks in by_task)

    @cached_property
    def tails(self) -> tuple[float, ...]:
        """For each task, a lower bound of the seconds from its beginning to the end of the graph.
        The bound is the longest path, with each task on its fastest device and without moves.
        """
        tails = [0.0] * len(self.reads)
        for task in reversed(range(len(self.reads))):
            after = max((tails[reader] for reader in self.readers[task]), default=0.0)
            tails[task] = min(self.seconds[task]) + after
        return tuple(tails)

    @cached_property
    def after(self) -> tuple[float, ...]:
        """For each task, a lower bound of the seconds from its end to the end of the graph. It is
        the longest of the `tails` of the tasks that read the result.
        """
        return tuple(
            max((self.tails[reader] for reader in readers), default=0.0) for readers in self.readers
        )

    @cached_property
    def relaxed_bound(self) -> tuple[float, dict[int, float]]:
        """What the function `relaxed_bound` returns for this problem, computed once: a lower bound
        of the seconds, and the shadow price of a second on each lane.
        """
        return relaxed_bound(self)

    def ready(self, task: int, device: int, done: Mapping[int, TaskSlot]) -> float:
        """Returns the time in seconds at which all results that `task` reads are on `device`.
        `done` holds the slots of the finished tasks.
        """
        return max(
            (done[s].end + self.move(s, done[s].device, device) for s in self.reads[task]),
            default=0.0,
        )


@dataclass(frozen=True)
class TaskSlot:
    """One task in a schedule: its device, and its start and end in seconds."""

    task: int
    device: int
    start: float
    end: float


@dataclass(frozen=True)
class TaskSchedule:
    """The slot of each task, sorted by start. `by` names the method that found the schedule."""

    slots: tuple[TaskSlot, ...]
    by: str = ""

    @classmethod
    def of(cls, slots: Iterable[TaskSlot], by: str) -> TaskSchedule:
        """Returns a schedule of these slots, sorted by start."""
        return cls(tuple(sorted(slots, key=lambda slot: (slot.start, slot.task))), by)

    @property
    def seconds(self) -> float:
        """The end of the last task, in seconds. The schedule begins at 0."""
        return max((slot.end for slot in self.slots), default=0.0)

    def device_of(self) -> dict[int, int]:
        """Returns the device of each task."""
        return {slot.task: slot.device for slot in self.slots}


def timed(
    problem: Problem, order: Sequence[int], device: Sequence[int], by: str = ""
) -> TaskSchedule:
    """Returns the schedule in which each task begins as early as possible, if each lane does its
    tasks in `order`.

    `order` puts each task after the tasks that it reads. `device[task]` is the device that does the
    task. Devices that share a resource form one lane (Problem.lanes).
    """
    free = [0.0] * (max(problem.lanes, default=-1) + 1)
    end = [0.0] * len(problem.reads)
    slots = []
    for task in order:
        where = device[task]
        ready = max(
            (end[s] + problem.move(s, device[s], where) for s in problem.reads[task]), default=0.0
        )
        lane = problem.lanes[where]
        start = max(ready, free[lane])
        end[task] = free[lane] = start + problem.seconds[task][where]
        slots.append(TaskSlot(task, where, start, end[task]))
    return TaskSchedule.of(slots, by)


def bound(problem: Problem) -> float:
    """Returns a lower bound of the seconds of any schedule.

    The bound is the larger of two. One is the longest path through the graph, with each task on its
    fastest device. The other spreads all work over the lanes as if tasks could be cut
    (`relaxed_bound`).
    """
    return max(max(problem.tails, default=0.0), problem.relaxed_bound[0])


def relaxed_bound(problem: Problem) -> tuple[float, dict[int, float]]:
    """Returns a lower bound of the seconds of all tasks if tasks could be cut, and the shadow price
    of each lane.

    The shadow price of a lane is what a second on it costs. The prices of all lanes add up to 1.
    Each task pays for its seconds on the device where it costs least. The sum of these payments is
    a lower bound (LP duality). ROUNDS iterations raise the prices of the busiest lanes and lower
    the others, so that the bound approaches the optimum of a linear program from below.
    """
    lanes = sorted(set(problem.lanes))
    prices = dict.fromkeys(lanes, 1 / max(1, len(lanes)))
    best, least_s = 0.0, prices
    for i in range(ROUNDS):
        load = dict.fromkeys(lanes, 0.0)
        paid = 0.0
        each = [prices[lane] for lane in problem.lanes]
        for row in problem.seconds:
            costs = [price * seconds for price, seconds in zip(each, row, strict=True)]
            cost = min(costs)
            device = costs.index(cost)
            load[problem.lanes[device]] += row[device]
            paid += cost
        if paid > best:
            best, least_s = paid, prices
        most = max(load.values(), default=0.0)
        if most == 0:
            break
        step = 1 / (1 + 0.25 * i)
        raised = {lane: prices[lane] * math.exp(step * load[lane] / most) for lane in lanes}
        total = sum(raised.values())
        prices = {lane: price / total for lane, price in raised.items()}
    return best, least_s
