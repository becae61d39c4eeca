"""Makes the plan of one call from costs and work. Pure: the same costs and work give the same plan.

The candidate with the least predicted time wins; of equal ones the first in the order of devices. A
device that looks slower gets a trial after STALE runs of this work on other devices. A trial must
cost at most the time that the costs still allow for exploration (costs.EXPLORE).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.ops.arguments.check import NotThere
from sparkle_drv.sched.model.costs import Costs
from sparkle_drv.sched.model.plan import Plan
from sparkle_drv.sched.model.work import Candidate, Cost, Work

STALE = 50
"""Runs of a class of work on other devices after which an unused device is tried again."""


Able = tuple[float, int, str, Cost]
"""What `choose` sorts: (predicted seconds, order, URI, cost) of a device that can do the work."""


class Impossible(ValueError):
    """No device can do the work. The message says what the work needs and why each device
    refuses.
    """


class Lacking(Impossible, NotThere):
    """No device can do the work because none has a kernel for it: the types are wrong, or an
    expression is too large.
    """


@contextmanager
def after(failure: Exception | None) -> Iterator[None]:
    """A context manager around the decision that follows the failure of a device.

    If no other device can do the work, it raises `failure` in place of Impossible.
    """
    try:
        yield
    except Impossible:
        if failure is None:
            raise
        raise failure from None


def impossible(costs: Costs, work: Work, why: Mapping[str, str]) -> Impossible:
    """The error for work that each device refuses; `why` has the reasons by URI."""
    reasons = "; ".join(f"{uri}: {reason}" for uri, reason in why.items()) or "no device was given"
    lacking = why and all(
        u in work.lacking or (u in costs.nodes and work.op in costs.nodes[u].lacks) for u in why
    )
    return (Lacking if lacking else Impossible)(f"{work.op}: no device can do the work: {reasons}")


def choose(
    costs: Costs, work: Work, devices: Sequence[str], barred: Mapping[str, str] | None = None
) -> Plan:
    """Returns the plan of `work` on one of `devices` (URIs). Raises Impossible if no device can do
    it.

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
    return Plan(work, (*ranked, *unable), explores=chosen is not best)


def slack_s(costs: Costs, plan: Plan) -> float:
    """Returns the seconds of other work that may queue on the plan's device before another device
    becomes faster.

    Devices that share resources with the chosen one wait with it, so they do not count as others.
    Returns inf if no other device can do the work.
    """
    alike = costs.waits_for(plan.device)
    others = (c.cost.total_s for c in plan.candidates if c.cost and c.device not in alike)
    return max(0.0, min(others, default=math.inf) - plan.predicted_s)


@dataclass(frozen=True)
class Look:
    """A trial of a class of work on a device that looks slower. The trial learns the device's
    speed.
    """

    op: str
    device: str
    extra_s: Callable[[], float]
    """Returns the seconds that the trial is predicted to take beyond the best plan."""
    what: Any
    """The plan of the trial. This module does not look into it."""


def explored(costs: Costs, looks: Iterable[Look]) -> Look | None:
    """Returns the trial that is due and affordable, or None. If several are, returns the trial on
    the device that was unused longest.
    """
    stale = [one for one in looks if costs.idle_runs(one.op, one.device) >= STALE]
    due = [one for one in stale if one.extra_s() <= costs.spare_s]
    return max(due, key=lambda one: costs.idle_runs(one.op, one.device), default=None)


def cannot(costs: Costs, work: Work, device: str) -> str:
    """Returns why a device cannot do the work, or "" if it can."""
    node = costs.nodes.get(device)
    if node is None:
        return "nothing is known about it"
    if node.lost:
        return f"it is lost: {node.lost}"
    large = too_large(work, node.memory_nbytes)
    if large:
        return large
    if device in work.lacking:
        return f"it has no {work.op}: {work.lacking[device]}"
    for op in (work.op, *(x.convert for x in work.operands if x.convert)):
        if (op, device) not in costs.speeds:
            return costs.why_not(op, HOST, device=device) or f"it has no {op}"
    return ""


def too_large(work: Work, memory_nbytes: int) -> str:
    """Returns why the work does not fit in `memory_nbytes` of memory (0: unknown), or "" if it
    fits.
    """
    operands = sum(x.nbytes + x.convert_nbytes for x in work.operands)
    needed = work.out_nbytes + operands
    if memory_nbytes and needed > memory_nbytes:
        return f"{needed} bytes are needed, it has {memory_nbytes}"
    return ""


def stranded(costs: Costs, work: Work, device: str) -> str:
    """Returns why the operands cannot reach the device or the result cannot return to the host. The
    caller knows that one of these is so.
    """
    places = sorted({place for x in work.operands for place in x.places} - {device})
    why = costs.why_not(HOST, *places, device=device)
    for place in places:
        why = why or costs.why_not(HOST, device=place)
    return "there is no way for its operands to get there" + (f": {why}" if why else "")


def slower(cost: Cost, best: Cost) -> str:
    """Returns why a candidate was not chosen: the cost part with the largest difference."""
    if cost.total_s < best.total_s:
        return "predicted to be faster; the chosen one is tried again after a long time"
    parts = {
        "compute": cost.compute_s - best.compute_s,
        "operands in": cost.in_s - best.in_s,
        "result out": cost.out_s - best.out_s,
        "layout": cost.convert_s - best.convert_s,
        "queue": cost.wait_s - best.wait_s,
        "risk": cost.risk_s - best.risk_s,
    }
    name, part = max(parts.items(), key=lambda item: item[1])
    times = cost.total_s / best.total_s if best.total_s > 0 else 1.0
    return f"{times:.2f}x the time, most of it {name} (+{part * 1e6:.1f} us)"
