"""A task graph as the placer sees it, and what a placement of it amounts to: plain data.

Model: a device does one task at a time, in the order that a schedule gives; devices that share a
resource (cpu and llvmpipe) count as one of them for that. Moving a result takes the link's time and
nobody's; tasks wait for all that they read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

ROUNDS = 100
"""Of adjusting prices for the lower bound."""


@dataclass(frozen=True)
class Problem:
    """What is to be placed. Tasks are 0, 1, ... in an order in which each follows what it reads."""

    seconds: tuple[tuple[float, ...], ...]
    """[task][device]; inf where it cannot be done. Operands that come from outside are in it."""
    reads: tuple[tuple[int, ...], ...]
    """[task]: the earlier tasks whose results it reads."""
    moves: Mapping[tuple[int, int, int], float]
    """(task, from device, to device): seconds to move its result; 0 where nothing is said."""
    lanes: tuple[int, ...]
    """[device]: the resource that it takes; devices of one lane do not run at the same time."""

    def __post_init__(self) -> None:
        for task, sources in enumerate(self.reads):
            if any(not 0 <= source < task for source in sources):
                raise ValueError(f"task {task}: it reads {sources}, only earlier tasks can be read")
        if any(min(row, default=float("inf")) == float("inf") for row in self.seconds):
            raise ValueError("a task can be done on no device")

    @property
    def devices(self) -> range:
        """The devices."""
        return range(len(self.lanes))

    def move(self, task: int, source: int, to: int) -> float:
        """Seconds to bring the result of `task` from one device to another."""
        return 0.0 if source == to else self.moves.get((task, source, to), 0.0)

    @cached_property
    def table(self) -> list[list[list[float]]]:
        """[task][from device][to device]: `move` of all."""
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
        """[task]: seconds from its beginning to the end of all, at least: the longest way of
        fastest times, moves apart.
        """
        tails = [0.0] * len(self.reads)
        for task in reversed(range(len(self.reads))):
            after = max((tails[reader] for reader in self.readers[task]), default=0.0)
            tails[task] = min(self.seconds[task]) + after
        return tuple(tails)

    @cached_property
    def after(self) -> tuple[float, ...]:
        """[task]: seconds from its end to the end of all, at least, as `tails`."""
        return tuple(
            max((self.tails[reader] for reader in readers), default=0.0) for readers in self.readers
        )

    @cached_property
    def priced(self) -> tuple[float, dict[int, float]]:
        """What `priced` says of it."""
        return priced(self)

    def ready(self, task: int, device: int, done: Mapping[int, Slot]) -> float:
        """When all that the task reads is on a device, by the slots of what was done."""
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
    """Who does what when, in order of starting; `by` names the method that found it."""

    slots: tuple[Slot, ...]
    by: str = ""

    @classmethod
    def of(cls, slots: Iterable[Slot], by: str) -> Schedule:
        """In order of starting, whatever the order given."""
        return cls(tuple(sorted(slots, key=lambda slot: (slot.start, slot.task))), by)

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return max((slot.end for slot in self.slots), default=0.0)

    def device_of(self) -> dict[int, int]:
        """By task, its device."""
        return {slot.task: slot.device for slot in self.slots}


def timed(problem: Problem, order: Sequence[int], device: Sequence[int], by: str = "") -> Schedule:
    """The schedule in which tasks begin as early as they can, lanes taking them in `order`.

    In that order each task follows what it reads; `device[task]` does it.
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
    """Seconds that no schedule undercuts: the longest way through the graph at fastest times, and
    all work spread over the lanes as if tasks could be cut (`priced`).
    """
    return max(max(problem.tails, default=0.0), problem.priced[0])


def priced(problem: Problem) -> tuple[float, dict[int, float]]:
    """(seconds that all work takes at least if tasks may be cut, the price of each lane).

    The former is the optimum of a linear program. Any prices of the lanes that add up to 1 bound it
    from below: each task pays its cheapest device (LP duality). The prices are raised where there
    is most work and lowered elsewhere, ROUNDS times. A lane's price says what a second there is
    worth.
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
