"""The tile plans next to a given plan: plans that are legal for the device and differ in one part.

Pure functions. A search begins at the plans of `seeds`, one for each algorithm, and goes from a
plan to its `neighbours`. A backend may still refuse a plan when it loads the kernel (tune.py).
Called by search.py.

A neighbour differs in one of these parts:

    gpu   outputs per thread, threads per group along m and n, terms of k per step,
          width of vector loads
    cpu   block sizes mc, nc and kc, all threads or one; the micro-tile is fixed
    reduce (gpu only)   threads per group, width of vector loads
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sparkle_drv as sp

TM = (1, 2, 4, 6, 8, 12, 16, 24, 32)
TN = (1, 2, 4, 8, 12, 16, 24, 32)
ACROSS = (4, 8, 16, 32, 64)  # values to try: threads per group along the tile's columns (n)
DOWN = (1, 2, 4, 8, 16, 32)  # values to try: threads per group along the tile's rows (m)
TERMS = (4, 8, 16, 32)
THREADS = (32, 64, 128, 256, 512, 1024)
MOST_SUMS = {False: 512, True: 256}
"""Largest number of outputs per thread, by DeviceInfo.software. llvmpipe compiles 256 in 4 s and
512 in 17 s to 22 s: the time grows with the square. No number of launches makes up for that."""
STAGED = ("shared", "im2col")


@dataclass(frozen=True)
class Shaped:
    """A gpu plan in parts: algorithm, outputs per thread (tm x tn), threads per group (across x
    down), terms of k per step (bk), width of vector loads.
    """

    algo: str
    tm: int
    tn: int
    across: int
    down: int
    bk: int
    vector: int

    def plan(self, like: sp.TilePlan) -> sp.TilePlan:
        levels = (self.down * self.tm, self.across * self.tn, self.bk), (self.tm, self.tn, 1)
        return replace(like, algo=self.algo, levels=levels, vector=self.vector)


def shaped(plan: sp.TilePlan) -> Shaped:
    """Returns the parts of a gpu plan. None of the plan's sizes may be missing."""
    (bm, bn, bk), (tm, tn, _) = plan.levels
    return Shaped(plan.algo, tm, tn, bn // tn, bm // tm, bk, plan.vector)


def seeds(kernel: str, model: sp.TilePlan, info: sp.DeviceInfo) -> list[sp.TilePlan]:
    """Returns the plans at which a search begins: `model`, the plan of ops' tile model, then one
    for each other algorithm.
    """
    if kernel.startswith("reduce_"):
        return [model]
    conv = kernel.startswith("conv2d_")
    if info.kind == "gpu":
        direct, staged = ("direct", "im2col") if conv else ("blocked", "shared")
        tm = 4 if kernel.endswith("f64") else 8
        others = [
            Shaped(direct, tm, 8, 8, 1, 4, 4),
            Shaped(staged, tm, 8, 8, 8, 16, 4),
            Shaped(staged, 4, 4, 16, 16, 16, 4),
        ]
        plans = [part.plan(model) for part in others if _fits(part, kernel, info)]
    else:
        plans = [replace(model, algo=a) for a in (("im2col", "direct") if conv else ("blocked",))]
    return list(dict.fromkeys([model, *plans]))


def neighbours(kernel: str, plan: sp.TilePlan, info: sp.DeviceInfo) -> list[sp.TilePlan]:
    """Returns every legal plan that differs from `plan` in one respect, such as one block size, the
    threads per group, or the shape of a thread's tile.
    """
    if kernel.startswith("reduce_"):
        found = _reduce(plan, info)
    elif info.kind == "gpu":
        here = shaped(plan)
        found = (part.plan(plan) for part in _around(here) if _fits(part, kernel, info))
    else:
        found = _blocks(plan, info)
    return [other for other in dict.fromkeys(found) if other != plan]


def _around(here: Shaped) -> Iterator[Shaped]:
    for value in _beside(here.across, ACROSS):
        yield replace(here, across=value)
    for value in _beside(here.down, DOWN):
        yield replace(here, down=value)
    for value in _beside(here.bk, TERMS):
        yield replace(here, bk=value)
    yield replace(here, vector=1 if here.vector == 4 else 4)
    for tm in _beside(here.tm, TM):
        yield replace(here, tm=tm)
    for tn in _beside(here.tn, TN):
        yield replace(here, tn=tn)
    # plans with another tile shape than the plan `here`, and with as many outputs per thread or
    # slightly fewer
    for tm in TM:
        if here.tm <= 2 * tm <= 4 * here.tm:
            tn = max((t for t in TN if tm * t <= here.tm * here.tn), default=0)
            if tn:
                yield replace(here, tm=tm, tn=tn)


def _beside(value: int, ladder: tuple[int, ...]) -> list[int]:
    """Returns the next lower and the next higher value than `value` in the sequence `ladder`."""
    return [
        *[step for step in ladder if step < value][-1:],
        *[step for step in ladder if step > value][:1],
    ]


def _fits(part: Shaped, kernel: str, info: sp.DeviceInfo) -> bool:
    itemsize = 8 if kernel.endswith("f64") else 4
    threads = part.across * part.down
    staged = part.algo in STAGED
    shared = (part.down * part.tm + part.across * part.tn) * part.bk * itemsize if staged else 0
    # A vector of four needs tiles in multiples of four. A shader that cannot use vectors silently
    # uses scalars. For the direct convolution, `vector` means four terms of a sum instead of four
    # results.
    whole = part.vector == 1 or part.algo == "direct" or not (part.tm % 4 or part.tn % 4)
    return (
        part.tm * part.tn <= MOST_SUMS[info.software]
        and threads <= info.max_group_size
        and shared <= info.max_shared_nbytes
        and whole
    )


def _blocks(plan: sp.TilePlan, info: sp.DeviceInfo) -> Iterator[sp.TilePlan]:
    """Yields plans with mc, nc or kc at 1/2, 3/4, 3/2 and 2 times its value, in whole micro-tiles.
    Then yields the plan on one thread if `plan` is on all threads, and the other way round.
    """
    (mc, nc, kc), (mr, nr, one) = plan.levels
    for mul, div in ((1, 2), (3, 4), (3, 2), (2, 1)):
        for level in (
            (max(mr, mc * mul // div // mr * mr), nc, kc),
            (mc, max(nr, nc * mul // div // nr * nr), kc),
            (mc, nc, max(64, kc * mul // div // 8 * 8) if kc else 0),  # Winograd's plans have kc 0
        ):
            yield replace(plan, levels=(level, (mr, nr, one)))
    if info.compute_units > 1:
        yield replace(plan, threads=0 if plan.threads else 1)


def _reduce(plan: sp.TilePlan, info: sp.DeviceInfo) -> Iterator[sp.TilePlan]:
    threads = plan.levels[0][0]
    for step in _beside(threads, THREADS):
        if step <= info.max_group_size:
            yield replace(plan, levels=((step, 1, 1),))
    yield replace(plan, vector=1 if plan.vector == 4 else 4)


def text(plan: sp.TilePlan) -> str:
    """Returns a plan as text for a table: "blocked 16x16 of 16x128x4 v4"."""
    words = [plan.algo] if plan.algo != "auto" or not plan.levels else []
    if len(plan.levels) > 1:
        words.append("x".join(str(size) for size in plan.levels[1][:2]))
    if plan.levels:
        words.append(("of " if words else "") + "x".join(str(size) for size in plan.levels[0]))
    if plan.vector:
        words.append(f"v{plan.vector}")
    if plan.threads:
        words.append(f"t{plan.threads}")
    return " ".join(words)
