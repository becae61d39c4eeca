"""`bench.py kernel --search`: the chooser on a recorded table and on made-up costs, the search with
a clock of its own, and the command.

When this fails, a search for the best launch keeps one that noise chose.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from _bench.jobs.job import Job
from _bench.rows.results import Measured, Row, Subject
from _bench.tune.chooser import Chooser
from _bench.tune.sweep_search import FINALISTS, SweepSearch

TABLE = Path(__file__).parents[3] / "benchmarks" / "_search_table" / "gemm.json"
SQUARE = [{"A": a, "B": b} for a in range(1, 31) for b in range(1, 31)]


def test_a_tenth_of_a_recorded_table_has_a_point_within_2_percent_of_its_best():
    """What a search of a real kernel finds: in 90 of 100 seeds at least."""
    table = json.loads(TABLE.read_text())
    names = table["parameters"]
    points = [
        dict(zip(names, values, strict=True)) for values in itertools.product(*names.values())
    ]
    good = 1.02 * min(table["ns"])
    assert len(points) == len(table["ns"]) == 500
    found = 0
    for seed in range(100):
        chooser = Chooser(points, seed)
        for _ in range(len(points) // 10):
            at = chooser.ask()
            chooser.tell(at, table["ns"][at])
            if table["ns"][at] <= good:
                found += 1
                break
    assert found >= 90


def everything(points, cost):
    """The points in the order asked for, until there is none left."""
    chooser, order = Chooser(points, seed=1), []
    while (at := chooser.ask()) is not None:
        order.append(at)
        chooser.tell(at, cost(points[at]))
    return order


@pytest.mark.parametrize(
    "cost",
    [
        lambda p: 1.0 + p.get("A", 0) * len(str(p.get("W", ""))),
        lambda p: 1.0,  # nothing to learn
        lambda p: None,  # nothing works
        lambda p: None if p.get("A") == 2 else 2.0**900,
    ],
)
def test_every_point_comes_once_the_first_one_first(cost):
    words = [{"A": a, "W": w, "N": 7} for a in (0, 2, 64) for w in ("row", "column", "tile")]
    groups = [{"group_size": size} for size in ("64", "8x8", "16x16x2", "128", "4x4")]
    for points in (words, groups, [{"A": 3}], [{}]):
        order = everything(points, cost)
        assert order[0] == 0
        assert sorted(order) == list(range(len(points)))


def asked(cost, count, seed=0, points=SQUARE):
    """The points of `count` turns."""
    chooser, turns = Chooser(points, seed), []
    for _ in range(count):
        at = chooser.ask()
        turns.append(points[at])
        chooser.tell(at, cost(points[at]))
    return turns


def test_failed_points_are_avoided_and_hide_no_good_one():
    """Four fifths of the space fail, as too large tiles do; the best lies at the border."""

    def cost(p):
        return None if p["A"] * p["B"] > 100 else 10 + abs(p["A"] - 10) + abs(p["B"] - 10)

    turns = asked(cost, 60)
    assert min(c for c in map(cost, turns) if c) <= 12  # 8 of 900 points
    assert sum(cost(p) is None for p in turns[15:]) < 45 / 3


def test_costs_that_span_many_orders_of_magnitude_hide_no_valley():
    def cost(p):
        return math.exp(max(abs(p["A"] - 9), abs(p["B"] - 22))) if p["A"] < 20 else 1e300

    assert min(map(cost, asked(cost, 60))) < math.exp(3.5)  # of exp(21)


def test_a_large_space_is_searched_too():
    points = [{"A": a, "B": b, "C": c} for a in range(25) for b in range(25) for c in range(17)]
    hit = (19, 3, 11)

    def cost(p):
        return 1 + sum((value - best) ** 2 for value, best in zip(p.values(), hit, strict=True))

    assert min(map(cost, asked(cost, 60, points=points))) <= 6  # the nearest few of 10625


class World:
    """Rows of points `A` that take `cost(A)` ns, for `seconds` of a fake clock each. The first row
    of a point is off by `luck(A)`, those of a comparison are true."""

    def __init__(self, cost, seconds=1.0, luck=lambda a: 1.0, size=20):
        self.cost, self.seconds, self.luck = cost, seconds, luck
        self.now, self.kept, self.comparisons = 0.0, {}, []
        job = Job("k", {}, "", (), lambda device: None, 0.0, flops=1.0)
        self.tasks = {
            at: (replace(job, axes={"A": at + 1}, label=f"A={at + 1}"), "hot") for at in range(size)
        }

    def measure(self, job, mode, total):
        self.now += self.seconds
        jobs = (job, *job.rivals)
        assert len({one.kernel for one in jobs}) == len(jobs)
        self.comparisons += [[one.axes["A"] for one in jobs]] if job.rivals else []
        return [self.row(one, 1.0 if job.rivals else self.luck(one.axes["A"])) for one in jobs]

    def row(self, job, factor):
        subject = Subject(job.kernel, "cpu", "CPU", False, job.axes, "hot")
        ns = self.cost(job.axes["A"])
        if ns is None:
            return Row.failed(subject, {"what": "wrong"}, "wrong")
        samples = [ns * factor * (1 + at / 1e4) for at in range(20)]
        return Row(subject, True, {}, Measured(samples, samples, "device", 1, "precision"))

    def put(self, place, rows):
        (self.kept[place],) = rows

    def search(self, budget, known=None):
        search = SweepSearch(budget, 1, lambda: self.now)
        try:
            search.run(self.tasks, known or {}, self.measure, self.put)
        finally:
            self.found = search.found
        return search.found


def test_a_budget_ends_the_search_and_a_larger_one_tries_all():
    world = World(lambda a: 100 + abs(a - 7))
    (found,) = world.search(10)
    assert (found.of, found.tried, found.failed) == (20, len(world.kept), 0)
    assert 5 <= found.tried <= 9
    assert world.now <= 10
    (found,) = World(lambda a: 100 + abs(a - 7)).search(1000)
    assert (found.tried, found.best, found.first) == (20, "A=7", "A=1")
    ratio, low, high = found.ratio
    assert low <= ratio <= high
    assert ratio == pytest.approx(1.06, abs=0.01)
    assert World(lambda a: 100.0).search(1e-9)[0].tried == 1


def test_a_lucky_row_does_not_win():
    world = World(lambda a: 100 + a, luck=lambda a: 0.5 if a == 15 else 1.0)
    (found,) = world.search(1000)
    assert found.best == "A=1"
    assert found.ratio is None  # it is the first point
    (comparison,) = world.comparisons
    assert 15 in comparison
    assert len(comparison) == FINALISTS
    best = [row for row in world.kept.values() if "is_best" in row.extra]
    assert [row.subject.axes["A"] for row in best] == [1]
    assert {row.subject.kernel for row in world.kept.values()} == {"k"}


def test_a_wrong_point_is_never_the_best_also_when_it_is_the_first():
    (found,) = World(lambda a: None if a < 5 else 100 + a).search(1000)
    assert (found.best, found.failed, found.ratio) == ("A=5", 4, None)
    (found,) = World(lambda a: None).search(1000)
    assert (found.tried, found.failed, found.best, found.best_ns) == (20, 20, "", None)


def test_ctrl_c_keeps_what_was_found():
    world = World(lambda a: 100 + a)

    def until(a):
        if len(world.kept) == 6:
            raise KeyboardInterrupt
        return 100.0 + a

    world.cost = until
    with pytest.raises(KeyboardInterrupt):
        world.search(1000)
    (found,) = world.found
    assert (found.tried, found.best) == (6, "A=1")


def test_each_size_is_searched_with_its_share():
    world = World(lambda a: 100 + abs(a - 5))
    half = {at: (replace(job, flops=float(at % 2)), m) for at, (job, m) in world.tasks.items()}
    world.tasks = {at: (replace(job, nbytes=8.0), m) for at, (job, m) in half.items()}
    found = world.search(14)
    assert [one.of for one in found] == [10, 10]
    assert all(3 <= one.tried <= 6 for one in found)


def test_rows_of_an_earlier_run_are_not_measured_again():
    world = World(lambda a: 100 + abs(a - 7))
    known = {at: world.row(world.tasks[at][0], 1.0) for at in range(19)}
    known[3].extra["is_best"] = True  # by a search that saw less
    (found,) = world.search(1000, known)
    assert found.tried == 20
    assert world.now == 2  # one point and the comparison
    assert [at for at, row in world.kept.items() if "is_best" in row.extra] == [6]
    assert "is_best" in known[3].extra  # what is in a report does not change
    assert found.best == "A=7"


C = """
#include <stdint.h>
struct args { float *y; const float *x; };
void scale(const void *v, const uint32_t g[3], const uint32_t s[3])
{
    const struct args *p = v;
    for (uint32_t again = 0; again < SLOW; again++)
        for (volatile uint32_t i = g[0] * s[0]; i < (g[0] + 1) * s[0]; i++)
            p->y[i] = 3 * p->x[i];
}
"""
SWEEP = ("-D", "SLOW=0,40,1", "--group-size", "256", "--groups", "4")
ARGS = ("--arg", "out:f32[1024]", "--arg", "in:f32[1024]")


@pytest.fixture
def folder(tmp_path, monkeypatch, in_this_process):
    (tmp_path / "a.c").write_text(C)
    (tmp_path / "r.py").write_text("def f(x):\n    return 3 * x\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_marks_the_best_and_keeps_every_row(bench, folder, capsys):
    words = ("--ref", "r.py:f", "--search", "60", "--timeout", "0.05", "--json", "o.json")
    assert bench("kernel", "a.c:scale", *ARGS, *SWEEP, *words, "--csv", "o.csv") == 1  # SLOW=0
    document = json.loads((folder / "o.json").read_text())
    (found,) = document["search"]
    assert (found["tried"], found["failed"], found["of"]) == (3, 1, 3)
    assert found["best"] == "SLOW=1"
    rows = document["results"]
    assert [row["axes"]["SLOW"] for row in rows if row["verified"]] == [40, 1]
    assert [row["axes"]["SLOW"] for row in rows if row.get("is_best")] == [1]
    assert (folder / "o.csv").read_text().count("the best that --search found") == 1
    said = capsys.readouterr()
    assert "best found" in said.out
    assert said.err.count("FAILED a.c:scale SLOW=0 hot: before timing: wrong result") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-D", "SLOW=1", "--ref", "r.py:f", "--search", "1"), "--search: expected a sweep"),
        ((*SWEEP, "--search", "1"), "--search: expected --ref"),
        ((*SWEEP, "--ref", "r.py:f", "--search", "1", "--vs", "a.c:scale"), "--search and --vs"),
        ((*SWEEP, "--ref", "r.py:f", "--search", "0"), "invalid positive value|positive number"),
        ((*SWEEP, "--ref", "r.py:f", "--search", "-3"), "positive number"),
        ((*SWEEP, "--ref", "r.py:f", "--search", "nan"), "positive number"),
    ],
)
def test_what_cannot_be_searched_is_wrong_usage(bench, folder, capsys, words, said):
    try:
        code = bench("kernel", "a.c:scale", *ARGS, *words)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert re.search(said, capsys.readouterr().err)
