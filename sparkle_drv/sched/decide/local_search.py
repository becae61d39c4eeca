"""Shortens a schedule by small changes until none helps. All functions are pure.

The search tries changes one after another and makes the first that helps. It recomputes a schedule
only from the first task that the change moves, and stops once the change cannot help. This
evaluation is most of the cost of placing a large graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from .dag import Problem, TaskSchedule, TaskSlot, timed

NEAR = 6
"""Two tasks may swap devices if their places in the order differ by at most this much."""
TRIES = 60_000
"""Most tasks that the search evaluates for one schedule. A change counts as all tasks of
the graph."""
HELPS = 1 - 1e-9
"""A change must bring the seconds below this factor of those before."""
_SURE = 1 - 1e-12
"""Safety factor of a lower bound. The bound is summed in another order than the time that it
bounds, so the two may round differently."""


def improved(problem: Problem, schedule: TaskSchedule, goal: float) -> TaskSchedule:
    """Moves single tasks to other devices or earlier in the order, for as long as that helps.

    The search stops when the schedule takes at most `goal` seconds.
    """
    best = schedule
    by = schedule.by if schedule.by.endswith(", improved") else f"{schedule.by}, improved"
    left = TRIES // len(problem.reads)
    helped = True
    while helped and best.seconds > goal and left > 0:
        helped = False
        trial = _Trial(problem, best)
        for change in islice(_changes(problem, best), left):
            left -= 1
            if trial.helps(change):
                best, helped = timed(problem, change.order, change.device, by), True
                break
    return best


@dataclass(frozen=True)
class _Change:
    """A changed schedule: the order of the tasks, and the device of each task. Nothing changes for
    the tasks before position `first`.
    """

    order: Sequence[int]
    device: Sequence[int]
    first: int


class _Trial:
    """Evaluates changes of one schedule, with the same arithmetic as dag.timed."""

    def __init__(self, problem: Problem, schedule: TaskSchedule) -> None:
        self.problem = problem
        self.limit = schedule.seconds * HELPS
        self.states: list[tuple[list[float], list[float], float]] = []
        """(when lanes are free, when tasks end, the latest end) before each task of the order."""
        free = [0.0] * (max(problem.lanes, default=-1) + 1)
        end, last = [0.0] * len(problem.reads), 0.0
        for slot in schedule.slots:
            self.states.append((free.copy(), end.copy(), last))
            free[problem.lanes[slot.device]] = end[slot.task] = slot.end
            last = max(last, slot.end)

    def helps(self, change: _Change) -> bool:
        """Returns whether the change shortens the schedule by more than rounding."""
        problem, device, limit = self.problem, change.device, self.limit
        lanes, seconds, reads = problem.lanes, problem.seconds, problem.reads
        table, after = problem.table, problem.after
        free, end, last = self.states[change.first]
        free, end = free.copy(), end.copy()
        for task in change.order[change.first :]:
            where = device[task]
            lane = lanes[where]
            start = free[lane]
            for source in reads[task]:
                came = end[source] + table[source][device[source]][where]
                if came > start:
                    start = came
            done = start + seconds[task][where]
            if (done + after[task]) * _SURE >= limit:
                return False
            end[task] = free[lane] = done
            if done > last:
                last = done
        return last < limit


def _changes(problem: Problem, schedule: TaskSchedule) -> Iterator[_Change]:
    """Yields changes of each task of the critical chain, the last task first. A change is another
    device, an earlier position, or a swap of devices with a task near in the order.
    """
    order = [slot.task for slot in schedule.slots]
    device = [0] * len(order)
    for slot in schedule.slots:
        device[slot.task] = slot.device
    at = {task: i for i, task in enumerate(order)}

    def elsewhere(*changes: tuple[int, int]) -> _Change:
        changed = device.copy()
        for task, to in changes:
            changed[task] = to
        return _Change(order, changed, min(at[task] for task, _ in changes))

    for task in _chain(problem, schedule):
        here, mine = at[task], device[task]
        for to in problem.devices:
            if to != mine:
                yield elsewhere((task, to))
        first = 1 + max((at[source] for source in problem.reads[task]), default=-1)
        for spot in sorted({first, here - 1}):
            if first <= spot < here:
                moved = [*order[:spot], task, *order[spot:here], *order[here + 1 :]]
                yield _Change(moved, device, spot)
        for other in order[max(0, here - NEAR) : here + NEAR + 1]:
            if device[other] != mine:
                yield elsewhere((task, device[other]), (other, mine))


def _chain(problem: Problem, schedule: TaskSchedule) -> list[int]:
    """Returns the critical chain, last task first: the tasks that determine the end of the
    schedule.
    """
    slots = {slot.task: slot for slot in schedule.slots}
    before: dict[int, TaskSlot] = {}
    last: dict[int, TaskSlot] = {}
    for slot in schedule.slots:
        lane = problem.lanes[slot.device]
        if lane in last:
            before[slot.task] = last[lane]
        last[lane] = slot
    slot = max(schedule.slots, key=lambda s: s.end)
    chain = [slot.task]
    while True:
        owners = [
            slots[s]
            for s in problem.reads[slot.task]
            if slots[s].end + problem.move(s, slots[s].device, slot.device) >= slot.start - 1e-15
        ]
        previous = before.get(slot.task)
        if previous is not None and previous.end >= slot.start - 1e-15:
            owners.append(previous)
        if not owners:
            return chain
        slot = max(owners, key=lambda s: (s.end, s.task))
        chain.append(slot.task)
