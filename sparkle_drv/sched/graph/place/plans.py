"""Makes a plan from tasks. Asks for probes of unknown classes of work, chooses a device for each
task, and checks that memory suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sparkle_drv.core.array import Array
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.decide import pipeline, place_graph
from sparkle_drv.sched.decide.choose import Impossible
from sparkle_drv.sched.decide.dag import Problem, TaskSchedule, timed
from sparkle_drv.sched.journal.journal import Journal
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.graph_plan import DeviceMemory, GraphPlan, KeptGraph, Move, TaskPlan
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.sched.operations.table import is_change, operation_of
from sparkle_drv.sched.operations.traffic import fuses, traffic
from sparkle_drv.sched.run import ways
from sparkle_drv.sched.run.arrays import ContextArray
from sparkle_drv.sched.run.constants import ContextConstant
from sparkle_drv.sched.run.local import LocalExecutor

from .steps import Do, Steps, steps

_BOUND = (Array, Constant, ContextArray)


@dataclass
class Decided:
    """A plan, with its tasks and its steps."""

    kept: KeptGraph
    tasks: Sequence[Task]
    steps: Steps
    works: Sequence[Work]
    """The work of each task."""
    placed: place_graph.Placed
    layers: Sequence[int] = ()
    """For each task, the layer that it is a micro-batch of; () without micro-batches."""

    def outdated(self, costs: Costs, uris: Sequence[str]) -> bool:
        """Returns whether to place the graph again. That is so if a device's speed has changed
        since the graph was placed, or if a trial is due on an unused device.
        """
        if place_graph.changed(costs, self.kept.plan.tasks):
            return True
        if self.layers:
            return False
        best = self.placed.schedules[0]
        problem = self.placed.problem
        return place_graph.looking(costs, self.works, uris, problem, best) is not None


Noted = Callable[[Journal], None]
"""Writes the placement to a journal."""


def decide(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    choices: Sequence[Sequence[Task]],
    outputs: frozenset[int],
    arrays: Mapping[int, Any],
    outs: Mapping[int, Any],
) -> Decided:
    """Returns the plan of the fastest of `choices`, lists of tasks that compute the same. If
    several are equally fast, takes the first. Raises Impossible if no device can do a task.
    """
    # All classes of work are measured before the first decision. A replay of the journal then
    # decides with the same costs.
    all_works = [works_of(executor, uris, tasks, outputs, arrays, outs) for tasks in choices]
    with executor.deciding:
        return _best(executor, uris, zip(choices, all_works, strict=True), outputs)


def _best(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    alike: Iterable[tuple[Sequence[Task], Sequence[Work]]],
    outputs: frozenset[int],
) -> Decided:
    placements: list[tuple[Decided, Noted]] = []
    why: Impossible | None = None
    for tasks, works in alike:
        try:
            placements.append(one_way(executor, uris, tasks, works, outputs))
        except Impossible as error:
            why = why or error
    if not placements:
        assert why is not None
        raise why
    placements.sort(key=lambda one: _best_s(one[0]))
    best, noted = placements[0]
    for other, _ in placements[1:]:
        best.kept.plan = replace(best.kept.plan, otherwise_s=_best_s(other))
    if executor.journal is not None:
        noted(executor.journal)
    if best.kept.plan.explores:
        executor.tell("explored", best.kept.plan.extra_s)
    return best


def _best_s(one: Decided) -> float:
    return one.kept.plan.predicted_s - one.kept.plan.extra_s


def works_of(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    tasks: Sequence[Task],
    outputs: frozenset[int],
    arrays: Mapping[int, Any],
    outs: Mapping[int, Any],
) -> list[Work]:
    """Returns the Work of each task. Classes that are not known yet are measured."""
    works = []
    for task in tasks:
        kind, size = operation_of(task).work_class(task)
        executor.know(kind, uris)
        operands = tuple(_operand(v, arrays) for v in task.arrays if v.kind != "made")
        place = _out_place(task.out, outputs, arrays, outs)
        lacking = executor.lacking(kind, uris)
        works.append(Work(kind.name, size, operands, task.out.nbytes, place, lacking))
    places = {place for work in works for x in work.operands for place in x.places}
    # Links between `uris` are needed, too: a result may go from one device to another.
    ways.know(executor, places.union(uris), uris)
    return works


def one_way(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    tasks: Sequence[Task],
    works: Sequence[Work],
    outputs: frozenset[int],
    layers: Sequence[int] = (),
) -> tuple[Decided, Noted]:
    reads, refused = reads_of(tasks), refused_of(executor, uris, tasks)
    placed = place_graph.placed(executor.costs, works, reads, uris, refused, layers)
    lacking = []
    for index, schedule in enumerate(placed.order):
        decided = _with_steps(executor, uris, tasks, outputs, placed, works, schedule, layers)
        short = _short(executor, decided)
        if not short:
            noted = partial(
                Journal.placed, works=works, reads=reads, uris=uris, refused=refused, index=index,
                schedule=schedule, layers=layers,
            )  # fmt: skip
            return decided, noted
        lacking.append(short)
    raise Impossible(
        f"graph: its arrays do not fit the devices' memory: {'; or '.join(dict.fromkeys(lacking))}"
    )


def reads_of(tasks: Sequence[Task]) -> list[list[int]]:
    """Returns for each task the tasks that make what it reads."""
    making = {task.out.number: i for i, task in enumerate(tasks)}
    return [[making[v.number] for v in task.arrays if v.number in making] for task in tasks]


def refused_of(
    executor: LocalExecutor, uris: tuple[str, ...], tasks: Sequence[Task]
) -> dict[tuple[int, str], str]:
    """Returns a dict: (index of a task, URI of a device that cannot do the task) -> the reason."""
    return {
        (i, uri): why
        for i, task in enumerate(tasks)
        for uri in uris
        if (why := operation_of(task).refusal(task, executor.devices[uri]))
    }


def _operand(value: Value, arrays: Mapping[int, Any]) -> Operand:
    x = arrays[value.whole]
    if isinstance(x, ContextArray):
        return Operand(value.nbytes, frozenset(x.places))
    if isinstance(x, ContextConstant):
        return Operand(value.nbytes, frozenset((HOST, *x.places)))
    return Operand(value.nbytes, frozenset({HOST if value.host else value.kind}))


def _out_place(
    value: Value, outputs: frozenset[int], arrays: Mapping[int, Any], outs: Mapping[int, Any]
) -> str:
    """Returns HOST if a result must be brought to the host, or "" if it may stay on any device.

    An output without an `out` must be brought to the host if all operands are numpy arrays. The
    result of a single call is returned on the host, too, in this case.
    """
    out = outs.get(value.whole)
    if value.number not in outputs or isinstance(out, _BOUND):
        return ""
    # The test is by class, not by a `device` attribute, which numpy's arrays have, too.
    return "" if out is None and any(isinstance(x, _BOUND) for x in arrays.values()) else HOST


def _once(
    costs: Costs,
    uris: tuple[str, ...],
    tasks: Sequence[Task],
    works: Sequence[Work],
    problem: Problem,
    layers: Sequence[int],
    schedule: TaskSchedule,
) -> TaskSchedule:
    """Returns `schedule` with each operand counted once per device.

    The placer counts the transfer of an operand for each task that reads it. Only the first reader
    on a device pays for it.
    """
    seconds = [list(row) for row in problem.seconds]
    there: set[tuple[int, int]] = set()
    for slot in schedule.slots:
        outside = (v.number for v in tasks[slot.task].arrays if v.kind != "made")
        for number, x in zip(outside, works[slot.task].operands, strict=True):
            if (number, slot.device) in there:
                way_s = costs.transfer_s(x.nbytes, x.places, uris[slot.device])
                seconds[slot.task][slot.device] -= way_s
            there.add((number, slot.device))
    fewer = replace(problem, seconds=tuple(map(tuple, seconds)))
    order, device = [slot.task for slot in schedule.slots], schedule.device_of()
    time = pipeline.played if layers else timed
    return time(fewer, order, [device[i] for i in range(len(tasks))], schedule.by)


def _with_steps(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    tasks: Sequence[Task],
    outputs: frozenset[int],
    placed: place_graph.Placed,
    works: Sequence[Work],
    schedule: TaskSchedule,
    layers: Sequence[int],
) -> Decided:
    once = partial(_once, executor.costs, uris, tasks, works, placed.problem, layers)
    explores = schedule is placed.look
    best, schedule = once(placed.schedules[0]), once(schedule)
    order, usual = [Do(slot.task, uris[slot.device]) for slot in schedule.slots], best.device_of()
    ordered = steps(tasks, order, outputs, bool(layers))
    plans = tuple(
        TaskPlan(
            tasks[slot.task].made_of,
            works[slot.task],
            do.uri,
            slot.start,
            slot.end,
            traffic(tasks[slot.task], fuses(executor.devices[do.uri])),
            place_graph.candidates(
                placed, slot.task, do.uri, explores and usual[slot.task] != slot.device
            ),
            is_change(tasks[slot.task]),
        )
        for slot, do in zip(schedule.slots, order, strict=True)
    )
    stays = dict.fromkeys((do.uri for do in order), 0)
    for do in order:
        task = tasks[do.task]
        if (task.out.number, do.uri) not in ordered.offsets:
            stays[do.uri] += task.out.nbytes
        stays[do.uri] += sum(v.nbytes for v in task.arrays if v not in task.brought)
    for uri in stays:
        stay = {v for do in order if do.uri == uri for v in tasks[do.task].brought}
        stay = {v for v in stay if v.kind in ("constant", "context", uri)}
        stays[uri] += sum(v.nbytes for v in stay)
    memory = {
        uri: DeviceMemory(
            ordered.memory[uri].peak_nbytes, ordered.memory[uri].naive_nbytes, stays[uri]
        )
        for uri in stays
    }
    alone = {s.by.removesuffix(" alone"): once(s).seconds for s in placed.schedules[1:]}
    moves = tuple(Move(step.value.nbytes, step.source, step.uri) for step in ordered.moves)
    extra_s = max(0.0, schedule.seconds - best.seconds) if explores else 0.0
    plan = GraphPlan(
        plans, schedule.by, schedule.seconds, alone, moves, memory,
        explores=explores, extra_s=extra_s,
    )  # fmt: skip
    kept = KeptGraph(plan, runs=1 if explores else 0)  # the only run of a trial is measured
    return Decided(kept, tasks, ordered, works, placed, layers)


def _short(executor: LocalExecutor, decided: Decided) -> str:
    """Returns which devices have too little memory, and by how much; "" if none."""
    lacking = []
    for uri, memory in decided.kept.plan.memory.items():
        there = executor.costs.nodes[uri].memory_nbytes
        needed = memory.peak_nbytes + memory.kept_nbytes
        if there and needed > there:
            lacking.append(f"{uri}: {needed} bytes are needed, it has {there}")
    return ", ".join(lacking)
