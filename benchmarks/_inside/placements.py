"""Random task graphs, and how much worse they are placed when one method of placing tasks is left
out. For benchmarks/placing.py.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import mean
from typing import Any
from unittest import mock

from sparkle_drv.sched.decide import local_search, schedule
from sparkle_drv.sched.decide.dag import Problem, TaskSchedule

Reads = Callable[[int, random.Random], tuple[int, ...]]
FAN = 6
"""Tasks between a fork and its join."""


def some(task: int, chance: random.Random) -> tuple[int, ...]:
    """Returns up to three of the 12 preceding tasks, for a task to read."""
    count = chance.choice((0, 1, 1, 2, 2, 3)) if task else 0
    return tuple(sorted({chance.randrange(max(0, task - 12), task) for _ in range(count)}))


def fork(task: int, _: random.Random) -> tuple[int, ...]:
    """Returns what a task reads in a graph of forks: one task, FAN tasks that read it, one task
    that reads those FAN, and so on.
    """
    first = task - task % (FAN + 1)
    return (first,) if task > first else tuple(range(max(0, first - FAN), first))


FORMS: dict[str, Reads] = {
    "random": some,
    "fork": fork,
    "chain": lambda task, _: (task - 1,) if task else (),
    "apart": lambda *_: (),
}
"""By name, what each task of a graph reads."""


def graph(tasks: int, form: str, seed: int) -> Problem:
    """Returns a random graph of tasks for two to four unequal devices.

    To move a result between devices may take much less time than to compute it, or more. In a
    quarter of the graphs two devices share a lane.
    """
    chance = random.Random(f"{tasks} {form} {seed}")
    devices = chance.choice((2, 2, 3, 4))
    speeds = [10 ** chance.uniform(0, 1) for _ in range(devices)]
    spread = chance.choice((0.15, 0.5))
    kinds = [[10 ** chance.uniform(-spread, spread) for _ in speeds] for _ in range(4)]
    moving = chance.choice((0.03, 0.3, 1.0, 3.0))
    seconds, reads, moves = [], [], {}
    for task in range(tasks):
        work = 10 ** chance.uniform(-1, 1)
        better = chance.choice(kinds)
        seconds.append(tuple(work / s * b for s, b in zip(speeds, better, strict=True)))
        reads.append(FORMS[form](task, chance))
        cost = moving * min(seconds[-1]) * 10 ** chance.uniform(-0.5, 0.5)
        moves.update({(task, *pair): cost for pair in itertools.permutations(range(devices), 2)})
    shared = chance.random() < 0.25
    lanes = (0, 0, *range(1, devices - 1)) if shared else tuple(range(devices))
    return Problem(tuple(seconds), tuple(reads), moves, lanes)


def changes(
    every: Callable[[Problem, TaskSchedule], Iterator[Any]],
    differ: int,
    problem: Problem,
    was: TaskSchedule,
) -> Iterator[Any]:
    """Yields the changes of the schedule `was` that `every(problem, was)` yields, except changes
    that move exactly `differ` tasks to other devices.
    """
    where = was.device_of()
    for change in every(problem, was):
        if sum(change.device[task] != where[task] for task in where) != differ:
            yield change


def without() -> Iterator[tuple[str, Callable[[], AbstractContextManager[object]]]]:
    """Yields (name of a method of placing tasks, a function that leaves this method out). The first
    entry leaves nothing out.
    """
    yield "", nullcontext
    for name in schedule.METHODS:
        rest = {other: made for other, made in schedule.METHODS.items() if other != name}
        yield name, partial(mock.patch.object, schedule, "METHODS", rest)
    for differ, name in enumerate(("earlier places", "other devices", "exchanges")):
        kept = partial(changes, local_search._changes, differ)
        yield name, partial(mock.patch.object, local_search, "_changes", kept)
    yield "two of three starts", partial(mock.patch.object, schedule, "STARTS", 1)
    yield "all improvement", partial(mock.patch.object, schedule, "STARTS", 0)


def measured(tasks: int, graphs: int) -> dict[str, dict[str, float]]:
    """Places graphs without one method of placing tasks at a time. Returns figures by the name of
    the method that is left out.

    There are `graphs` graphs of each shape in FORMS, of `tasks` tasks each. The figures compare the
    predicted times with those that all methods together reach. "ms" is the time to place one graph.
    """
    problems = [graph(tasks, form, seed) for form in FORMS for seed in range(graphs)]
    whole: list[float] = []
    figures = {}
    for name, left_out in without():
        begin = time.perf_counter()
        with left_out():
            lengths = [schedule.place(problem).seconds for problem in problems]
        taken = time.perf_counter() - begin
        whole = whole or lengths
        ratios = [length / best for length, best in zip(lengths, whole, strict=True)]
        figures[name] = {
            "longer": mean(ratio > 1.001 for ratio in ratios),
            "mean": mean(ratios) - 1,
            "worst": max(ratios) - 1,
            "shorter": mean(ratio < 0.999 for ratio in ratios),
            "ms": 1e3 * taken / len(problems),
        }
    return figures
