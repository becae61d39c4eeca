"""Chooses a cut and the shares of devices from costs and work: plan.py plans each cut, and the best
plan is chosen. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkle_drv.mesh.links.line import Line
from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.decide.choose import Impossible, cannot
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.work import Work
from sparkle_drv.types import in_common

from .plan import plan_shares
from .shares import Shares
from .site import NO_TIME, Pace, Site

UNITS = 256
"""Most units per axis: shares are right to half a percent."""
LEAST_S = 1e-15
"""Least seconds of a unit. A device whose units took no time could have no share."""
PIECE_S = 5e-5
"""Seconds of a piece beside its work: to claim it, call the operation, copy and commit the result.
0.05 ms on two cores of an EPYC."""
PACK_RATE = 4e9
"""Bytes per second at which an operation in host memory packs an operand that each piece reads
whole. A product of 64 by 2048 by 2048 packs 16 MiB in 4 ms on a core of an EPYC."""


@dataclass(frozen=True)
class Axis:
    """The axis along which a call is cut, with the sizes on which the time of the call depends."""

    name: str
    extent: int
    """Elements along the axis."""
    whole_nbytes: int
    """Bytes of operands that each device reads whole."""
    cut_nbytes: int
    """Bytes of operands that are cut."""
    combined: bool
    """Whether each piece makes a whole result, to be combined with the others."""

    @property
    def granule(self) -> int:
        """Elements along the axis per unit."""
        return max(1, self.extent // UNITS)

    @property
    def count(self) -> int:
        """The number of units into which the axis is divided."""
        return -(-self.extent // self.granule)


@dataclass(frozen=True)
class Wanted:
    """How a call is to be divided: what the caller said, and what the devices' health allows."""

    shares: str | Mapping[str, float] = "auto"
    """How to share: "auto" (the planner may leave devices out), "each" (all take part), or
    proportions by URI."""
    max_vram_nbytes: int = 0
    """Bytes that a device with memory of its own may use. 0: all that it has."""
    weights: Mapping[str, float] | None = None
    """The part of its normal share that a slow device gets, below 1, by URI."""
    ready_s: Mapping[str, float] | None = None
    """Seconds until each device has ended its earlier work, by URI."""


@dataclass(frozen=True)
class Divided:
    """How a call is divided among devices: the result of the function `divide`."""

    at: int
    """The index of the axis that is cut."""
    shares: Shares
    sites: tuple[Site, ...]
    """Costs of each device that can do the work."""
    unable: dict[str, str]
    """Why a device can do no part of the work, by URI."""

    @property
    def alone_s(self) -> float:
        """Predicted seconds of the fastest device alone; inf if no device has room."""
        count = self.shares.count
        paces = [Pace(site) for site in self.sites]
        return min((p.end_s((count,)) for p in paces if p.most >= count), default=float("inf"))


def divide(
    costs: Costs, work: Work, axes: Sequence[Axis], uris: Sequence[str], wanted: Wanted
) -> Divided | None:
    """Returns the axis and the shares with the least predicted seconds, or None if no device can
    take part.

    Raises Impossible or ValueError, as plan_shares does, if no axis can be cut as `wanted` says:
    it has too few units, or the devices' memory does not suffice.
    """
    plans: list[Divided] = []
    wrong: ValueError | None = None
    why = {uri: why_not(costs, work, uri) for uri in uris}
    able = [uri for uri in uris if not why[uri]]
    if not able:
        return None
    said = wanted.shares
    given = None if isinstance(said, str) else said
    refused = [f"{uri}: {why[uri]}" for uri in given or () if why.get(uri)]
    if refused:
        raise Impossible(
            f"shards: expected some of {', '.join(able)}, got devices that cannot do the call: "
            f"{'; '.join(refused)}"
        )
    for at, axis in enumerate(axes):
        sites = sites_of(costs, work, axis, able, wanted)
        try:
            plan = plan_shares(sites, axis.count, each=said == "each", given=given)
        except ValueError as error:  # this axis has too few units, or the memory does not suffice
            if wrong is None or isinstance(error, Impossible):
                wrong = error
            continue
        plans.append(Divided(at, plan, sites, {uri: told for uri, told in why.items() if told}))
    if not plans and wrong is not None:
        raise wrong
    return plans[0] if len(plans) == 1 else min(plans, key=_lost_s)


def _lost_s(one: Divided) -> float:
    """Returns the predicted seconds of the call plus those of its longest piece. If a device stops,
    its piece is lost, and the call takes that much longer.
    """
    paces = {site.uri: Pace(site) for site in one.sites}
    shares = one.shares
    most = {uri: max(p.units for p in pieces) for uri, pieces in shares.parts.items() if pieces}
    longest_s = (paces[uri].launch + paces[uri].computes * n for uri, n in most.items())
    return shares.predicted_s + max(longest_s, default=0.0)


def why_not(costs: Costs, work: Work, uri: str) -> str:
    """Returns why a device can do no part of the work, or "" if it can."""
    node = costs.nodes[uri]
    if node.unified or {(HOST, uri), (uri, HOST)} <= costs.links.keys():
        return cannot(costs, Work(work.op, work.size, lacking=work.lacking), uri)
    return costs.why_not(HOST, device=uri) or "the way to it is not known"


def sites_of(
    costs: Costs, work: Work, axis: Axis, uris: Sequence[str], wanted: Wanted
) -> tuple[Site, ...]:
    """Returns a Site for each of these devices: what a part of the work costs there."""
    sites = []
    named = {name for uri in uris for name in costs.nodes[uri].shares}
    leaves = {name for name in named if not any(other.startswith(f"{name}:") for other in named)}
    weights, ready_s = wanted.weights or {}, wanted.ready_s or {}
    for uri in uris:
        node, speed, count = costs.nodes[uri], costs.speeds[work.op, uri], axis.count
        whole_s = speed.at(work.size)
        launch_s = max(0.0, whole_s - max(0.0, whole_s - speed.at(work.size / 32)) * 32 / 31)
        if node.unified:
            launch_s = max(launch_s, min(axis.whole_nbytes / PACK_RATE, whole_s / 2))
        limit = node.memory_nbytes
        if wanted.max_vram_nbytes and not node.unified:
            limit = min(limit or wanted.max_vram_nbytes, wanted.max_vram_nbytes)
        sites.append(
            Site(
                uri,
                Line(launch_s + PIECE_S, max((whole_s - launch_s) / count, LEAST_S)),
                NO_TIME if node.unified else costs.links[HOST, uri],
                NO_TIME if node.unified else costs.links[uri, HOST],
                axis.whole_nbytes,
                axis.cut_nbytes / count,
                work.out_nbytes / (1 if axis.combined else count),
                0 if node.unified else limit,
                tuple(sorted(name for name in leaves if in_common((name,), node.shares))),
                ready_s.get(uri, 0.0),
                weights.get(uri, 1.0),
            )
        )
    return tuple(sites)
