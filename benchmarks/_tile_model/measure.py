"""Measures how far the tile model's plan of each product is from the best plan of a search."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from _bench.tune.search import Search
from _cpu_peers.cases import Case, Gemm

import sparkle_drv as sp
from sparkle_drv.ops import tiles

from . import report, space, timed_product

GFLOPS = {"avx512": 100.0, "avx2": 100.0, "neon": 30.0, "ref": 35.0}
"""Approximate float32 rate of one core by instruction set, to predict how long a launch takes."""
CALL_S = 2e-6
LAUNCHES, LEAST_S, MOST_S = 70, 0.7, 45.0
"""The time that a search should have: that of so many launches, but at least LEAST_S and at most
MOST_S."""
LONGEST_S = 3.0
"""A product whose launch takes longer (s) is left out."""
SLOW_S = 0.1
SLOW = {"least_pairs": 5, "samples": 1, "hopeless": 1.25}
QUICK = {"least_pairs": 20, "samples": 5, "hopeless": 2.0}
"""Parameters of a search whose launches take longer than SLOW_S, and those of other searches."""
FAR_SHARE, LOOK_LAUNCHES, LOOK_S = 0.3, 8, 3e-3
"""Share of the time for plans far from the model's; launches of each such plan, and their limit
in seconds."""


@dataclass(frozen=True)
class Task:
    """A row to measure: a product with one instruction set. `kept`: all calls have the same b, so
    that b may be packed once.
    """

    isa: str
    case: Case
    of: Gemm
    kept: bool

    @property
    def launch_s(self) -> float:
        """The approximate seconds of one launch of the product."""
        double = 2 if self.of.dtype == "float64" else 1
        return CALL_S + double * self.of.flops / (1e9 * GFLOPS[self.isa])

    @property
    def wish_s(self) -> float:
        return min(max(LAUNCHES * self.launch_s, LEAST_S), MOST_S)


def todo(cases: Sequence[Case], isas: Sequence[str], kinds: Sequence[str]) -> list[Task]:
    """Returns the rows to measure: every product, for each instruction set, with each kind of b. A
    b of the kind "kept" stays the same over many calls; any other b may change.
    """
    return [
        Task(isa, case, case.of, kind == "kept")
        for isa in isas
        for case in cases
        if isinstance(case.of, Gemm)
        for kind in kinds
    ]


def run(rows: Sequence[Task], budget_s: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yields a dict for each row, while there is time. Each row gets an equal share of the time
    that is left.
    """
    end = time.monotonic() + budget_s
    for isa in dict.fromkeys(row.isa for row in rows):
        with _opened(isa) as dev:
            for at, row in enumerate(rows):
                if row.isa != isa:
                    continue
                left = max(0.0, end - time.monotonic())
                share = row.wish_s / sum(other.wish_s for other in rows[at:])
                what = {"case": row.case.name, "isa": isa, "b": "kept" if row.kept else "fresh"}
                yield {**what, **_one(dev, row, left * share, seed)}


@contextlib.contextmanager
def _opened(isa: str) -> Iterator[sp.Device]:
    """Opens the cpu device with this instruction set and one thread. Raises DeviceNotFound if this
    CPU lacks the instruction set.
    """
    before = os.environ.get("SPARKLE_CPU_ISA")
    os.environ["SPARKLE_CPU_ISA"] = isa
    try:
        dev = sp.open("cpu", threads=1)
    finally:
        os.environ.pop("SPARKLE_CPU_ISA")
        if before is not None:
            os.environ["SPARKLE_CPU_ISA"] = before
    with dev:
        yield dev


def _one(dev: sp.Device, row: Task, budget_s: float, seed: int) -> dict[str, Any]:
    of = row.of
    if row.launch_s > LONGEST_S:
        return _without(f"left out: one run takes some {row.launch_s:.0f} s")
    itemsize = 8 if of.dtype == "float64" else 4
    model = tiles.gemm(dev.info, of.m, of.n, of.k, itemsize, stays=row.kept)
    packs = row.kept and tiles.packs_b(dev.info, of.m, of.n, of.k, itemsize, model)
    plans = space.Space(of, replace(model, pack=packs), row.kept)
    with timed_product.TimedProduct(dev, of, seed) as operands:
        pace: Any = SLOW if row.launch_s > SLOW_S else QUICK
        search: Search[sp.TilePlan] = Search(
            operands.admit, plans.neighbours, time.monotonic, budget_s, seed, **pace
        )
        try:
            look_s = LOOK_S + LOOK_LAUNCHES * row.launch_s
            found = search.run(plans.seeds(int(FAR_SHARE * budget_s / look_s)))
        except ValueError as error:
            return _without("; ".join([*operands.wrong, str(error)]))
        operands.confirm(found.best)
        if operands.wrong:
            return _without("WRONG " + "; ".join(operands.wrong))
    return {
        # `ratio`: time of the model's plan over that of the best plan found (median, and the ends
        # of its interval). Below 1 the model's plan is faster, so its distance is 0.
        "distance_percent": [100 * max(r - 1, 0.0) for r in found.ratio],
        "model_s": found.model_s, "best_s": found.best_s, "tried": found.tried,
        "model": report.plan(found.model), "best": report.plan(found.best),
        "note": "" if found.complete else "out of time",
    }  # fmt: skip


def _without(why: str) -> dict[str, Any]:
    return {"distance_percent": None, "note": why}
