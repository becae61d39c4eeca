"""`kernel --search`: tries as many points of a sweep as a budget allows, then compares the best in
a final comparison.

chooser.py chooses the next point. Each point becomes a row like any other, verified before it is
timed. The final comparison times the best few and the first point again, in turns, so that a lucky
row does not win. Points compete when they have the same mode and the same flops (or bytes, if there
are no flops): such points are of one size. The budget is divided among the sizes. Called by
commands/runner.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from _bench.jobs.job import Job
from _bench.rows import stats
from _bench.rows.results import Row

from .chooser import Chooser

Task = tuple[Job, str]
FINALISTS = 4  # number of best points that are timed again, together with the first point
AGAIN, BEST = "timed again in turns with the best", "the best that --search found"
FINAL_SHARE = 0.15  # share of the budget for the final comparison
ROWS = 60
"""The budget should suffice for so many points: each point gets at most 1 / ROWS of it."""


@dataclass(frozen=True)
class Found:
    """The result of the search among all points of one size of the problem. `ratio` is the first
    point's time over the best point's with its 95 % interval, from the samples of the final
    comparison. It is None if the two points were not compared there.
    """

    kernel: str
    device: str
    mode: str
    tried: int
    failed: int
    of: int
    best: str = ""
    best_ns: float | None = None
    first: str = ""
    ratio: tuple[float, float, float] | None = None


@dataclass
class SweepSearch:
    """Searches the best kernel of a sweep for each size, `budget_s` seconds per device.

    `found` gets an entry after each size, even when Ctrl-C ends the search of that size.
    """

    budget_s: float
    seed: int = 0
    clock: Callable[[], float] = time.monotonic
    found: list[Found] = field(default_factory=list)

    def run(
        self,
        tasks: Mapping[int, Task],
        known: Mapping[int, Row],
        measure: Callable[[Job, str, int], Sequence[Row]],
        put: Callable[[int, Sequence[Row]], None],
    ) -> None:
        """Searches each size in turn. `tasks` maps the number of a task to its job and mode. Each
        point has one task. `known` maps the number of a task to the row that an earlier run
        measured.

        `measure` returns the rows of a job and its rivals. Its last argument is the expected number
        of measurements, for the progress line. `put(number, rows)` stores the rows of a task.
        """
        sizes: dict[tuple[Any, ...], dict[int, Task]] = {}
        for place, (job, mode) in tasks.items():
            key = job.kernel, mode, job.flops or job.nbytes
            sizes.setdefault(key, {})[place] = job, mode
        end, left = self.clock() + self.budget_s, len(sizes)
        for points in sizes.values():
            share = (end - self.clock()) / left
            done = {place: known[place] for place in points if place in known}
            one = _One(points, measure, put, self.clock, share, self.seed, done)
            try:
                one.run()
            finally:
                if one.rows:
                    self.found.append(one.outcome())
            left -= 1

    def as_json(self) -> list[dict[str, Any]]:
        return [asdict(one) for one in self.found]


@dataclass
class _One:
    """The search for the best kernel among all points of one size of the problem."""

    tasks: Mapping[int, Task]
    measure: Callable[[Job, str, int], Sequence[Row]]
    put: Callable[[int, Sequence[Row]], None]
    clock: Callable[[], float]
    budget_s: float
    seed: int
    rows: dict[int, Row]
    finalists: list[int] = field(default_factory=list)

    def run(self) -> None:
        places = list(self.tasks)
        chooser = Chooser([self.tasks[place][0].axes for place in places], self.seed)
        for place, row in list(self.rows.items()):
            if "is_best" in row.extra:
                self._keep(place, _unmarked(row))
            chooser.tell(places.index(place), _cost(row))
        start, until = self.clock(), (1 - FINAL_SHARE) * self.budget_s
        done, total = 0, len(places) - len(self.rows)
        while (at := chooser.ask()) is not None:
            spent = self.clock() - start
            if done:
                if spent + spent / done > until:
                    break
                total = min(len(places), int(done * until / spent))
            done += 1
            row = self.measure(*self.tasks[places[at]], max(done, total))[0]
            self._keep(places[at], row)
            chooser.tell(at, _cost(row))
        self._duel()

    def _keep(self, place: int, row: Row) -> None:
        self.rows[place] = row
        self.put(place, [row])

    def _duel(self) -> None:
        """Measures the best points and the first point again, in turns with each other. The new
        rows replace the earlier rows of these points.
        """
        first = next(iter(self.tasks))
        self.finalists = list(dict.fromkeys([*self._ranked(self.rows)[:FINALISTS], first]))
        self.finalists = [at for at in self.finalists if at in self.rows and _cost(self.rows[at])]
        if len(self.finalists) < 2:
            return
        jobs = [self.tasks[place][0] for place in self.finalists]
        mode = self.tasks[first][1]
        rivals = tuple(
            replace(job, kernel=f"{job.kernel} {job.label}", inputs_of=jobs[0].kernel)
            for job in jobs[1:]
        )
        again = self.measure(replace(jobs[0], rivals=rivals), mode, len(self.rows) + 1)
        for place, row in zip(self.finalists, again, strict=True):
            row.subject = replace(row.subject, kernel=jobs[0].kernel)
            row.extra.pop("versus", None)
            row.notes.append(AGAIN)
            self.rows[place] = row
        best = self._best()
        if best in self.finalists:
            self.rows[best].notes.append(BEST)
            self.rows[best].extra["is_best"] = True
        for place in self.finalists:
            self.put(place, [self.rows[place]])

    def _ranked(self, places: Iterable[int]) -> list[int]:
        """Returns the task numbers in `places` that have a correct row, the fastest first."""
        costs = {place: _cost(self.rows[place]) for place in places}
        right = {place: cost for place, cost in costs.items() if cost is not None}
        return sorted(right, key=right.__getitem__)

    def _best(self) -> int | None:
        """Returns the number of the task whose row is best: by the final comparison if there was
        one, otherwise by all rows. None if no row is correct.
        """
        ranked = self._ranked(self.finalists or self.rows) or self._ranked(self.rows)
        return ranked[0] if ranked else None

    def outcome(self) -> Found:
        first, best = next(iter(self.tasks)), self._best()
        row = self.rows.get(first) or next(iter(self.rows.values()))
        failed = sum(_cost(one) is None for one in self.rows.values())
        found = Found(
            *(row.subject.kernel, row.subject.device, row.subject.mode),
            *(len(self.rows), failed, len(self.tasks)),
            first=self.tasks[first][0].label,
        )
        if best is None:
            return found
        winner = self.rows[best]
        ratio = None
        if (
            best != first
            and {best, first} <= set(self.finalists)
            and row.measured
            and winner.measured
        ):
            samples = winner.measured.samples, row.measured.samples
            ratio = (
                stats.summarize(samples[1]).median / stats.summarize(samples[0]).median,
                *stats.ratio_interval(*samples, self.seed),
            )
        return replace(found, best=self.tasks[best][0].label, best_ns=_cost(winner), ratio=ratio)


def _unmarked(row: Row) -> Row:
    """Returns a copy of an earlier run's row without the mark of the best row. The row may now lose
    to a row of this run.
    """
    extra = {key: value for key, value in row.extra.items() if key != "is_best"}
    return replace(row, extra=extra, notes=[note for note in row.notes if note != BEST])


def _cost(row: Row) -> float | None:
    """Returns the ns per launch, or None if the row is wrong or failed."""
    return row.time.median if row.verified and row.time else None
