"""Placement of a task graph: the best of several list schedules, improved by moving single tasks;
exact for small graphs (exact.py). Pure.

HEFT: tasks by rank, each where it ends first, in a gap if there is one. H. Topcuoglu, S. Hariri,
M.-Y. Wu: Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous Computing, IEEE
TPDS 13(3), 2002. Alone it can be 2.17 times the optimum (FINDINGS F), so the earliest finish in the
order of becoming ready and each single device are computed, too; the last make a schedule that is
never worse than doing all in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import exact
from .dag import Problem, Schedule, Slot, bound, priced, timed

EXACT_TASKS = 8
"""Graphs of at most so many tasks are placed exactly."""
WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Of the lanes' prices in the variants of HEFT that are computed."""
ENOUGH = 1.001
"""Times the lower bound at which no improvement is looked for."""
STARTS = 3
"""Schedules that are improved, the best first."""
NEAR = 6
"""How far apart in the order two tasks may be that exchange their devices."""
TRIES = 60_000
"""Tasks that the improvement of one schedule places at most: a second or so for all."""


def place(problem: Problem) -> Schedule:
    """The best schedule that is found; the optimum for at most EXACT_TASKS tasks."""
    if not problem.reads:
        return Schedule((), "empty")
    _, prices = priced(problem)
    found = [heft(problem, prices, weight) for weight in WEIGHTS]
    found += [earliest_finish(problem), *single(problem)]
    best = min(found, key=lambda schedule: schedule.seconds)
    if len(problem.reads) <= EXACT_TASKS:
        return exact.search(problem, best)
    goal = bound(problem) * ENOUGH
    for start in sorted(found, key=lambda schedule: schedule.seconds)[:STARTS]:
        if best.seconds <= goal:
            break
        best = min(best, improved(problem, start, goal), key=lambda schedule: schedule.seconds)
    return best


def ranks(problem: Problem) -> list[float]:
    """HEFT's upward rank: mean seconds of a task, and the longest mean way after it."""
    count = len(problem.devices)
    pairs = [(a, b) for a in problem.devices for b in problem.devices if a != b]
    found = [0.0] * len(problem.reads)
    for task in reversed(range(len(problem.reads))):
        moves = sum(problem.move(task, a, b) for a, b in pairs) / (count * count)
        after = max((found[reader] + moves for reader in problem.readers[task]), default=0.0)
        able = [s for s in problem.seconds[task] if s < float("inf")]
        found[task] = sum(able) / len(able) + after
    return found


def heft(problem: Problem, prices: dict[int, float] | None = None, weight: float = 0.0) -> Schedule:
    """Tasks by falling rank, each on the device where it ends first.

    With a weight, its time at the lanes' prices counts beside its end: a task that one device does
    hardly better than others leaves it to those that need it.
    """
    count = len(set(problem.lanes))

    def dear(slot: Slot) -> float:
        if not prices or not weight:
            return 0.0
        row = problem.seconds[slot.task]
        least = min(prices[problem.lanes[d]] * row[d] for d in problem.devices)
        return count * (prices[problem.lanes[slot.device]] * row[slot.device] - least)

    rank = ranks(problem)
    order = sorted(range(len(problem.reads)), key=lambda task: (-rank[task], task))
    lanes: dict[int, list[Slot]] = {lane: [] for lane in problem.lanes}
    done: dict[int, Slot] = {}
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
    return Schedule(
        tuple(sorted(done.values(), key=lambda s: (s.start, s.task))),
        "HEFT" if not weight else f"HEFT at prices, {weight:g}",
    )


def _ready(problem: Problem, task: int, device: int, done: dict[int, Slot]) -> float:
    return max(
        (done[s].end + problem.move(s, done[s].device, device) for s in problem.reads[task]),
        default=0.0,
    )


def _earliest(
    problem: Problem, task: int, device: int, lane: Sequence[Slot], done: dict[int, Slot]
) -> Slot:
    """Where the task fits on this device, between others if there is room."""
    seconds = problem.seconds[task][device]
    start = _ready(problem, task, device, done)
    for other in lane:
        if start + seconds <= other.start:
            break
        start = max(start, other.end)
    return Slot(task, device, start, start + seconds)


def earliest_finish(problem: Problem) -> Schedule:
    """Of all tasks that are ready, the one that can end first, where it does; then the next."""
    free = {lane: 0.0 for lane in problem.lanes}
    done: dict[int, Slot] = {}
    left = set(range(len(problem.reads)))
    while left:
        best: Slot | None = None
        for task in sorted(left):
            if any(source not in done for source in problem.reads[task]):
                continue
            for device in problem.devices:
                begin = max(_ready(problem, task, device, done), free[problem.lanes[device]])
                end = begin + problem.seconds[task][device]
                if best is None or end < best.end:
                    best = Slot(task, device, begin, end)
        assert best is not None
        done[best.task] = best
        free[problem.lanes[best.device]] = best.end
        left.remove(best.task)
    return Schedule(
        tuple(sorted(done.values(), key=lambda s: (s.start, s.task))), "earliest finish"
    )


def single(problem: Problem) -> list[Schedule]:
    """All on one device, for each that can do all."""
    order = range(len(problem.reads))
    return [
        timed(problem, order, [device] * len(problem.reads), f"device {device} alone")
        for device in problem.devices
        if all(row[device] < float("inf") for row in problem.seconds)
    ]


def improved(problem: Problem, schedule: Schedule, goal: float) -> Schedule:
    """Moves single tasks to other devices or places in the order for as long as that helps."""
    best = schedule
    left = TRIES // len(problem.reads)
    helped = True
    while helped and best.seconds > goal and left > 0:
        helped = False
        for change in _changes(problem, best)[:left]:
            left -= 1
            made = change()
            if made.seconds < best.seconds * (1 - 1e-9):
                best, helped = made, True
                break
    return best


def _changes(problem: Problem, schedule: Schedule) -> list[Callable[[], Schedule]]:
    """Other devices, and earlier places, for the tasks on the chain that makes it as long as it is;
    that chain's tasks first, from its end.
    """
    order = [slot.task for slot in schedule.slots]
    device = [0] * len(order)
    for slot in schedule.slots:
        device[slot.task] = slot.device
    by = schedule.by if schedule.by.endswith(", improved") else f"{schedule.by}, improved"
    found: list[Callable[[], Schedule]] = []

    def elsewhere(task: int, to: int) -> Callable[[], Schedule]:
        changed = list(device)
        changed[task] = to
        return lambda: timed(problem, order, changed, by)

    def sooner(task: int, before: int) -> Callable[[], Schedule]:
        moved = [t for t in order if t != task]
        moved.insert(before, task)
        return lambda: timed(problem, moved, device, by)

    def exchanged(task: int, other: int) -> Callable[[], Schedule]:
        changed = list(device)
        changed[task], changed[other] = changed[other], changed[task]
        return lambda: timed(problem, order, changed, by)

    at = {task: i for i, task in enumerate(order)}
    for task in _chain(problem, schedule):
        found += [elsewhere(task, d) for d in problem.devices if d != device[task]]
        first = 1 + max((at[source] for source in problem.reads[task]), default=-1)
        spots = {first, (first + at[task]) // 2, at[task] - 1}
        found += [sooner(task, spot) for spot in sorted(spots) if first <= spot < at[task]]
        found += [
            exchanged(task, other)
            for other in order
            if device[other] != device[task] and abs(at[other] - at[task]) <= NEAR
        ]
    return found


def _chain(problem: Problem, schedule: Schedule) -> list[int]:
    """The tasks without whose time the end would come sooner, from the last to the first."""
    slots = {slot.task: slot for slot in schedule.slots}
    before: dict[int, Slot] = {}
    last: dict[int, Slot] = {}
    for slot in schedule.slots:
        lane = problem.lanes[slot.device]
        if lane in last:
            before[slot.task] = last[lane]
        last[lane] = slot
    slot = max(schedule.slots, key=lambda s: s.end)
    chain = [slot.task]
    while True:
        held = [
            slots[s]
            for s in problem.reads[slot.task]
            if slots[s].end + problem.move(s, slots[s].device, slot.device) >= slot.start - 1e-15
        ]
        previous = before.get(slot.task)
        if previous is not None and previous.end >= slot.start - 1e-15:
            held.append(previous)
        if not held:
            return chain
        slot = max(held, key=lambda s: (s.end, s.task))
        chain.append(slot.task)
