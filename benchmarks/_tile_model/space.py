"""The plans of a product on the cpu device: those near a given plan, and those far from it. Pure
functions.

A plan's block sizes are compared by the numbers of pieces into which they cut the matrices, so that
no two candidates do the same work. A block larger than a matrix counts as one piece. The kernels
fix the micro-tiles, and choose which operands they read in place. A plan chooses only `pack`: if b
is the same in all calls, it may be packed into a blob beforehand.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from _cpu_peers.cases import Gemm

from sparkle_drv.types import TilePlan

RUNGS = tuple(sorted({step << shift for shift in range(10) for step in (1, 3)}))
"""The numbers of pieces 1 2 3 4 6 8 12 ...: each is a half or a third more than the one before."""
FAR = (
    *(
        (1, 1, 1),
        (128, 1, 1),
        (1, 16, 16),
        (4, 4, 1),
        (16, 8, 8),
        (1, 16, 1),
        (4, 1, 4),
        (16, 1, 1),
    ),
    *itertools.product((1, 2, 4, 8, 16, 32, 64, 128, 256), (1, 4, 16, 64), (1, 4, 16)),
)
"""The pieces of k, m and n of plans at which a search begins besides the model's: from whole
matrices to small blocks, the most different plans first."""
LEAST_FAR = 8
"""Number of plans of FAR that are always tried, however little time there is."""
LEAST_TERMS = 8
"""Least number of terms in a piece of k."""
NAIVE_FLOPS = 1e6
"""Largest flops of a product for which plain loops are a candidate."""


@dataclass(frozen=True)
class Space:
    """Every plan of one product. `kept`: b stays the same over many calls, so that it may be packed
    before.
    """

    of: Gemm
    model: TilePlan
    kept: bool

    def seeds(self, most: int) -> list[TilePlan]:
        """Returns about `most` plans: first the model's plan, then those of other algorithms, then
        plans far from the model's.
        """
        found = [self.model]
        if self.kept:
            found.append(replace(self.model, pack=not self.model.pack))
        if self.of.flops <= NAIVE_FLOPS:
            found.append(TilePlan(algo="naive", threads=self.model.threads))
        found += [self._plan(pieces, self.model.pack) for pieces in FAR]
        return self._different(found)[: max(most, LEAST_FAR)]

    def neighbours(self, plan: TilePlan) -> list[TilePlan]:
        """Returns plans that differ from `plan` in one of the block sizes mc, nc and kc, each by
        one or two steps. With `kept`, also returns the plan that differs in whether b is packed.
        """
        if plan.algo == "naive":
            return []
        here = self.pieces(plan)
        found = [plan]
        for axis, count in enumerate(here):
            for rung in _beside(count):
                there = (*here[:axis], rung, *here[axis + 1 :])
                found.append(self._plan((there[0], there[1], there[2]), plan.pack))
        if self.kept:
            found.append(replace(plan, pack=not plan.pack))
        return self._different(found)[1:]

    def pieces(self, plan: TilePlan) -> tuple[int, int, int]:
        """Returns into how many pieces the kernels cut the extents k, m and n of the product for
        this plan. Computes them as the C function sp_gemm_choose does.
        """
        (mc, nc, kc), _ = plan.levels
        down = _up(self.of.k, kc)
        # The kernels cut k into pieces of equal length, which is at most kc. If the pieces are
        # shorter than kc by some factor, the kernels enlarge mc by this factor.
        mc = max(mc, mc * kc // _up(self.of.k, down))
        return down, _up(self.of.m, mc), 1 if plan.pack else _up(self.of.n, nc)

    def _plan(self, pieces: tuple[int, int, int], pack: bool) -> TilePlan:
        mr, nr, _ = self.model.levels[1]
        kc = max(LEAST_TERMS, _up(self.of.k, pieces[0]))
        mc, nc = _up(_up(self.of.m, pieces[1]), mr) * mr, _up(_up(self.of.n, pieces[2]), nr) * nr
        levels = ((mc, nc, kc), self.model.levels[1])
        return replace(self.model, levels=levels, pack=pack)

    def _different(self, plans: list[TilePlan]) -> list[TilePlan]:
        """Returns the plans without those that would do the same work as an earlier one."""
        found: dict[object, TilePlan] = {}
        for plan in plans:
            found.setdefault(self._key(plan), plan)
        return list(found.values())

    def _key(self, plan: TilePlan) -> object:
        return plan if plan.algo == "naive" else (self.pieces(plan), plan.pack)


def _up(size: int, of: int) -> int:
    return -(-size // max(1, of))


def _beside(count: int) -> Iterator[int]:
    yield from [rung for rung in RUNGS if rung < count][-2:]
    yield from [rung for rung in RUNGS if rung > count][:2]
