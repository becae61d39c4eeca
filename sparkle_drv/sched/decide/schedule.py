"""Places a task graph: the best of a few list schedules, improved by moving single tasks
(local_search.py). All functions are pure.

HEFT takes tasks by rank and puts each where it ends first, in a gap if there is one. Source: H.
Topcuoglu, S. Hariri, M.-Y. Wu: Performance-Effective and Low-Complexity Task Scheduling for
Heterogeneous Computing, IEEE TPDS 13(3), 2002. HEFT alone can take 2.17 times the optimum.
benchmarks/placing.py measures what each other method adds. Each device alone is a candidate, too:
the result is never slower than all tasks on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .dag import Problem, TaskSchedule, TaskSlot, bound, timed
from .local_search import improved

WEIGHT = 8.0
"""Weight of the lanes' shadow prices in "HEFT at prices"."""
ENOUGH = 1.001
"""A schedule within this factor of the lower bound is not improved further."""
STARTS = 3
"""Number of schedules, from the best on, that the local search improves."""


def place(problem: Problem) -> TaskSchedule:
    """Returns the best schedule found."""
    if not problem.reads:
        return TaskSchedule((), "empty")
    found = [schedule for method in METHODS.values() for schedule in method(problem)]
    found.sort(key=lambda schedule: schedule.seconds)
    best, least = found[0], bound(problem)
    for start in found[:STARTS]:
        if best.seconds > least * ENOUGH:
            made = improved(problem, start, least * ENOUGH)
            best = min(best, made, key=lambda schedule: schedule.seconds)
    return best


def ranks(problem: Problem) -> list[float]:
    """Returns HEFT's upward rank of each task: its mean seconds plus the longest mean path after
    it.
    """
    count = len(problem.devices)
    pairs = [(a, b) for a in problem.devices for b in problem.devices if a != b]
    ranked = [0.0] * len(problem.reads)
    for task in reversed(range(len(problem.reads))):
        moves = sum(problem.move(task, a, b) for a, b in pairs) / (count * count)
        after = max((ranked[reader] + moves for reader in problem.readers[task]), default=0.0)
        able = [s for s in problem.seconds[task] if s < float("inf")]
        ranked[task] = sum(able) / len(able) + after
    return ranked


def heft(problem: Problem, weight: float = 0.0) -> TaskSchedule:
    """Schedules tasks by falling rank, each on the device where it ends first.

    With `weight`, the choice of a task's device also counts the shadow price of the task's seconds
    there (dag.relaxed_bound). A second on a busy lane has a higher price. So a task that runs
    hardly faster on one device leaves that device to tasks that need it.
    """
    prices = problem.relaxed_bound[1]
    count = len(prices)

    def dear(slot: TaskSlot) -> float:
        if not weight:
            return 0.0
        row = problem.seconds[slot.task]
        least = min(prices[problem.lanes[d]] * row[d] for d in problem.devices)
        return count * (prices[problem.lanes[slot.device]] * row[slot.device] - least)

    rank = ranks(problem)
    order = sorted(range(len(problem.reads)), key=lambda task: (-rank[task], task))
    lanes: dict[int, list[TaskSlot]] = {lane: [] for lane in problem.lanes}
    done: dict[int, TaskSlot] = {}
    for task in order:
        best = min(
            (_earliest(problem, task, device, lanes[problem.lanes[device]], done)
             for device in problem.devices),
            key=lambda slot: (slot.end + weight * dear(slot), slot.device),
        )  # fmt: skip
        done[task] = best
        lane = lanes[problem.lanes[best.device]]
        lane.append(best)
        lane.sort(key=lambda slot: slot.start)
    return TaskSchedule.of(done.values(), "HEFT at prices" if weight else "HEFT")


def _earliest(
    problem: Problem, task: int, device: int, lane: Sequence[TaskSlot], done: dict[int, TaskSlot]
) -> TaskSlot:
    """Returns the earliest slot for the task on this device. It is in a gap between the slots of
    `lane` that is long enough, else after the last one.
    """
    seconds = problem.seconds[task][device]
    start = problem.ready(task, device, done)
    for other in lane:
        if start + seconds <= other.start:
            break
        start = max(start, other.end)
    return TaskSlot(task, device, start, start + seconds)


def earliest_finish(problem: Problem) -> TaskSchedule:
    """Schedules tasks one by one. The next one is always the ready task that can end first, on the
    device where it ends first.
    """
    free = {lane: 0.0 for lane in problem.lanes}
    done: dict[int, TaskSlot] = {}
    unmet = [set(sources) for sources in problem.reads]
    came: dict[int, list[float]] = {}  # when the operands of each ready task are on each device

    def becomes_ready(task: int) -> None:
        came[task] = [problem.ready(task, device, done) for device in problem.devices]

    for task, sources in enumerate(unmet):
        if not sources:
            becomes_ready(task)
    while came:
        # The next task to place, the one that can end first: (end, task, device, begin).
        best: tuple[float, int, int, float] | None = None
        for task in sorted(came):
            row = problem.seconds[task]
            for device, ready in enumerate(came[task]):
                begin = max(ready, free[problem.lanes[device]])
                end = begin + row[device]
                if best is None or end < best[0]:
                    best = end, task, device, begin
        assert best is not None
        end, task, device, begin = best
        done[task] = TaskSlot(task, device, begin, end)
        free[problem.lanes[device]] = end
        del came[task]
        for reader in problem.readers[task]:
            unmet[reader].discard(task)
            if not unmet[reader]:
                becomes_ready(reader)
    return TaskSchedule.of(done.values(), "earliest finish")


def single(problem: Problem) -> list[TaskSchedule]:
    """Returns schedules of all tasks on one device, for each device that can do all of them."""
    order = range(len(problem.reads))
    return [
        timed(problem, order, [device] * len(problem.reads), f"device {device} alone")
        for device in problem.devices
        if all(row[device] < float("inf") for row in problem.seconds)
    ]


METHODS: Mapping[str, Callable[[Problem], Sequence[TaskSchedule]]] = {
    "HEFT": lambda problem: [heft(problem)],
    "HEFT at prices": lambda problem: [heft(problem, WEIGHT)],
    "earliest finish": lambda problem: [earliest_finish(problem)],
    "one device": single,
}
"""The methods whose schedules `place` starts from, by name."""
