"""Runs one call on several devices: plans shares, and has threads of each device compute them.

A `Sharding` takes the place of the executor for a call that may be divided (calls.py). A call that
cannot be cut goes to one device as usual.

The result of a piece is computed in memory of its own, and copied to its place when the piece is
committed. So a device that was given up may still write, but never to the caller's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.check.validate import Check
from sparkle_drv.sched.decide.choose import Impossible, after
from sparkle_drv.sched.journal import explain
from sparkle_drv.sched.model.conversion import Conversion
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.operations import Class
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.sched.shard.cuts import Cut
from sparkle_drv.sched.shard.divide import Axis, Divided, Wanted, divide
from sparkle_drv.sched.shard.shares import Shares
from sparkle_drv.sched.shard.site import Pace

from . import ways
from .arrays import ContextArray, check_own, on_host
from .local import FAILURES, LocalExecutor, Run
from .operands import Operands
from .shards import PATIENCE_S, SLACK_S, Done, Pieces

THREADS_S = 2e-4
"""Seconds for threads and for copying results, for any work: 0.2 ms on two cores of an EPYC."""
MOST_USES = 64
"""Most calls of one shape between two decisions. The first numbers are 1, 2, 4, ..."""


@dataclass(frozen=True)
class Terms:
    """How a call is to be divided, as the caller said."""

    shares: str | Mapping[str, float] = "auto"
    """How to share: "auto" (the planner may leave devices out), "each" (all take part), or
    proportions by URI."""
    max_vram_nbytes: int = 0
    """Bytes that a device with memory of its own may use. 0: all that it has."""
    prefer_p2p: bool = True
    """Whether an operand may come from another device that has it."""

    @property
    def key(self) -> tuple[Any, ...]:
        """All fields as a hashable value, which is part of the key of a kept plan."""
        said = self.shares if isinstance(self.shares, str) else tuple(self.shares.items())
        return said, self.max_vram_nbytes, self.prefer_p2p


@dataclass
class KeptShards:
    """The decision for a call on several devices, and what happened in its last run."""

    work: Work
    cut: Cut
    axis: Axis
    divided: Divided
    paces: Mapping[str, Pace]
    """The seconds per unit of each device, by URI."""
    uses: int = 1
    """Calls that follow this decision until the next decision."""
    spare: int = 0
    """Calls of `uses` that are still to come."""
    alone: bool = False
    """Whether one device is enough. False if the caller said which devices take part."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """How the speed of each device is known (Costs.basis) if this work was never probed there, by
    URI."""
    done: Done = field(default_factory=Done)
    """Outcome of the last call."""

    @property
    def shares(self) -> Shares:
        """The plan that says which device computes which pieces of the call."""
        return self.divided.shares

    @property
    def left_out(self) -> dict[str, str]:
        """Why a device does no part of the call, by URI."""
        return {**self.shares.left_out, **self.divided.unable}

    @property
    def predicted_s(self) -> float:
        """Predicted seconds of the call."""
        return self.shares.predicted_s

    @property
    def so_far(self) -> KeptShards:
        """This object itself, which is the value of `ctx.last_plan`."""
        return self

    @property
    def device(self) -> str:
        """The device that does most of the call."""
        return max(self.shares.parts, key=self.shares.units)

    def explain(self) -> str:
        """Returns the plan as text, and the outcome of the last call."""
        axis, n = self.axis, self.axis.granule
        unit = f"{n} of {axis.extent} {axis.name}" if n > 1 else f"one of {axis.extent} {axis.name}"
        lines = [
            f"{self.work.op}, size {self.work.size:.4g}, a unit is {unit}: {self.shares.explain()}"
        ]
        lines += [f"  {uri} cannot: {why}" for uri, why in self.divided.unable.items()]
        lines += [f"  {uri}: {basis}" for uri, basis in self.bases.items() if basis]
        lines += [
            f"  {site.uri} computes at a weight of {site.weight:.2f}: it is slow"
            for site in self.divided.sites
            if site.weight < 1
        ]
        if (done := self.done).seconds:
            units = ", ".join(f"{uri} {n}" for uri, n in done.units.items())
            lines.append(
                f"measured {explain.seconds(done.seconds)}, "
                f"{done.seconds / self.predicted_s:.2f} times what was predicted; units done: "
                f"{units}; late pieces started twice: {done.doubled}, results dropped: "
                f"{done.dropped}"
            )
            lines += [f"  {uri} was lost: {why}" for uri, why in done.lost.items()]
            lines += [f"  {uri} is late: {why}" for uri, why in done.late.items()]
        return "\n".join(lines)


class Sharding:
    """The executor of one call that may be divided."""

    def __init__(
        self, executor: LocalExecutor, cuts: Callable[[Sequence[Any]], list[Cut]], terms: Terms,
        look: Callable[[Check, Cut, int, int], Check] = lambda check, cut, begin, end: check,
        about: tuple[Any, ...] = (),
    ) -> None:  # fmt: skip
        self._executor, self.cuts, self._look = executor, cuts, look
        self.terms, self.about = terms, (*about, *terms.key)
        self._known = False  # whether the devices were measured for this call

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
        """Makes the call, as LocalExecutor.run does. Raises Impossible if the wanted shares are not
        possible.
        """
        executor, auto = self._executor, self.terms.shares == "auto"
        kept = self.decide(key, describe, operands, out, uris, convert)
        if kept is None:
            left = self._within(uris, describe, operands)
            alone = (left, *key[1:])
            return executor.run(
                alone, describe, operands, out, run, left, check, convert, whole, self._known
            )
        executor.last = kept  # type: ignore[assignment]
        given = Operands(executor, operands, self.terms.prefer_p2p)
        inspector, look = executor.inspector, None
        if inspector is not None and inspector.due():

            def look(pieces: Sequence[Any], made: Any, begin: int, end: int) -> str:
                now = self._look(check, kept.cut, begin, end)
                return inspector.look(now, pieces, made)

        pieces = Pieces(
            executor, kept.work, kept.cut, kept.axis.granule, kept.shares, kept.paces, given, run,
            look, SLACK_S if auto else PATIENCE_S,
        )  # fmt: skip
        kept.done = pieces.done
        direct = isinstance(out, np.ndarray) and not any(
            np.may_share_memory(out, x) for x in given.host if x is not None
        )
        try:
            made = pieces.result(out if direct else None)
        except FAILURES as error:
            left = tuple(u for u in uris if u not in kept.shares.parts)
            if not auto or not left:
                raise
            # All devices of the shared call failed. One device that had no share does the call.
            with after(error):
                left = self._within(left, describe, operands)
                alone = (left, *key[1:])
                return executor.run(
                    alone, describe, operands, out, run, left, check, convert, whole
                )
        if isinstance(out, np.ndarray):
            if not direct:  # `out` overlaps operands, which all pieces have read now
                out[...] = made
            return out
        if not any(isinstance(x, ContextArray) for x in (*operands, out)):
            return made
        if isinstance(out, ContextArray):
            return out.fill(made)
        return ContextArray(executor, kept.device, executor.devices[kept.device].array(made))

    def _within(
        self, uris: tuple[str, ...], describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any],
    ) -> tuple[str, ...]:  # fmt: skip
        """Returns the devices that can do the whole call within `max_vram_nbytes`. Raises
        Impossible if there is none.
        """
        limit = self.terms.max_vram_nbytes
        if not limit:
            return uris
        needed = describe()[2] + sum(x.nbytes for x in operands if x is not None)
        nodes = self._executor.costs.nodes
        left = tuple(uri for uri in uris if nodes[uri].unified or needed <= limit)
        if not left:
            raise Impossible(
                f"max_vram_gb: expected {needed} bytes or more on one of {', '.join(uris)}, got "
                f"{limit}"
            )
        return left

    def alone(self, key: tuple[Any, ...]) -> LocalExecutor | None:
        """Returns the executor that runs a call on one device, or None. Returns it only if the kept
        decision for calls with this key is that one device does all.
        """
        kept = self._executor.shared.get(key)
        said = self.terms.shares != "auto" or self.terms.max_vram_nbytes
        if said or kept is None or not kept.alone or kept.spare <= 0:
            return None
        kept.spare -= 1
        return self._executor

    def decide(
        self, key: object, describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any], out: Any, uris: tuple[str, ...], convert: Conversion | None,
    ) -> KeptShards | None:  # fmt: skip
        """Returns how devices share the call, or None if one device does all of it. Raises as `run`
        does.
        """
        check_own(self._executor, (*operands, out))
        auto = self.terms.shares == "auto"
        if convert is not None or (auto and any(map(_away, operands))):
            return None
        kept = self._decided(key, describe, operands, uris)
        return None if kept is None or kept.alone else kept

    def _decided(
        self, key: object, describe: Callable[[], tuple[Class, float, int]],
        operands: Sequence[Any], uris: tuple[str, ...],
    ) -> KeptShards | None:  # fmt: skip
        """Returns how the call is divided among devices, or None if it cannot be divided."""
        executor = self._executor
        ready_s, late = executor.remains.ready_s(uris)
        weights = executor.health.weights(uris)
        usual = not (ready_s or late or weights)
        kept: KeptShards | None = executor.shared.get(key)
        if kept is not None and kept.spare > 0 and usual:
            kept.spare -= 1
            return kept
        kind, size, out_nbytes = describe()
        cuts = self.cuts(operands)
        if not cuts:
            return None
        auto = self.terms.shares == "auto"
        barred = {**executor.hung(uris), **(late if auto else {})}
        barred |= executor.health.barred([uri for uri in uris if uri not in barred], auto)
        able = tuple(uri for uri in uris if uri not in barred) or uris
        read = sum(x.nbytes for x in operands if x is not None)
        if not _fits(executor.costs, read + out_nbytes, able):
            return None
        if kept is None:
            executor.know(kind, able)
            self._known = True
        host = [None if x is None else on_host(x) for x in operands]
        axes = [
            Axis(
                cut.name, cut.extent, cut.read_whole(host), cut.read_cut(host), cut.out is None
            )
            for cut in cuts
        ]  # fmt: skip
        work = Work(
            kind.name, size, tuple(Operand(x.nbytes) for x in host if x is not None), out_nbytes,
            HOST, executor.lacking(kind, able),
        )  # fmt: skip
        shares = self.terms.shares
        if not isinstance(shares, str):
            shares = {uri: share for uri, share in shares.items() if uri in able} or shares
        for uri in able:
            ready_s[uri] = ready_s.get(uri, 0.0) + executor.load.queued_s(executor.devices[uri])
        wanted = Wanted(shares, self.terms.max_vram_nbytes, weights, ready_s)
        with executor.deciding:
            divided = divide(executor.costs, work, axes, able, wanted)
            if executor.journal is not None and divided is not None:
                executor.journal.divided(work, axes, able, wanted, divided)
        if divided is None:
            return None
        divided.unable.update(barred)
        uses = 1 if kept is None else min(MOST_USES, 2 * kept.uses)
        made = KeptShards(
            work, cuts[divided.at], axes[divided.at], divided,
            {site.uri: Pace(site) for site in divided.sites}, uses, uses - 1,
            auto and divided.alone_s <= divided.shares.predicted_s + THREADS_S,
            {site.uri: executor.costs.basis(work.op, site.uri) for site in divided.sites},
        )  # fmt: skip
        if kept is None and not made.alone:
            self._know_peers(list(made.shares.parts))
        if usual and key is not None:
            executor.shared[key] = made
        return made

    def _know_peers(self, uris: Sequence[str]) -> None:
        """Measures the links between devices that share a call and whose driver copies directly."""
        devices = self._executor.devices
        for uri in uris if self.terms.prefer_p2p else ():
            peers = [u for u in uris if u != uri and devices[uri].is_peer(devices[u])]
            if not devices[uri].info.unified:
                ways.know(self._executor, peers, (uri,))


def _fits(costs: Costs, nbytes: int, uris: Sequence[str]) -> bool:
    """Returns whether these devices together have memory for `nbytes`."""
    apart = [costs.nodes[uri].memory_nbytes for uri in uris if not costs.nodes[uri].unified]
    host = [costs.nodes[uri].memory_nbytes for uri in uris if costs.nodes[uri].unified]
    return 0 in (*apart, *host) or nbytes <= sum(apart) + max(host, default=0)


def _away(x: Any) -> bool:
    """Returns whether `x` is a ContextArray without a copy in memory that the host shares."""
    if not isinstance(x, ContextArray):
        return False
    return not any(copy.device.info.unified for copy in x._copies.values())
