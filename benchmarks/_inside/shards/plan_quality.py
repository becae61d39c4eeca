"""Measures how good plans that split a call are, and counts the pieces that devices compute.

A plan is compared with its bound, and with a simulation of its run, the player (player.py).
Scripts use this file, because they must not import the planner.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.sched.run import sharding
from sparkle_drv.sched.run.shards import Pieces
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import Site

from .machines import drawn, wrong
from .player import Stalls, played_s

UNITS, UNIT_S = 4096, 1e-4
"""The work for devices of given rates: UNIT_S is the seconds of a unit at a rate of 1."""


def judged(seed: int) -> tuple[float, float]:
    """Returns two figures of the plan for a machine that is drawn from the seed.

    The first is the gap between the plan and its bound. The second is the seconds of the simulated
    run (player.py), divided by the predicted seconds.
    """
    m = drawn(seed)
    plan = plan_shares(m.sites, m.count)
    return plan.gap, played_s(plan, m.sites, m.sites) / plan.predicted_s


def planner(seed: int, devices: int) -> Callable[[], object]:
    """Returns a function that plans for a drawn machine of `devices` devices."""
    m = drawn(seed, devices, devices)
    return lambda: plan_shares(m.sites, m.count)


@cache
def _planned(rates: tuple[float, ...]) -> tuple[list[Site], Shares]:
    sites = [Site(f"rate:{at}", Line(0.0, UNIT_S / rate)) for at, rate in enumerate(rates)]
    return sites, plan_shares(sites, UNITS)


def reached(rates: tuple[float, ...], seed: int | None = None) -> float:
    """Returns the seconds of an ideal run divided by those of the simulated run (player.py).

    In the ideal run all devices work all the time. With a seed, the planner's rates are up to 20 %
    wrong.
    """
    sites, plan = _planned(rates)
    true: Sequence[Site] = sites if seed is None else wrong(sites, seed)
    ideal_s = UNITS / sum(1 / site.compute.b for site in true)
    return ideal_s / played_s(plan, sites, true)


def stalled_s(rates: tuple[float, ...], seed: int) -> float:
    """Returns the seconds of a simulated run; one launch in a hundred takes 20 times as long."""
    sites, plan = _planned(rates)
    return played_s(plan, sites, sites, stalls=Stalls(seed))


class Counted:
    """Totals of all calls: pieces, and pieces that were written more than once."""

    def __init__(self) -> None:
        self.calls = self.pieces = self.twice = self.doubled = self.dropped = 0


@contextmanager
def written(counted: Counted) -> Iterator[None]:
    """Counts the pieces that calls write inside the block. Hides log messages about lost
    devices.
    """
    result, write = Pieces.result, Pieces._write
    pieces: dict[Pieces, Counter[Any]] = {}
    log = logging.getLogger("sparkle_drv.sched")
    level = log.level

    def counting(self: Pieces, *args: Any) -> Any:
        its = pieces[self] = Counter[Any]()
        made = result(self, *args)
        counted.calls += 1
        counted.pieces += len(its)
        return made

    def writing(self: Pieces, made: Any, piece: Any, *given: Any) -> None:
        pieces[self][piece] += 1
        counted.twice += pieces[self][piece] == 2
        write(self, made, piece, *given)

    Pieces.result, Pieces._write = counting, writing  # type: ignore
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        Pieces.result, Pieces._write = result, write  # type: ignore
        log.setLevel(level)


@contextmanager
def decisions(micros: list[float]) -> Iterator[None]:
    """Makes each split call inside the block append its decision's microseconds to `micros`."""
    honest = sharding.plan

    def decide(*args: Any) -> Any:
        begin = time.perf_counter()
        made = honest(*args)
        micros.append(1e6 * (time.perf_counter() - begin))
        return made

    sharding.plan = decide  # type: ignore
    try:
        yield
    finally:
        sharding.plan = honest
