"""The best schedule of a small task graph, by branch and bound. Pure.

Schedules are built by appending tasks that are ready, in order of their start, to a device each;
among those is an optimal one, since beginning later than possible never helps. A branch is left
when it cannot undercut the best so far, or when the same tasks were done before no later on every
lane and no later for every result that is still read.
"""

from __future__ import annotations

from dataclasses import dataclass

from .dag import Problem, Schedule, Slot

MOST_STATES = 200_000
"""Branches looked into at most: a second or two; then the best so far is the answer."""


@dataclass
class _Search:
    problem: Problem
    best: Schedule
    states: int = 0


def search(problem: Problem, start: Schedule) -> Schedule:
    """The optimum, `start` if nothing is better; exact unless MOST_STATES were not enough."""
    run = _Search(problem, start)
    lanes = tuple(0.0 for _ in range(max(problem.lanes) + 1))
    _branch(run, (), frozenset(), lanes, 0.0, {})
    return run.best


Seen = dict[object, list[tuple[float, ...]]]


def _branch(
    run: _Search,
    slots: tuple[Slot, ...],
    done: frozenset[int],
    free: tuple[float, ...],
    latest: float,
    seen: Seen,
) -> None:
    problem = run.problem
    if len(slots) == len(problem.reads):
        made = Schedule.of(slots, "exact")
        if made.seconds < run.best.seconds * (1 - 1e-12):
            run.best = made
        return
    run.states += 1
    if run.states > MOST_STATES or _dominated(problem, slots, done, free, latest, seen):
        return
    at = {slot.task: slot for slot in slots}
    options = []
    for task in range(len(problem.reads)):
        if task in done or any(source not in done for source in problem.reads[task]):
            continue
        for device in problem.devices:
            seconds = problem.seconds[task][device]
            if seconds == float("inf"):
                continue
            lane = problem.lanes[device]
            ready = max(
                (at[s].end + problem.move(s, at[s].device, device) for s in problem.reads[task]),
                default=0.0,
            )
            begin = max(ready, free[lane])
            if begin < latest:
                continue  # it begins before one that was appended: found in another order
            rest = problem.tails[task] - min(problem.seconds[task])
            if begin + seconds + rest >= run.best.seconds * (1 - 1e-12):
                continue
            options.append((begin + seconds + rest, Slot(task, device, begin, begin + seconds)))
    for _, slot in sorted(options, key=lambda option: (option[0], option[1].task)):
        lane = problem.lanes[slot.device]
        now = (*free[:lane], slot.end, *free[lane + 1 :])
        if _hopeless(run, (*slots, slot), done | {slot.task}, now):
            continue
        _branch(run, (*slots, slot), done | {slot.task}, now, slot.start, seen)


def _hopeless(
    run: _Search, slots: tuple[Slot, ...], done: frozenset[int], free: tuple[float, ...]
) -> bool:
    """Can what is left not end before the best so far, spread over all lanes at fastest times?"""
    problem = run.problem
    left = [min(row) for task, row in enumerate(problem.seconds) if task not in done]
    lanes = sorted({problem.lanes[device] for device in problem.devices})
    even = (sum(left) + sum(free[lane] for lane in lanes)) / len(lanes)
    return even >= run.best.seconds * (1 - 1e-12)


def _dominated(
    problem: Problem,
    slots: tuple[Slot, ...],
    done: frozenset[int],
    free: tuple[float, ...],
    latest: float,
    seen: Seen,
) -> bool:
    """Was the same set done before, its live results in the same places, nothing of it later?"""
    live = [s for s in slots if any(reader not in done for reader in problem.readers[s.task])]
    live.sort(key=lambda slot: slot.task)
    key = (done, tuple((slot.task, slot.device) for slot in live))
    mine = (*free, latest, *(slot.end for slot in live), max((s.end for s in slots), default=0.0))
    known = seen.setdefault(key, [])
    if any(all(a <= b for a, b in zip(other, mine, strict=True)) for other in known):
        return True
    known[:] = [o for o in known if not all(a <= b for a, b in zip(mine, o, strict=True))]
    known.append(mine)
    return False
