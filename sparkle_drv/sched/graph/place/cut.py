"""Chooses the number of micro-batches of a graph by predicted seconds, and makes the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkle_drv.sched.decide import pipeline, place_graph
from sparkle_drv.sched.decide.dag import Problem
from sparkle_drv.sched.model.graph_plan import MicroBatches
from sparkle_drv.sched.model.task import Task
from sparkle_drv.sched.model.work import Work
from sparkle_drv.sched.run.local import LocalExecutor

from . import micro_batches
from .plans import Decided, decide, one_way, reads_of, refused_of, works_of
from .steps import Do


def decide_cut(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    choices: Sequence[Sequence[Task]],
    outputs: frozenset[int],
    arrays: Mapping[int, Any],
    outs: Mapping[int, Any],
    count: int | str,
) -> Decided:
    """Returns a plan as plans.decide does, for a graph whose batch is cut into micro-batches.

    `count` is the number of micro-batches. "auto" takes the number with the least predicted time.
    Raises ValueError, before any measurement, if the batch cannot be cut into `count`
    micro-batches.
    """
    batches = [micro_batches.batch(tasks, outputs) for tasks in choices]
    extent = batches[0].extent
    if not isinstance(count, str) and count > extent:
        raise ValueError(
            f"micro_batches: expected at most {extent}, the batch of this graph, got {count}"
        )
    counts = pipeline.counts(extent) if isinstance(count, str) else [count]
    sized = {rows for n in (*counts, 1) for rows in micro_batches.rows(extent, n)}
    works = [
        {
            rows: works_of(executor, uris, batch.sized(rows), outputs, arrays, outs)
            for rows in sorted(sized)
        }
        for batch in batches
    ]
    with executor.deciding:
        ways = [
            _chosen(executor, uris, batch, by_rows, counts)
            for batch, by_rows in zip(batches, works, strict=True)
        ]
    best = min(range(len(ways)), key=lambda i: ways[i][0].least_s)
    chosen, bound_s = ways[best]
    if chosen.count == 1:
        decided = decide(executor, uris, choices, outputs, arrays, outs)
        return _told(decided, range(len(decided.tasks)), extent, bound_s, chosen)
    tasks, layers = batches[best].parts(chosen.count)
    outputs = frozenset(task.out.number for task in tasks if task.out.whole in outputs)
    parts = works_of(executor, uris, tasks, outputs, arrays, outs)
    with executor.deciding:
        decided, noted = one_way(executor, uris, tasks, parts, outputs, layers)
    if executor.journal is not None:
        noted(executor.journal)
    return _told(decided, layers, extent, bound_s, chosen)


def _told(
    decided: Decided, layers: Sequence[int], extent: int, bound_s: float, chosen: pipeline.Chosen
) -> Decided:
    order = tuple(layers[step.task] for step in decided.steps.steps if isinstance(step, Do))
    cut = MicroBatches(chosen.count, extent, bound_s, chosen.seconds, order)
    decided.kept.plan = replace(decided.kept.plan, micro=cut)
    return decided


def _chosen(
    executor: LocalExecutor,
    uris: tuple[str, ...],
    batch: micro_batches.Batch,
    works: Mapping[int, Sequence[Work]],
    counts: Sequence[int],
) -> tuple[pipeline.Chosen, float]:
    """Returns the best number of micro-batches among `counts` with its predicted seconds (Chosen).

    The second result is a lower bound of the seconds for any number of micro-batches. `works` maps
    the rows of a micro-batch to the work of each task.
    """
    reads, refused = reads_of(batch.tasks), refused_of(executor, uris, batch.tasks)
    once = frozenset(i for i, t in enumerate(batch.tasks) if t.out.number not in batch.cut)

    def stated(works: Sequence[Work]) -> Problem:
        return place_graph.stated(executor.costs, works, reads, uris, refused)[0]

    def later(rows: int) -> Problem:
        """Returns the problem of a micro-batch that is not the first one. Its operands that are not
        cut are on the device already.
        """
        later_works = []
        for task, work in zip(batch.tasks, works[rows], strict=True):
            outside = (v for v in task.arrays if v.kind != "made")
            moved = zip(outside, work.operands, strict=True)
            later_works.append(
                replace(work, operands=tuple(x for v, x in moved if v.number in batch.cut))
            )
        return stated(later_works)

    options, alike = {}, [later(batch.extent)]
    for n in counts:
        (largest, times), *fewer = micro_batches.rows(batch.extent, n).items()
        largest_later = later(largest)
        smaller = [(m, later(rows)) for rows, m in fewer]
        rest = pipeline.total([(times - 1, largest_later), *smaller], once)
        options[n] = pipeline.Option(stated(works[largest]), rest)
        alike.append(pipeline.total([(1, largest_later), (1, rest)]))
    return pipeline.choose(options), pipeline.bound_s(alike)
