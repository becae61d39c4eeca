"""Micro-batches as data: what is cut, how many there should be, and the bound. No device.

When this fails, micro-batches are cut wrongly, or too many.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from sparkle_drv.sched.decide import pipeline
from sparkle_drv.sched.decide.dag import Problem
from sparkle_drv.sched.graph.place import micro_batches
from sparkle_drv.sched.model.task import Task, Value

F32 = np.dtype(np.float32)


def value(number, *shape, kind="made"):
    return Value(number, shape, F32, None, kind)


def perceptron():
    """gemm, a bias by a map whose scale is made in the graph, gemm; 7 rows."""
    x, w, v, s = (value(i, *d, kind="numpy") for i, d in enumerate([(7, 5), (5, 4), (4, 2), (4,)]))
    h, t, z, y = value(4, 7, 4), value(5, 4), value(6, 7, 4), value(7, 7, 2)
    return [
        Task("gemm", {"a": x, "b": w}, h, made_of=("gemm",)),
        Task("layout", {"a": s}, t, made_of=("scale",)),
        Task("gemm", {"a": h, "b": value(8, 4, 4, kind="numpy"), "bias": t}, z, made_of=("gemm",)),
        Task("gemm", {"a": z, "b": v}, y, made_of=("gemm",)),
    ]


def test_parts_are_views_of_the_batch_and_weights_are_whole():
    batch = micro_batches.batch(perceptron(), {7})
    assert batch.extent == 7
    assert batch.cut == {0, 4, 6, 7}
    tasks, layers = batch.parts(4)
    assert layers == [1, *([0, 2, 3] * 4)]  # what is whole comes first, once
    assert [t.reads["a"].part for t in tasks if t.reads["a"].whole == 0] == [
        (0, 0, 2), (0, 2, 4), (0, 4, 6), (0, 6, 7),
    ]  # fmt: skip
    numbers = [task.out.number for task in tasks]
    assert len(set(numbers)) == len(numbers)
    assert {t.reads["b"].number for t in tasks if t.op == "gemm"} == {1, 2, 8}
    made = {0, 1, 2, 3, 8}
    for task in tasks:  # each behind what it reads, of as many rows
        reads = [v for v in task.arrays if v.kind == "made"]
        assert all(v.number in made or v.number in numbers[: numbers.index(task.out.number)]
                   for v in reads)  # fmt: skip
        if task.op == "gemm":
            assert task.reads["a"].shape[0] == task.out.shape[0]


@pytest.mark.parametrize(("extent", "count"), [(7, 4), (1, 1), (16, 16), (100, 8), (9, 2)])
def test_ranges_tile_the_batch_evenly(extent, count):
    found = micro_batches.ranges(extent, count)
    assert [row for begin, end in found for row in range(begin, end)] == list(range(extent))
    sizes = [end - begin for begin, end in found]
    assert len(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert sum(rows * times for rows, times in micro_batches.rows(extent, count).items()) == extent


def chain(rows, way_s=0.0):
    devices, layers = range(len(rows[0])), range(len(rows))
    moves = {(t, a, b): way_s for t in layers for a in devices for b in devices if a != b}
    reads = tuple((t - 1,) if t else () for t in layers)
    return Problem(tuple(map(tuple, rows)), reads, moves, tuple(devices))


@pytest.mark.parametrize("count", [1, 4, 16])
def test_equal_stages_take_the_textbooks_time(count):
    """(N + stages - 1) stages, each launch with its fixed cost."""
    work_s, launch_s, stages = 0.3, 0.001, 3
    each = work_s / count + launch_s
    first = chain([[each] * stages] * stages)
    seconds, device = pipeline.assigned(
        pipeline.Option(first, pipeline.total([(count - 1, first)]))
    )
    if count > 1:
        assert sorted(device) == [0, 1, 2]
    assert seconds == pytest.approx((count + stages - 1) * each)


def options(launch_s, counts=(1, 2, 4, 8, 16)):
    made = {}
    for n in counts:
        first = chain([[0.1 / n + launch_s] * 3] * 3, way_s=launch_s / 2)
        made[n] = pipeline.Option(first, pipeline.total([(n - 1, first)]))
    return made


def test_dear_launches_make_for_fewer_micro_batches():
    found = [pipeline.choose(options(launch_s)).count for launch_s in (1e-5, 5e-3, 0.02, 0.2)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 16
    assert found[-1] == 1
    chosen = pipeline.choose(options(5e-3))
    assert chosen.least_s == min(chosen.seconds.values())


def expanded(rows, count, way_s):
    """Every task of every micro-batch of a chain, and its layer."""
    layers = [layer for _ in range(count) for layer in range(len(rows))]
    reads = [(t - 1,) if layer else () for t, layer in enumerate(layers)]
    pairs = itertools.permutations(range(len(rows[0])), 2)
    moves = {(t, *pair): way_s for pair in pairs for t in range(len(layers))}
    seconds = tuple(tuple(rows[layer]) for layer in layers)
    return Problem(seconds, tuple(reads), moves, tuple(range(len(rows[0])))), layers


@pytest.mark.parametrize("seed", range(20))
def test_placed_pipelines_keep_layers_whole_and_are_near_the_best_there_is(seed):
    draw = random.Random(seed)
    devices, count = draw.randint(2, 3), draw.choice([2, 5, 12])
    rows = [[draw.uniform(1, 4) for _ in range(devices)] for _ in range(draw.randint(2, 5))]
    problem, layers = expanded(rows, count, draw.choice([0.0, 0.3, 2.0]))
    schedule = pipeline.place(problem, layers)
    home: dict[int, int] = {}
    end = [0.0] * len(layers)
    for slot in schedule.slots:
        assert home.setdefault(layers[slot.task], slot.device) == slot.device
        end[slot.task] = slot.end
    for slot in schedule.slots:
        for source in problem.reads[slot.task]:
            way_s = problem.move(source, home[layers[source]], slot.device)
            assert slot.start >= end[source] + way_s - 1e-9
    bound_s = pipeline.bound_s([pipeline.total([(count, chain(rows))])])
    best = min(
        pipeline.played(problem, pipeline.ordered(problem, layers, device), device).seconds
        for way in itertools.product(range(devices), repeat=len(rows))
        for device in [[way[layer] for layer in layers]]
    )
    assert bound_s <= best * (1 + 1e-9)
    assert schedule.seconds <= 1.05 * best


@pytest.mark.parametrize("seed", range(6))
def test_a_search_step_by_step_is_near_that_of_all(seed, monkeypatch):
    draw = random.Random(seed)
    rows = [[draw.uniform(1, 3) for _ in range(3)] for _ in range(5)]
    first = chain(rows, way_s=draw.choice([0.01, 0.2]))
    option = pipeline.Option(first, pipeline.total([(15, first)]))
    all_s, _ = pipeline.assigned(option)
    monkeypatch.setattr(pipeline, "SEARCHED", 0)
    seconds, device = pipeline.assigned(option)
    assert seconds == option.seconds(device)
    assert all_s <= seconds <= 1.15 * all_s


def test_what_all_parts_read_counts_once():
    first = chain([[1.0, 2.0], [3.0, 4.0]], way_s=0.5)
    rest = pipeline.total([(3, first)], frozenset({0}))
    assert rest.seconds == ((0.0, 0.0), (9.0, 12.0))
    assert rest.moves[0, 0, 1] == 0.0


def test_a_batch_of_its_own_is_among_the_numbers_to_choose_from():
    assert pipeline.counts(7) == [1, 2, 4, 7]
    assert pipeline.counts(1) == [1]
    assert pipeline.counts(20) == [1, 2, 4, 8, 16, 20]
    assert pipeline.counts(10**6)[-1] == pipeline.MOST
