"""A task graph as a scheduling problem, and a schedule with its length: plain data.

Model: a device does one task at a time, in the order of the schedule. Devices that share a
resource (cpu and llvmpipe) count as one device for that. Moving a result takes the time of the
link and occupies no device. A task waits for all results that it reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

ROUNDS = 100
"""Iterations that adjust the prices for the lower bound."""


@dataclass(frozen=True)
class Problem:
    """What is to be placed. Tasks are 0, 1, ...; each comes after the tasks that it reads."""

    seconds: tuple[tuple[float, ...], ...]
    """[task][device]; inf where the device cannot do it. Includes operands from outside."""
    reads: tuple[tuple[int, ...], ...]
    """[task]: the earlier tasks whose results it reads."""
    moves: Mapping[tuple[int, int, int], float]
    """(task, from device, to device): seconds to move its result; a missing entry means 0."""
    lanes: tuple[int, ...]
    """[device]: the resource that it uses; devices of one lane do not run at the same time."""

    def __post_init__(self) -> None:
        for task, sources in enumerate(self.reads):
            if any(not 0 <= source < task for source in sources):
                raise ValueError(f"task {task}: expected to read earlier tasks, got {sources}")
        if any(min(row, default=float("inf")) == float("inf") for row in self.seconds):
            raise ValueError("expected a device for each task, got a task that no device can do")

    @property
    def devices(self) -> range:
        """The numbers of the devices."""
        return range(len(self.lanes))

    def move(self, task: int, source: int, to: int) -> float:
        """Seconds to bring the result of `task` from one device to another."""
        return 0.0 if source == to else self.moves.get((task, source, to), 0.0)

    @cached_property
    def table(self) -> list[list[list[float]]]:
        """[task][from device][to device]: seconds, as `move` gives them."""
        return [
            [[self.move(task, a, b) for b in self.devices] for a in self.devices]
            for task in range(len(self.reads))
        ]

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """[task]: the tasks that read its result."""
        found: list[list[int]] = [[] for _ in self.reads]
        for task, sources in enumerate(self.reads):
            for source in dict.fromkeys(sources):
                found[source].append(task)
        return tuple(tuple(tasks) for tasks in found)

    @cached_property
    def tails(self) -> tuple[float, ...]:
        """[task]: a lower bound of the seconds from its beginning to the end of the graph: the
        longest path at fastest times, without moves.
        """
        tails = [0.0] * len(self.reads)
        for task in reversed(range(len(self.reads))):
            after = max((tails[reader] for reader in self.readers[task]), default=0.0)
            tails[task] = min(self.seconds[task]) + after
        return tuple(tails)

    @cached_property
    def after(self) -> tuple[float, ...]:
        """[task]: a lower bound of the seconds from its end to the end of the graph, as `tails`."""
        return tuple(
            max((self.tails[reader] for reader in readers), default=0.0) for readers in self.readers
        )

    @cached_property
    def priced(self) -> tuple[float, dict[int, float]]:
        """The result of the function `priced`, computed once."""
        return priced(self)

    def ready(self, task: int, device: int, done: Mapping[int, Slot]) -> float:
        """Seconds at which all results that the task reads are on the device, by `done`."""
        return max(
            (done[s].end + self.move(s, done[s].device, device) for s in self.reads[task]),
            default=0.0,
        )


@dataclass(frozen=True)
class Slot:
    """One task in a schedule."""

    task: int
    device: int
    start: float
    end: float


@dataclass(frozen=True)
class Schedule:
    """Which device does which task when, by start; `by` names the method that found it."""

    slots: tuple[Slot, ...]
    by: str = ""

    @classmethod
    def of(cls, slots: Iterable[Slot], by: str) -> Schedule:
        """A schedule of these slots, sorted by start."""
        return cls(tuple(sorted(slots, key=lambda slot: (slot.start, slot.task))), by)

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max((slot.end for slot in self.slots), default=0.0)

    def device_of(self) -> dict[int, int]:
        """The device of each task."""
        return {slot.task: slot.device for slot in self.slots}


def timed(problem: Problem, order: Sequence[int], device: Sequence[int], by: str = "") -> Schedule:
    """The schedule in which each task begins as early as it can and lanes serve tasks in `order`.

    `order` puts each task after the tasks that it reads; `device[task]` does it.
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
        slots.append(Slot(task, where, start, end[task]))
    return Schedule.of(slots, by)


def bound(problem: Problem) -> float:
    """A lower bound of the seconds of any schedule: the longest path through the graph at fastest
    times, or all work spread over the lanes as if tasks could be cut (`priced`).
    """
    return max(max(problem.tails, default=0.0), problem.priced[0])


def priced(problem: Problem) -> tuple[float, dict[int, float]]:
    """(least seconds of all work if tasks could be cut, the price of each lane).

    The seconds approximate the optimum of a linear program from below. Any prices of the lanes that
    add up to 1 give a lower bound, at which each task pays its cheapest device (LP duality). ROUNDS
    iterations raise the price of the busiest lanes and lower the others. A lane's price is the
    value of a second there.
    """
    lanes = sorted(set(problem.lanes))
    prices = dict.fromkeys(lanes, 1 / max(1, len(lanes)))
    best, found = 0.0, prices
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
            best, found = paid, prices
        most = max(load.values(), default=0.0)
        if most == 0:
            break
        step = 1 / (1 + 0.25 * i)
        raised = {lane: prices[lane] * math.exp(step * load[lane] / most) for lane in lanes}
        total = sum(raised.values())
        prices = {lane: price / total for lane, price in raised.items()}
    return best, found
