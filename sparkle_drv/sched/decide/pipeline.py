"""Places a graph in micro-batches, pipelined over devices: device 2 does layer 2 of the first
micro-batch while device 1 does layer 1 of the second. All functions are pure.

A layer is a task of the graph with all its micro-batches, and runs on one device. With equal
micro-batches, a chain takes the time of the first one plus, for each further one, the time of the
slowest stage. With N micro-batches and equal stages that is (N + stages - 1) times one stage. This
formula chooses N; `place` then simulates every task.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .dag import Problem, TaskSchedule, TaskSlot, relaxed_bound

COUNTS = (1, 2, 4, 8, 16)
"""Numbers of micro-batches that "auto" chooses among. The number of rows is added, up to MOST."""
MOST = 64
SEARCHED = 256
"""Largest number of assignments of devices to layers for which all are tried."""
BOUNDED = 4096
"""Largest number of assignments for which all are tried in the search of the lower bound."""
ORDERS = 24
"""Largest number of device orders along the layers from which the local search starts."""
Devices = tuple[int, ...]
"""For each layer, the number of its device."""


@dataclass(frozen=True)
class Option:
    """A graph cut into a number of micro-batches, as two Problems. One is the first micro-batch,
    the other is all later ones. Each task of these Problems is a layer.
    """

    first: Problem
    """The first micro-batch, with the operands that are moved only once."""
    rest: Problem
    """All other micro-batches, added up."""

    def seconds(self, device: Devices) -> float:
        """Returns the predicted seconds from the first start to the last end of all micro-batches.

        `device` has the device of each layer.
        """
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
    """Returns the numbers of micro-batches that "auto" chooses among for a batch of
    `extent` rows.
    """
    return sorted({n for n in (*COUNTS, min(extent, MOST)) if 1 <= n <= extent} or {1})


def total(problems: Sequence[tuple[float, Problem]], once: frozenset[int] = frozenset()) -> Problem:
    """Returns a Problem whose times are weighted sums of the times of several Problems.

    `problems` are (factor, Problem): the times of a Problem are multiplied by its factor. Tasks in
    `once` take no time in the result.
    """
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
    """Returns `problem` with one task for each layer, in place of one for each micro-batch of it.

    The result is an Option: the problem of the first micro-batch, and that of all others together.
    `layers[task]` is the layer of a task of `problem`.
    """
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
    """Returns the best assignment that the search finds: predicted seconds, and the device of each
    layer.
    """
    if len(option.first.lanes) ** len(option.first.reads) <= SEARCHED:
        ways = itertools.product(option.first.devices, repeat=len(option.first.reads))
        return min((option.seconds(way), way) for way in ways)
    return min(_improved(option, start) for start in _starts(option))


def _starts(option: Option) -> Iterator[Devices]:
    """Yields assignments of layers to devices, from which the search for the best one starts.

    The first assignments give all layers to one device. The others take the devices in several
    orders and give each device layers that follow one another.
    """
    rows = option.rest.seconds if any(map(any, option.rest.seconds)) else option.first.seconds
    for device in option.first.devices:
        yield (device,) * len(rows)
    alone = [sum(row[d] for row in rows) for d in option.first.devices]
    share = 1 / sum(1 / max(s, 1e-12) for s in alone)
    for order in itertools.islice(itertools.permutations(option.first.devices), ORDERS):
        left, assignments, taken = list(order), list[int](), 0.0
        for row in rows:
            if len(left) > 1 and taken + row[left[0]] / 2 > share:
                left, taken = left[1:], 0.0
            taken += row[left[0]]
            assignments.append(left[0])
        yield tuple(assignments)


def _improved(option: Option, device: Devices) -> tuple[float, Devices]:
    """Improves an assignment of layers to devices, and returns it with its predicted seconds.

    `device` is the assignment to begin with. Single layers are moved to other devices for as long
    as that saves time.
    """
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
    """Returns a lower bound of the seconds for any number of micro-batches.

    Each Problem in `works` belongs to one number of micro-batches, and has all micro-batches of a
    layer as one task. The bound takes each task's least time among `works`, and assumes that no
    device ever waits. If at most BOUNDED assignments of layers to devices exist, each is tried.
    Otherwise the bound lets a layer be spread over devices.
    """
    several = list(works)
    rows = tuple(
        tuple(map(min, zip(*same, strict=True)))
        for same in zip(*(problem.seconds for problem in several), strict=True)
    )
    least = relaxed_bound(Problem(rows, ((),) * len(rows), {}, several[0].lanes))[0]
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


def place(problem: Problem, layers: Sequence[int]) -> TaskSchedule:
    """Returns a schedule of every task of every micro-batch. A layer stays on one device."""
    where = assigned(collapsed(problem, layers))[1]
    device = [where[layer] for layer in layers]
    return played(problem, ordered(problem, layers, device), device, "pipeline")


def played(
    problem: Problem, order: Sequence[int], device: Sequence[int], by: str = ""
) -> TaskSchedule:
    """Returns a schedule as dag.timed does, but a link between two devices moves one result at a
    time.
    """
    free = dict.fromkeys(problem.lanes, 0.0)
    end, way = [0.0] * len(problem.reads), dict[tuple[int, int], float]()
    # When the result of a task arrives on a device, by (task, device).
    there: dict[tuple[int, int], float] = {}
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
        slots.append(TaskSlot(task, where, start, end[task]))
    return TaskSchedule.of(slots, by)


def ordered(problem: Problem, layers: Sequence[int], device: Sequence[int]) -> list[int]:
    """Returns the tasks in the order in which they can begin. The micro-batches of a layer stay in
    order.

    If tasks can begin at the same time, the task of the earliest micro-batch comes first, because
    the next devices wait for its result.
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
    """The chosen number of micro-batches, and the predicted seconds of every number that was
    considered.
    """

    count: int
    seconds: Mapping[int, float]
    """The predicted seconds for each number of micro-batches."""

    @property
    def least_s(self) -> float:
        """The predicted seconds of `count` micro-batches."""
        return self.seconds[self.count]


def choose(options: Mapping[int, Option]) -> Chosen:
    """Returns the number of micro-batches with the least predicted seconds; of equal ones the
    smallest.
    """
    seconds = {n: assigned(option)[0] for n, option in options.items()}
    return Chosen(min(sorted(seconds), key=seconds.__getitem__), seconds)
