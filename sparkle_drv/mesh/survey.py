"""Measures the links between devices, with programs like those that use the links later.

A measurement is the time of a step in the runner (lanes/runner.py): it includes the calls from
Python, but no allocation. The first step of each size is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain, permutations
from typing import Any

import numpy as np

from .lanes.array_runner import Ways, run_on_arrays
from .lanes.program import Lane, Program, Reduce, Region, RegionCopy, Step
from .lanes.runner import Ran
from .links.line import LEAST_SIZES, Point
from .links.probe import EACH, NoTimes, usable_points
from .survey_result import SurveyResult

SIZES = (1 << 12, 1 << 16, 1 << 20, 1 << 23, 1 << 25)
"""Bytes of the measured transfers of a link. The last size exceeds most caches."""
PORT_SIZES = (1 << 18, 1 << 24)
"""Bytes in each direction when several transfers run at once."""
ENOUGH_S = 0.1
"""Real seconds for one direction of a link. The next size is left out if it would exceed them."""


def survey(ways: Ways, places: Sequence[str] = (), **clocked: Any) -> SurveyResult:
    """Measures all links between `places`, by default all devices of `ways`. An error of a device
    is raised, such as DeviceLost.

    `clocked` is passed on to runner.run (lanes/runner.py). Each direction of a link is measured
    only once.
    """
    places = places or tuple(ways.devices)
    meter = _Survey(ways, clocked)
    pairs = list(permutations(places, 2))
    alone = {pair: way(ways, *pair, **clocked) for pair in pairs}
    adds = {place: meter.points([place], meter.sizes) for place in places}
    if len(places) < 2:
        return SurveyResult(alone, adds)
    most = {place: [pair for pair in pairs if place in pair] for place in places}
    boths = {place: meter.points(most[place], PORT_SIZES) for place in places}
    if len(places) == 2:
        return SurveyResult(alone, adds, boths=boths)
    out = {p: meter.points([pair for pair in pairs if pair[0] == p], PORT_SIZES) for p in places}
    into = {p: meter.points([pair for pair in pairs if pair[1] == p], PORT_SIZES) for p in places}
    return SurveyResult(alone, adds, out, into, boths)


def way(ways: Ways, source: str, to: str, **clocked: Any) -> list[Point]:
    """Returns the (bytes, seconds) of transfers from one device of `ways` to another. They are
    measured once and kept in ways.points. An error of a device is raised, such as DeviceLost.
    """
    pair = source, to
    if pair not in ways.points:
        one = _Survey(ways, clocked)
        ways.points[pair] = one.points([pair], one.sizes)
    return ways.points[pair]


What = tuple[str, str] | str
"""What to measure: (from, to) for a copy, or a place for an addition."""


class _Survey:
    """Runs one measurement after another."""

    def __init__(self, ways: Ways, clocked: Mapping[str, Any]) -> None:
        self.ways, self.clocked = ways, clocked
        self.virtual = clocked.get("clock", time.perf_counter) != time.perf_counter
        self.sizes = SIZES[:-1] if self.virtual else SIZES  # simulated devices have no caches

    def points(self, whats: Sequence[What], sizes: Iterable[int]) -> list[Point]:
        """Measures, for each size, the copies and additions in `whats`, all running at once.
        Returns points: (the sum of their bytes, seconds).

        The measurement stops before a size that does not fit into a device or would take too long.
        """
        measured: list[Point] = []
        begin = time.perf_counter()
        for at, nbytes in enumerate(sizes):
            try:
                spent, ran = self._ran(whats, nbytes)
            except MemoryError:
                if not measured:
                    raise
                break
            measured += [(nbytes * len(whats), seconds) for seconds in _rounds(ran, len(whats))]
            # Measurements on a virtual clock must not depend on the real one.
            late = not self.virtual and time.perf_counter() - begin + 16 * spent > ENOUGH_S
            if late and at + 1 >= LEAST_SIZES:
                break
        try:
            return usable_points(measured)
        except NoTimes as error:
            named = (what if isinstance(what, str) else " to ".join(what) for what in whats)
            raise NoTimes(f"measurement of {', '.join(named)}: {error}") from error

    def _ran(self, whats: Sequence[What], nbytes: int) -> tuple[float, list[Ran]]:
        """Runs the copies and additions in `whats` at once, EACH + 1 times, on `nbytes` each.
        Returns the real seconds of all these runs, and when each step ran.
        """
        ends = ((what,) if isinstance(what, str) else what for what in whats)
        with ExitStack() as stack:
            arrays = {
                uri: stack.enter_context(
                    self.ways.devices[uri].array(np.ones(nbytes // 4, np.float32))
                )
                for uri in dict.fromkeys(chain.from_iterable(ends))
            }
            patience_s = max(self.ways.devices[uri].default_queue.timeout_s for uri in arrays)
            begin = time.perf_counter()
            ran = run_on_arrays(
                _repeated(whats, nbytes, patience_s), arrays, self.ways, **self.clocked
            )
            return time.perf_counter() - begin, ran


def _repeated(whats: Sequence[What], nbytes: int, patience_s: float) -> Program:
    """Builds a program of EACH + 1 rounds. A round does each copy and addition in `whats` once, all
    at the same time. It begins when the round before has ended.

    A step that takes longer than `patience_s` has failed.
    """
    steps: list[Step] = []
    last: tuple[int, ...] = ()
    for _ in range(EACH + 1):
        begin, ends = len(steps), list[str]()
        for what in whats:
            to = what if isinstance(what, str) else what[1]
            # Several transfers may go to one place. Each one writes to its own part of "temp".
            temp = Region(to, "temp", ends.count(to) * nbytes, nbytes)
            ends.append(to)
            steps.append(_step(len(steps), what, temp, last, patience_s))
        last = tuple(range(begin, len(steps)))
    return Program(tuple(steps))


def _step(number: int, what: What, temp: Region, after: tuple[int, ...], patience_s: float) -> Step:
    if isinstance(what, str):
        reduce = Reduce(temp, Region(what, "data", 0, temp.nbytes))
        return Step(number, Lane(what), reduce, after, deadline_s=patience_s)
    source, to = what
    copy = RegionCopy(Region(source, "data", 0, temp.nbytes), temp)
    return Step(number, Lane(source, to), copy, after, deadline_s=patience_s)


def _rounds(ran: Sequence[Ran], count: int) -> list[float]:
    """Returns the duration in seconds of each round of `count` steps, without the first round.

    A round lasts from the start of its first step to the end of its last step.
    """
    rounds = [ran[at : at + count] for at in range(count, len(ran), count)]
    return [max(r.end_s for r in one) - min(r.start_s for r in one) for one in rounds]
