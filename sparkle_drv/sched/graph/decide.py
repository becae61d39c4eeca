"""From tasks to a plan: asks for probes of what is not known, places, and sees that it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkle_drv.ops.conv2d import WINOGRAD

from ..arrays import ContextArray
from ..choose import Impossible
from ..dag import Schedule
from ..local import LocalExecutor
from ..work import HOST, Operand, Work
from . import place as graph_place
from .classes import class_of
from .data import Task, Value
from .plan import DeviceMemory, GraphPlan, KeptGraph, Move, TaskPlan
from .steps import Do, Key, Steps, steps
from .traffic import traffic


@dataclass
class Decided:
    """A plan and the steps that it comes to."""

    kept: KeptGraph
    steps: Steps


def decide(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    tasks: Sequence[Task],
    outputs: frozenset[int],
    given: Mapping[int, Any],
    outs: Mapping[int, Any],
    there: set[Key],
) -> Decided:
    """`there`: copies of operands that are kept. Raises Impossible."""
    works = []
    for task in tasks:
        kind, size = class_of(task)
        executor.know(kind, uris)
        operands = tuple(_operand(v, given, there) for v in task.arrays if v.kind != "made")
        place = _out_place(task.out, outputs, given, outs)
        works.append(Work(kind.name, size, operands, task.out.nbytes, place))
    making = {task.out.number: i for i, task in enumerate(tasks)}
    reads = [[making[v.number] for v in task.arrays if v.number in making] for task in tasks]
    refused = {
        (i, uri): f"algo {task.options['algo']!r} is there on the cpu only"
        for i, task in enumerate(tasks)
        for uri in uris
        if task.options.get("algo") in WINOGRAD and not _on_cpu(executor, uri)
    }
    placed = graph_place.placed(executor.costs, works, reads, uris, refused)
    lacking = []
    for index, schedule in enumerate(placed.schedules):
        made = _with_steps(executor, uris, tasks, outputs, placed, works, schedule)
        short = _short(executor, made)
        if not short:
            if executor.journal is not None:
                executor.journal.placed(works, reads, uris, refused, index, schedule)
            return made
        lacking.append(short)
    raise Impossible(f"graph: it does not fit: {'; or '.join(dict.fromkeys(lacking))}")


def _on_cpu(executor: LocalExecutor, uri: str) -> bool:
    return executor.devices[uri].info.backend == "cpu"


def _operand(value: Value, given: Mapping[int, Any], there: set[Key]) -> Operand:
    x = given[value.number]
    if isinstance(x, ContextArray):
        return Operand(value.nbytes, frozenset(x.places))
    home = HOST if value.host else value.kind
    return Operand(value.nbytes, frozenset({home, *(u for n, u in there if n == value.number)}))


def _out_place(
    value: Value, outputs: frozenset[int], given: Mapping[int, Any], outs: Mapping[int, Any]
) -> str:
    """Where an output is wanted: with numpy operands alone on the host, as for single calls."""
    if value.number not in outputs or isinstance(outs.get(value.number), ContextArray):
        return ""
    arrays = any(hasattr(x, "places") or hasattr(x, "device") for x in given.values())
    return "" if arrays else HOST


def _with_steps(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    tasks: Sequence[Task],
    outputs: frozenset[int],
    placed: graph_place.Placed,
    works: Sequence[Work],
    schedule: Schedule,
) -> Decided:
    order = [Do(slot.task, uris[slot.device]) for slot in schedule.slots]
    made = steps(tasks, order, outputs)
    plans = tuple(
        TaskPlan(
            tasks[slot.task].made_of,
            works[slot.task],
            do.uri,
            slot.start,
            slot.end,
            traffic(tasks[slot.task], _on_cpu(executor, do.uri)),
            graph_place.candidates(placed, slot.task, do.uri),
        )
        for slot, do in zip(schedule.slots, order, strict=True)
    )
    kept = dict.fromkeys((do.uri for do in order), 0)
    for do in order:
        task = tasks[do.task]
        if (task.out.number, do.uri) not in made.offsets:
            kept[do.uri] += task.out.nbytes
        kept[do.uri] += sum(v.nbytes for v in task.arrays if v not in task.brought)
    for uri in kept:
        stay = {v for do in order if do.uri == uri for v in tasks[do.task].brought}
        stay = {v for v in stay if v.kind in ("settled", "context", uri)}
        kept[uri] += sum(v.nbytes for v in stay)
    memory = {
        uri: DeviceMemory(made.memory[uri].peak_nbytes, made.memory[uri].naive_nbytes, kept[uri])
        for uri in kept
    }
    alone = {s.by.removesuffix(" alone"): s.seconds for s in placed.schedules[1:]}
    moves = tuple(Move(step.value.nbytes, step.source, step.uri) for step in made.moves)
    plan = GraphPlan(plans, schedule.by, schedule.seconds, alone, moves, memory)
    return Decided(KeptGraph(plan), made)


def _short(executor: LocalExecutor, made: Decided) -> str:
    """Which device has too little memory, and by how much; "": none."""
    found = []
    for uri, memory in made.kept.plan.memory.items():
        there = executor.costs.nodes[uri].memory_nbytes
        needed = memory.peak_nbytes + memory.kept_nbytes
        if there and needed > there:
            found.append(f"{uri}: {needed} bytes are needed, it has {there}")
    return ", ".join(found)
