"""A graph in micro-batches, on several devices as a pipeline: device 2 does layer 2 of the first
while device 1 does layer 1 of the second. Pure.

A layer is a task with all its micro-batches; it keeps one device. With equal micro-batches a chain
takes what the first one takes, and the slowest stage for each of the others: for equal stages that
is (N + stages - 1) times one of them. Choosing goes by that; `place` then plays every task.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .dag import Problem, Schedule, Slot, priced

COUNTS = (1, 2, 4, 8, 16)
"""Micro-batches that "auto" chooses among, and the batch itself up to MOST."""
MOST = 64
SEARCHED = 256
"""Ways to give devices to layers, up to which all are looked at."""
BOUNDED = 4096
"""The same for the lower bound."""
ORDERS = 24
"""Orders of devices along the layers, at most, in which an improvement begins elsewhere."""
Devices = tuple[int, ...]
"""By layer, its device."""


@dataclass(frozen=True)
class Option:
    """A graph in so many micro-batches; each task of a Problem is a layer."""

    first: Problem
    """Of the first micro-batch, with what is brought once."""
    rest: Problem
    """Of all others together."""

    def seconds(self, device: Devices) -> float:
        """Predicted, from the first start to the last end."""
        begin = played(self.first, range(len(device)), device).seconds
        load: dict[object, float] = {}
        for layer, where in enumerate(device):
            lane = self.rest.lanes[where]
            load[lane] = load.get(lane, 0.0) + self.rest.seconds[layer][where]
            for to in {device[reader] for reader in self.rest.readers[layer]}:
                way = where, to
                load[way] = load.get(way, 0.0) + self.rest.move(layer, where, to)
        return begin + max(load.values())


def counts(extent: int) -> list[int]:
    """What "auto" chooses among for a batch of so many rows."""
    return sorted({n for n in (*COUNTS, min(extent, MOST)) if 1 <= n <= extent} or {1})


def total(problems: Sequence[tuple[float, Problem]], once: frozenset[int] = frozenset()) -> Problem:
    """Tasks that take so many times what these take, together; those of `once` take nothing."""
    last = problems[0][1]
    tasks, moves = range(len(last.reads)), dict.fromkeys(last.moves, 0.0)
    seconds = [[0.0] * len(last.lanes) for _ in tasks]
    for times, problem in problems:
        for task, row in enumerate(problem.seconds if times else ()):
            if task not in once:
                now = zip(seconds[task], row, strict=True)
                seconds[task] = [a + times * b for a, b in now]
        for move in moves if times else ():
            if move[0] not in once:
                moves[move] += times * problem.moves[move]
    return Problem(tuple(map(tuple, seconds)), last.reads, moves, last.lanes)


def collapsed(problem: Problem, layers: Sequence[int]) -> Option:
    """The layers of a problem that has every task of every micro-batch; `layers` says whose."""
    first: dict[int, int] = {}
    for task, layer in enumerate(layers):
        first.setdefault(layer, task)
    count, lanes = len(first), problem.lanes
    reads = tuple(tuple(layers[s] for s in problem.reads[first[i]]) for i in range(count))
    rest = [[0.0] * len(lanes) for _ in first]
    moves, others = {}, dict[tuple[int, int, int], float]()
    for (task, a, b), way_s in problem.moves.items():
        key = layers[task], a, b
        if task == first[layers[task]]:
            moves[key] = way_s
        else:
            others[key] = others.get(key, 0.0) + way_s
    for task, layer in enumerate(layers):
        if task != first[layer]:
            rest[layer] = [a + b for a, b in zip(rest[layer], problem.seconds[task], strict=True)]
    rows = tuple(problem.seconds[first[i]] for i in range(count))
    return Option(
        Problem(rows, reads, moves, lanes), Problem(tuple(map(tuple, rest)), reads, others, lanes)
    )


def assigned(option: Option) -> tuple[float, Devices]:
    """(predicted seconds, the devices of the layers) that are the best that is found."""
    if len(option.first.lanes) ** len(option.first.reads) <= SEARCHED:
        ways = itertools.product(option.first.devices, repeat=len(option.first.reads))
        return min((option.seconds(way), way) for way in ways)
    return min(_improved(option, start) for start in _starts(option))


def _starts(option: Option) -> Iterator[Devices]:
    """Each device alone, and the layers in runs, one device after the other, in several orders."""
    rows = option.rest.seconds if any(map(any, option.rest.seconds)) else option.first.seconds
    for device in option.first.devices:
        yield (device,) * len(rows)
    alone = [sum(row[d] for row in rows) for d in option.first.devices]
    share = 1 / sum(1 / max(s, 1e-12) for s in alone)
    for order in itertools.islice(itertools.permutations(option.first.devices), ORDERS):
        left, found, taken = list(order), list[int](), 0.0
        for row in rows:
            if len(left) > 1 and taken + row[left[0]] / 2 > share:
                left, taken = left[1:], 0.0
            taken += row[left[0]]
            found.append(left[0])
        yield tuple(found)


def _improved(option: Option, device: Devices) -> tuple[float, Devices]:
    """`device` with single layers moved for as long as that shortens it."""
    best = option.seconds(device), device
    while True:
        now = best[1]
        for layer, to in itertools.product(range(len(now)), option.first.devices):
            if to != now[layer]:
                moved = (*now[:layer], to, *now[layer + 1 :])
                best = min(best, (option.seconds(moved), moved))
        if best[1] == now:
            return best


def bound_s(works: Iterable[Problem]) -> float:
    """Seconds that no number of micro-batches undercuts: they are a fluid, so that every device
    works all the time, on what its layers take in the cheapest of `works` (all micro-batches of a
    layer together). Where there are few, layers are whole; else they may be spread, too.
    """
    several = list(works)
    rows = tuple(
        tuple(map(min, zip(*same, strict=True)))
        for same in zip(*(problem.seconds for problem in several), strict=True)
    )
    least = priced(Problem(rows, ((),) * len(rows), {}, several[0].lanes))[0]
    lanes = several[0].lanes
    if len(lanes) ** len(rows) > BOUNDED:
        return least
    busiest = []
    for way in itertools.product(range(len(lanes)), repeat=len(rows)):
        load = dict.fromkeys(lanes, 0.0)
        for row, device in zip(rows, way, strict=True):
            load[lanes[device]] += row[device]
        busiest.append(max(load.values()))
    return max(least, min(busiest))


def place(problem: Problem, layers: Sequence[int]) -> Schedule:
    """Every task of every micro-batch; a layer keeps its device."""
    where = assigned(collapsed(problem, layers))[1]
    device = [where[layer] for layer in layers]
    return played(problem, ordered(problem, layers, device), device, "pipeline")


def played(problem: Problem, order: Sequence[int], device: Sequence[int], by: str = "") -> Schedule:
    """As dag.timed, but that a way between two devices moves one result after the other."""
    free = dict.fromkeys(problem.lanes, 0.0)
    end, way = [0.0] * len(problem.reads), dict[tuple[int, int], float]()
    there: dict[tuple[int, int], float] = {}  # (task, device): when its result is there
    slots = []
    for task in order:
        where = device[task]
        lane = problem.lanes[where]
        start = free[lane]
        for source in problem.reads[task]:
            came = end[source]
            if device[source] != where:
                if (source, where) not in there:
                    pair = device[source], where
                    begin = max(came, way.get(pair, 0.0))
                    there[source, where] = way[pair] = begin + problem.move(source, *pair)
                came = there[source, where]
            start = max(start, came)
        end[task] = free[lane] = start + problem.seconds[task][where]
        slots.append(Slot(task, where, start, end[task]))
    return Schedule.of(slots, by)


def ordered(problem: Problem, layers: Sequence[int], device: Sequence[int]) -> list[int]:
    """Tasks by when they can begin; among several the earliest micro-batch, whose results the next
    devices wait for. A layer's micro-batches stay in order.
    """
    queues: dict[int, list[int]] = {}
    for task, layer in enumerate(layers):
        queues.setdefault(layer, []).append(task)
    at, free = dict.fromkeys(queues, 0), dict.fromkeys(problem.lanes, 0.0)
    end: dict[int, float] = {}
    order: list[int] = []
    while len(order) < len(layers):
        best: tuple[float, int, int] | None = None
        for layer, queue in queues.items():
            if at[layer] == len(queue):
                continue
            task = queue[at[layer]]
            if any(s not in end for s in problem.reads[task]):
                continue
            to = device[task]
            came = (end[s] + problem.move(s, device[s], to) for s in problem.reads[task])
            start = max(free[problem.lanes[to]], *came, 0.0)
            best = min(best or (start, at[layer], layer), (start, at[layer], layer))
        assert best is not None
        start, _, layer = best
        task = queues[layer][at[layer]]
        at[layer] += 1
        end[task] = free[problem.lanes[device[task]]] = start + problem.seconds[task][device[task]]
        order.append(task)
    return order


@dataclass(frozen=True)
class Chosen:
    """How many micro-batches, and what others were predicted to take."""

    count: int
    seconds: Mapping[int, float]
    """By number of micro-batches."""

    @property
    def least_s(self) -> float:
        """Those of `count`."""
        return self.seconds[self.count]


def choose(options: Mapping[int, Option]) -> Chosen:
    """The least predicted seconds, by number of micro-batches; the fewer of two alike."""
    seconds = {n: assigned(option)[0] for n, option in options.items()}
    return Chosen(min(sorted(seconds), key=seconds.__getitem__), seconds)
