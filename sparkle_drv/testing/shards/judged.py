"""Plans relative to their bound and to the player; counts of what shared calls write.

For benchmarks/, which must not know the planner.
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
from sparkle_drv.mesh.links.network import Port
from sparkle_drv.sched.run.sharding import Sharding
from sparkle_drv.sched.run.shards import Pieces
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import Site

from .machines import drawn, wrong
from .player import Stalls, played_s

UNITS, UNIT_S = 4096, 1e-4
"""The work for devices of given rates: UNIT_S is the seconds of a unit at a rate of 1."""


def judged(seed: int) -> tuple[float, float]:
    """For a drawn machine: (gap of its plan to the bound, played over predicted seconds)."""
    m = drawn(seed)
    plan = plan_shares(m.sites, m.count, m.host)
    return plan.gap, played_s(plan, m.sites, m.sites, m.host) / plan.predicted_s


def planner(seed: int, devices: int) -> Callable[[], object]:
    """A function that plans for a drawn machine of `devices` devices."""
    m = drawn(seed, devices, devices)
    return lambda: plan_shares(m.sites, m.count, m.host)


@cache
def _planned(rates: tuple[float, ...]) -> tuple[list[Site], Shares]:
    sites = [Site(f"rate:{at}", Line(0.0, UNIT_S / rate)) for at, rate in enumerate(rates)]
    return sites, plan_shares(sites, UNITS)


def reached(rates: tuple[float, ...], seed: int | None = None) -> float:
    """Seconds if devices of these rates worked all the time, over those of the player. With a seed
    the rates are up to 20 % wrong.
    """
    sites, plan = _planned(rates)
    true: Sequence[Site] = sites if seed is None else wrong(sites, seed)
    ideal_s = UNITS / sum(1 / site.compute.b for site in true)
    return ideal_s / played_s(plan, sites, true, Port())


def stalled_s(rates: tuple[float, ...], seed: int) -> float:
    """Seconds of the player if one launch in a hundred takes 20 times as long."""
    sites, plan = _planned(rates)
    return played_s(plan, sites, sites, Port(), stalls=Stalls(seed))


class Counted:
    """Over all calls: pieces, and those that were written more than once."""

    def __init__(self) -> None:
        self.calls = self.pieces = self.twice = self.doubled = self.dropped = 0


@contextmanager
def written(counted: Counted) -> Iterator[None]:
    """Counts what calls write inside the block. Losses of devices are not logged."""
    result, write = Pieces.result, Pieces._write
    pieces: dict[Pieces, Counter[Any]] = {}
    log = logging.getLogger("sparkle_drv.sched")
    level = log.level

    def counting(self: Pieces, *given: Any) -> Any:
        its = pieces[self] = Counter[Any]()
        made = result(self, *given)
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
def decisions(found: list[float]) -> Iterator[None]:
    """Inside the block each shared call appends the microseconds of its decision."""
    honest = Sharding.decide

    def decide(*given: Any) -> Any:
        begin = time.perf_counter()
        made = honest(*given)
        found.append(1e6 * (time.perf_counter() - begin))
        return made

    Sharding.decide = decide  # type: ignore
    try:
        yield
    finally:
        Sharding.decide = honest  # type: ignore
