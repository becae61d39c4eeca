"""Runs one call on several devices: cuts it, plans shares, and has a thread of each device do them.

A `Sharding` takes the place of the executor for a call that may be divided (calls.py). What
cannot be cut goes to one device, as without it.

The result of a piece is computed in memory of its own and copied to its place when it is committed:
a device that was given up may still write what it began, and that must not be the caller's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.check.validate import Check
from sparkle_drv.sched.decide.choose import cannot
from sparkle_drv.sched.model.conversion import Conversion
from sparkle_drv.sched.model.operations import Class
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.sched.shard.cuts import Cut
from sparkle_drv.sched.shard.plan import plan_shares
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import NO_TIME, Pace, Site

from .arrays import ContextArray, check_own, on_host
from .local import LocalExecutor, Run
from .shards import Pieces

THREADS_S = 2e-4
"""What threads and the copy of results take, whatever the work: 0.2 ms on two cores of an EPYC."""
LEAST_S = 1e-15
"""Of a unit: what takes no time has no share."""
UNITS = 256
"""Units that the axis of a cut is divided into at most: shares are right to half a percent."""


@dataclass(frozen=True)
class Terms:
    """How a call is to be divided: what the caller said."""

    shares: str | Mapping[str, float] = "auto"
    """"auto": the planner leaves devices out. "each": all take part. Else proportions by URI."""
    max_vram_nbytes: int = 0
    """Bytes that a device other than the host's may be given; 0: as many as it has."""
    prefer_p2p: bool = True
    """May operands that several devices read whole go from one device to the other?"""


@dataclass(frozen=True)
class KeptShards:
    """What was decided for a call on several devices."""

    work: Work
    cut: Cut
    shares: Shares
    granule: int
    """Elements of the axis in a unit."""
    paces: Mapping[str, Pace]
    """By URI: what each device needs for units."""

    @property
    def alone_s(self) -> float:
        """Predicted seconds of the fastest device by itself."""
        return min(pace.end_s((self.shares.count,)) for pace in self.paces.values())

    @property
    def predicted_s(self) -> float:
        """Seconds until the last result is at the host."""
        return self.shares.predicted_s

    @property
    def so_far(self) -> KeptShards:
        """Itself: what `ctx.last_plan` is."""
        return self

    @property
    def device(self) -> str:
        """The one that does most of it."""
        return max(self.shares.parts, key=self.shares.units)

    def explain(self) -> str:
        """The plan in words."""
        cut, n = self.cut, self.granule
        unit = f"{n} of {cut.extent} {cut.name}" if n > 1 else f"one of {cut.extent} {cut.name}"
        about = f"{self.work.op}, size {self.work.size:.4g}, a unit is {unit}"
        return f"{about}: {self.shares.explain()}"


class Sharding:
    """The executor of one call that may be divided."""

    def __init__(
        self, executor: LocalExecutor, cuts: Callable[[Sequence[Any]], list[Cut]], terms: Terms
    ) -> None:
        self._executor, self.cuts, self.terms = executor, cuts, terms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def run(
        self,
        key: tuple[Any, ...],
        describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any],
        out: Any,
        run: Run,
        uris: tuple[str, ...],
        check: Check,
        convert: Conversion | None = None,
        whole: bool = False,
    ) -> Any:
        """As LocalExecutor.run. Raises Impossible where the shares cannot be as they are wanted."""
        executor = self._executor
        kept = self.decide(describe, operands, out, uris, convert)
        if kept is None:
            return executor.run(key, describe, operands, out, run, uris, check, convert, whole)
        executor.last = kept  # type: ignore[assignment]
        arrays = any(isinstance(x, ContextArray) for x in (*operands, out))
        host = [None if x is None else on_host(x) for x in operands]
        pieces = Pieces(
            executor, kept.work, kept.cut, kept.granule, kept.shares, kept.paces, host, run
        )
        if not isinstance(out, np.ndarray):
            made = pieces.result(None)
        elif any(np.may_share_memory(out, x) for x in host if x is not None):
            out[...] = made = pieces.result(None)  # other pieces still read what it overlaps
        else:
            made = pieces.result(out)
        if not arrays:
            return made if out is None else out
        return _placed(executor, kept, made, out)

    def decide(
        self, describe: Callable[[], tuple[Class, float, int]], operands: Sequence[Any], out: Any,
        uris: tuple[str, ...], convert: Conversion | None = None,
    ) -> KeptShards | None:  # fmt: skip
        """Who shares the call, and how; None: one device does all of it. Raises as `run`."""
        executor = self._executor
        check_own(executor, (*operands, out))
        cuts = [] if convert is not None else self.cuts(operands)
        barred = executor.hung(uris)
        kind, size, out_nbytes = describe()
        able = tuple(uri for uri in uris if uri not in barred)
        if len(uris) > 1:
            executor.know(kind, able)
        kept = self._decided(kind, size, out_nbytes, operands, able, cuts) if cuts else None
        alone = kept is None or kept.alone_s <= kept.shares.predicted_s + THREADS_S
        if kept is None or (alone and self.terms.shares == "auto"):
            return None
        return kept

    def _decided(
        self, kind: Class, size: float, out_nbytes: int, operands: Sequence[Any],
        uris: tuple[str, ...], cuts: Sequence[Cut],
    ) -> KeptShards | None:  # fmt: skip
        """The cut and the shares of least predicted seconds; None: no device can take part."""
        given = tuple(Operand(x.nbytes) for x in operands if x is not None)
        work = Work(kind.name, size, given, out_nbytes, HOST)
        found: list[KeptShards] = []
        wrong: ValueError | None = None
        unable: dict[str, str] = {}
        for cut in cuts:
            granule = max(1, cut.extent // UNITS)
            count = -(-cut.extent // granule)
            sites = self._sites(work, operands, uris, cut, count, unable)
            if not sites:
                return None
            shares = self.terms.shares
            try:
                plan = plan_shares(
                    sites, count, each=shares == "each",
                    given=None if isinstance(shares, str) else shares,
                )  # fmt: skip
            except ValueError as error:  # memory, or fewer units than devices: of this cut
                wrong = error
                continue
            paces = {site.uri: Pace(site) for site in sites}
            found.append(KeptShards(work, cut, plan, granule, paces))
        if not found and wrong is not None:
            raise wrong
        best = min(found, key=lambda kept: kept.shares.predicted_s)
        left_out = {**best.shares.left_out, **unable}
        return replace(best, shares=replace(best.shares, left_out=left_out))

    def _sites(
        self, work: Work, operands: Sequence[Any], uris: tuple[str, ...], cut: Cut, count: int,
        unable: dict[str, str],
    ) -> list[Site]:  # fmt: skip
        """The devices that can do it; `unable` gets the others, and why they cannot."""
        costs, sites = self._executor.costs, []
        for uri in uris:
            whole = Work(work.op, work.size)
            why = cannot(costs, whole, uri)
            if why:
                unable[uri] = why
                continue
            node, speed = costs.nodes[uri], costs.speeds[work.op, uri]
            b = max(0.0, speed.at(work.size) - speed.at(work.size / 32)) * 32 / 31
            limit = node.memory_nbytes
            if self.terms.max_vram_nbytes and not node.unified:
                limit = min(limit or self.terms.max_vram_nbytes, self.terms.max_vram_nbytes)
            sites.append(
                Site(
                    uri,
                    Line(max(0.0, speed.at(work.size) - b), max(b / count, LEAST_S)),
                    NO_TIME if node.unified else costs.links[HOST, uri],
                    NO_TIME if node.unified else costs.links[uri, HOST],
                    cut.read_whole(operands),
                    cut.read_cut(operands) / count,
                    work.out_nbytes / (count if cut.out is not None else 1),
                    0 if node.unified else limit,
                    node.shares,
                    costs.wait_s(uri),
                )
            )
        return sites


def _placed(executor: LocalExecutor, kept: KeptShards, made: Any, out: Any) -> ContextArray:
    """The result as a ContextArray: `out`, or a new one where most of the work was done."""
    if isinstance(out, ContextArray):
        return out.fill(made)
    return ContextArray(executor, kept.device, executor.devices[kept.device].array(made))
