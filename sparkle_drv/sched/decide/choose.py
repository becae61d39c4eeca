"""From costs and work to a plan. Pure: the same costs and work give the same plan.

The candidate with the least predicted time wins; ties go by the order of the devices. A device that
looks slower is tried when it has run none of this work for STALE runs. The trial must cost no more
than the time that costs.EXPLORE has saved for exploration.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.ops.memory.staging import NotThere
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.work import Candidate, Cost, Plan, Share, Work

WHOLE = 1000
"""`Share.end` of work that is not cut by rows."""
STALE = 50
"""Runs on other devices after which a device is tried again."""


Able = tuple[float, int, str, Cost]
"""(predicted seconds, order, URI, cost) of a device that can do the work."""


class Impossible(ValueError):
    """No device can do the work; the message names what the work needs and why each refuses."""


class Lacking(Impossible, NotThere):
    """The same, because no device has a kernel for it: the types are wrong, or too much is asked
    of one expression.
    """


def impossible(costs: Costs, work: Work, why: Mapping[str, str]) -> Impossible:
    """The error for work that each device refuses; `why` has the reasons by URI."""
    given = "; ".join(f"{uri}: {reason}" for uri, reason in why.items()) or "no device was given"
    lacking = why and all(u in costs.nodes and work.op in costs.nodes[u].lacks for u in why)
    return (Lacking if lacking else Impossible)(f"{work.op}: no device can do it: {given}")


def choose(
    costs: Costs, work: Work, devices: Sequence[str], barred: Mapping[str, str] | None = None
) -> Plan:
    """The plan of `work` on one of `devices` (URIs). Raises Impossible.

    `barred` maps devices that must not do the work to the reason.
    """
    out = barred or {}
    able: list[Able] = []
    unable: list[Candidate] = []
    for order, device in enumerate(devices):
        reason = out.get(device) or cannot(costs, work, device)
        if reason:
            unable.append(Candidate(device, None, reason))
            continue
        cost = costs.of(work, device)
        if not math.isfinite(cost.total_s):
            unable.append(Candidate(device, None, stranded(costs, work, device)))
            continue
        able.append((cost.total_s, order, device, cost))
    if not able:
        raise impossible(costs, work, {c.device: c.why for c in unable})
    able.sort(key=lambda entry: entry[:2])
    best = able[0]
    slow = [Look(work.op, e[2], partial(operator.sub, e[0], best[0]), e) for e in able[1:]]
    look = explored(costs, slow)
    chosen = best if look is None else look.what
    rest = [entry for entry in able if entry is not chosen]
    ranked = [Candidate(chosen[2], chosen[3], basis=costs.basis(work.op, chosen[2]))]
    ranked += [
        Candidate(uri, cost, slower(cost, chosen[3]), costs.basis(work.op, uri))
        for _, _, uri, cost in rest
    ]
    shares = (Share(chosen[2], 0, WHOLE),)
    return Plan(work, shares, (*ranked, *unable), explores=chosen is not best)


def slack_s(costs: Costs, plan: Plan) -> float:
    """Seconds of other work that the chosen device may have queued before another device is faster.

    Only devices that do not wait for the chosen one count. Infinite if there is none.
    """
    alike = costs.waits_for(plan.device)
    others = (c.cost.total_s for c in plan.candidates if c.cost and c.device not in alike)
    return max(0.0, min(others, default=math.inf) - plan.predicted_s)


@dataclass(frozen=True)
class Look:
    """A trial of a class of work on a device that looks slower, made to learn its speed."""

    op: str
    device: str
    extra_s: Callable[[], float]
    """Gives the seconds that the trial is predicted to take beyond the best plan."""
    what: Any
    """The plan of the trial, opaque here."""


def explored(costs: Costs, looks: Iterable[Look]) -> Look | None:
    """The trial that is due and affordable, the longest idle first; None if there is none."""
    stale = [one for one in looks if costs.idle_runs(one.op, one.device) >= STALE]
    due = [one for one in stale if one.extra_s() <= costs.spare_s]
    return max(due, key=lambda one: costs.idle_runs(one.op, one.device), default=None)


def cannot(costs: Costs, work: Work, device: str) -> str:
    """Why a device cannot do the work; "" if it can."""
    node = costs.nodes.get(device)
    if node is None:
        return "nothing is known about it"
    if node.lost:
        return f"it is lost: {node.lost}"
    large = too_large(work, node.memory_nbytes)
    if large:
        return large
    for op in (work.op, *(x.convert for x in work.operands if x.convert)):
        if (op, device) not in costs.speeds:
            return costs.why_not(op, HOST, device=device) or f"it has no {op}"
    return ""


def too_large(work: Work, memory_nbytes: int) -> str:
    """Why `memory_nbytes` of memory (0: unknown) are too few for the work; "" if they suffice."""
    operands = sum(x.nbytes + x.convert_nbytes for x in work.operands)
    needed = work.out_nbytes + operands
    if memory_nbytes and needed > memory_nbytes:
        return f"{needed} bytes are needed, it has {memory_nbytes}"
    return ""


def stranded(costs: Costs, work: Work, device: str) -> str:
    """Why the operands cannot reach a device, or the result cannot return from it to the host."""
    places = sorted({place for x in work.operands for place in x.places} - {device})
    why = costs.why_not(HOST, *places, device=device)
    for place in places:
        why = why or costs.why_not(HOST, device=place)
    return "there is no way for its operands to get there" + (f": {why}" if why else "")


def slower(cost: Cost, best: Cost) -> str:
    """Why a candidate was not chosen: names the largest part of the difference."""
    if cost.total_s < best.total_s:
        return "predicted to be faster; the chosen one is tried again after a long time"
    parts = {
        "compute": cost.compute_s - best.compute_s,
        "operands in": cost.in_s - best.in_s,
        "result out": cost.out_s - best.out_s,
        "layout": cost.convert_s - best.convert_s,
        "sync": cost.sync_s - best.sync_s,
        "queue": cost.wait_s - best.wait_s,
        "risk": cost.risk_s - best.risk_s,
    }
    name, part = max(parts.items(), key=lambda item: item[1])
    times = cost.total_s / best.total_s if best.total_s > 0 else 1.0
    return f"{times:.2f}x the time, most of it {name} (+{part * 1e6:.1f} us)"
