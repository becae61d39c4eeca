"""Places the tasks of a graph on devices by their costs. Pure functions: no clock, no device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.graph_plan import TaskPlan
from sparkle_drv.sched.model.speed import LEAST_CHANGE
from sparkle_drv.sched.model.work import Candidate, Cost, Work
from sparkle_drv.types import in_common

from . import pipeline
from .choose import Impossible, Look, cannot, explored, impossible, slower, stranded
from .dag import Problem, TaskSchedule, timed
from .schedule import place

INFINITE = float("inf")
NO_WAY_S = 1e12
"""Seconds that stand for an impossible move: more than any schedule takes, but finite."""
WHOLE = 1.05
"""Independent branches stay whole, one device each, if that takes at most this factor of the least
seconds. A move within a branch makes one device wait for another and empties its queue. A plan with
2 % less predicted time, two chains on two cores, took 1.8 times as long (benchmarks/mesh.py,
graphs)."""

SLICE_S = 4e-3
"""Extra seconds of a move between devices on cores of one host: the threads that copy wait for a
time slice of Linux's scheduler. Two chains on two cores with 6 moves took 50 ms; from the bytes
alone 28.7 ms were predicted (benchmarks/mesh.py, graphs)."""


@dataclass(frozen=True)
class Placed:
    """A placement problem, and the schedules that solve it. They are tried in order until one fits
    the devices' memory.
    """

    problem: Problem
    schedules: tuple[TaskSchedule, ...]
    """The best schedule, then each device alone, in case the memory for the best does not
    suffice.
    """
    look: TaskSchedule | None
    """A trial to run once before the best schedule, to learn the speed of a device
    (choose.explored)."""
    costs: tuple[Mapping[str, Cost], ...]
    """For each task, the cost on each device that can do it, by URI."""
    refused: tuple[Mapping[str, str], ...]
    """For each task, why a device cannot do it, by URI."""

    @property
    def order(self) -> tuple[TaskSchedule, ...]:
        """All schedules. They are tried in this order until one fits the devices' memory."""
        return self.schedules if self.look is None else (self.look, *self.schedules)


def placed(
    costs: Costs,
    works: Sequence[Work],
    reads: Sequence[Sequence[int]],
    uris: Sequence[str],
    refused: Mapping[tuple[int, str], str],
    layers: Sequence[int] = (),
) -> Placed:
    """Places `works` on the devices `uris`. Raises Impossible if a task has no device.

    `reads` gives for each work the earlier ones whose results it reads; `Work.operands` are the
    arrays from outside the graph. `refused` maps (work, URI) to a reason, where the task itself
    excludes a device. `layers` gives for each work the layer that it is a micro-batch of. A layer
    stays on one device, and no trial moves it.
    """
    problem, able, unable = stated(costs, works, reads, uris, refused)
    best = pipeline.place(problem, layers) if layers else place(problem)
    if best.seconds >= NO_WAY_S:
        between = ", ".join(uris)
        raise Impossible(
            f"graph: expected a device that can do all tasks, or links among {between}; "
            "got no such device, and no way to move arrays between some of these devices"
        )
    alone = [
        timed(problem, range(len(works)), [d] * len(works), f"{uri} alone")
        for d, uri in enumerate(uris)
        if all(row[d] < INFINITE for row in problem.seconds)
    ]
    alone.sort(key=lambda schedule: schedule.seconds)
    look = None
    if not layers:
        whole = min((*alone[:1], _whole(problem, best)), key=lambda schedule: schedule.seconds)
        if whole.seconds <= WHOLE * best.seconds:
            best = whole
        look = looking(costs, works, uris, problem, best)
    return Placed(problem, (best, *alone), look, tuple(able), tuple(unable))


def stated(
    costs: Costs,
    works: Sequence[Work],
    reads: Sequence[Sequence[int]],
    uris: Sequence[str],
    refused: Mapping[tuple[int, str], str],
) -> tuple[Problem, list[dict[str, Cost]], list[dict[str, str]]]:
    """Returns the placement problem and two lists with an entry for each task. The first has the
    costs of the devices that can do the task, the second why the others cannot. Raises Impossible
    if a task has no device.
    """
    able: list[dict[str, Cost]] = []
    unable: list[dict[str, str]] = []
    for i, work in enumerate(works):
        why = {uri: refused.get((i, uri)) or cannot(costs, work, uri) for uri in uris}
        able.append({uri: costs.of(work, uri) for uri in uris if not why[uri]})
        unable.append({uri: reason for uri, reason in why.items() if reason})
        for uri, cost in list(able[-1].items()):
            if not math.isfinite(cost.total_s):
                unable[-1][uri] = stranded(costs, work, uri)
                del able[-1][uri]
        if not able[-1]:
            raise impossible(costs, work, unable[-1])
    problem = Problem(
        tuple(tuple(_alone(row.get(uri)) for uri in uris) for row in able),
        tuple(tuple(dict.fromkeys(sources)) for sources in reads),
        _moves(costs, works, reads, uris),
        _lanes(costs, uris),
    )
    return problem, able, unable


def _whole(problem: Problem, best: TaskSchedule) -> TaskSchedule:
    """Returns a schedule that places each branch of the graph, a set of connected tasks, on one
    device.

    The longest branch is placed first. Each branch goes to the device where it ends soonest. Tasks
    keep the order of `best`.
    """
    order, branch = [slot.task for slot in best.slots], list(range(len(best.slots)))
    for task, sources in enumerate(problem.reads):
        for source in sources:
            old, new = branch[task], branch[source]
            branch = [new if b == old else b for b in branch]
    takes: dict[int, list[float]] = {}
    for schedule, row in zip(branch, problem.seconds, strict=True):
        so_far = takes.get(schedule, [0.0] * len(row))
        takes[schedule] = [a + b for a, b in zip(so_far, row, strict=True)]
    free, where = dict.fromkeys(problem.lanes, 0.0), dict[int, int]()
    for schedule in sorted(takes, key=lambda schedule: -min(takes[schedule])):
        ends = [free[problem.lanes[d]] + takes[schedule][d] for d in problem.devices]
        where[schedule] = ends.index(min(ends))
        free[problem.lanes[where[schedule]]] = min(ends)
    device = [where[schedule] for schedule in branch]
    if dict(enumerate(device)) == best.device_of():
        return best
    return timed(problem, order, device, f"{best.by}, whole branches")


def looking(
    costs: Costs, works: Sequence[Work], uris: Sequence[str], problem: Problem, best: TaskSchedule
) -> TaskSchedule | None:
    """Returns `best` with one task moved to a device that is due for a trial, or None if none is
    due.

    For each class of work and device, only the task that loses least by the move is considered.
    """
    order, device = [slot.task for slot in best.slots], best.device_of()
    least: dict[tuple[str, str], tuple[float, int, int]] = {}
    for task, work in enumerate(works):
        row = problem.seconds[task]
        for d, uri in enumerate(uris):
            key, lost = (work.op, uri), row[d] - row[device[task]]
            if d != device[task] and lost < least.get(key, (INFINITE, 0, 0))[0]:
                least[key] = lost, task, d

    def moved(task: int, to: int) -> TaskSchedule:
        where = [to if t == task else device[t] for t in range(len(works))]
        return timed(problem, order, where, f"a look at {uris[to]}")

    def extra(task: int, to: int) -> float:
        return max(0.0, moved(task, to).seconds - best.seconds)

    looks = (
        Look(op, uri, partial(extra, task, to), (task, to))
        for (op, uri), (_, task, to) in least.items()
    )
    found = explored(costs, looks)
    return None if found is None else moved(*found.what)


def candidates(
    placed: Placed, task: int, chosen: str, looks: bool = False
) -> tuple[Candidate, ...]:
    """Returns a Candidate for each device of one task, the chosen one first. `looks` says that the
    task is a trial.
    """
    costs = placed.costs[task]
    rest = sorted((uri for uri in costs if uri != chosen), key=lambda uri: costs[uri].total_s)
    ranked = [Candidate(chosen, costs[chosen])]
    for uri in rest:
        if costs[uri].total_s < costs[chosen].total_s and not looks:
            why = "faster for this task alone, not for the graph"
        else:
            why = slower(costs[uri], costs[chosen])
        ranked.append(Candidate(uri, costs[uri], why))
    return (*ranked, *(Candidate(u, None, why) for u, why in placed.refused[task].items()))


def changed(costs: Costs, tasks: Iterable[TaskPlan]) -> bool:
    """Returns whether the predicted time of a task has changed on some device since it was placed.
    A device that became able or unable to do a task counts, too.
    """
    for task in tasks:
        for one in task.candidates:
            if bool(one.cost) == bool(cannot(costs, task.work, one.device)):
                return True
            if one.cost is not None:
                now = costs.of(task.work, one.device).compute_s
                if abs(math.log(max(now, 1e-9) / max(one.cost.compute_s, 1e-9))) > LEAST_CHANGE:
                    return True
    return False


def _alone(cost: Cost | None) -> float:
    """Returns the seconds of a task without `wait_s`, since the graph's schedule itself says how
    long a task waits.
    """
    return INFINITE if cost is None else cost.total_s - cost.wait_s


def _moves(
    costs: Costs, works: Sequence[Work], reads: Sequence[Sequence[int]], uris: Sequence[str]
) -> dict[tuple[int, int, int], float]:
    moves = {}
    for task in sorted({source for sources in reads for source in sources}):
        for a, source in enumerate(uris):
            for b, to in enumerate(uris):
                if a != b:
                    nbytes = works[task].out_nbytes
                    way = costs.transfer_s(nbytes, frozenset({source}), to)
                    way += SLICE_S * _of_one_host(
                        costs.nodes[source].shares, costs.nodes[to].shares
                    )
                    moves[task, a, b] = min(way, NO_WAY_S)
    return moves


def _of_one_host(uri: Sequence[str], other: Sequence[str]) -> bool:
    """Returns whether two devices have resources that are parts of one resource, such as named
    cores of one CPU.
    """
    whole = {name.partition(":")[0] for name in uri}
    return any(name.partition(":")[0] in whole for name in other)


def _lanes(costs: Costs, uris: Sequence[str]) -> tuple[int, ...]:
    """Returns for each device the number that names its lane.

    Devices that share a resource, such as the cores of the host, have the same lane.
    """
    lanes = list(range(len(uris)))
    for a, first in enumerate(uris):
        for b, second in enumerate(uris[:a]):
            if in_common(costs.nodes[first].shares, costs.nodes[second].shares):
                old, new = lanes[a], lanes[b]
                lanes = [new if lane == old else lane for lane in lanes]
    numbers = {lane: i for i, lane in enumerate(dict.fromkeys(lanes))}
    return tuple(numbers[lane] for lane in lanes)
