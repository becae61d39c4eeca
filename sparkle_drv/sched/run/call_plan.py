"""Makes the plan of a call: measures what is unknown, chooses, and keeps the plan.

A plan is kept for all calls of its shape, and is decided as if the devices were idle.
`KeptPlan.slack_s` is how many seconds longer the next best device takes. While the plan's device
has more seconds of queued work than that, each call is decided again with the queued work counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.decide.choose import choose, slack_s, too_large
from sparkle_drv.sched.decide.kept_plan import EARLY, SETTLED, KeptPlan
from sparkle_drv.sched.model.conversion import Conversion
from sparkle_drv.sched.model.operations import Class
from sparkle_drv.sched.model.work import Operand, Plan, Work

from . import ways
from .arrays import ContextArray
from .constants import ContextConstant

if TYPE_CHECKING:
    from .local import LocalExecutor

KEPT = 4096
"""Most plans that are kept. When the limit is reached, all are dropped."""
BUSY_S = 2e-4
"""Seconds of queued work below which a device is not avoided: deciding takes as long."""


@dataclass(frozen=True)
class Call:
    """A call to plan. The fields are arguments of LocalExecutor.run."""

    describe: Callable[[], tuple[Class, float, int]]
    operands: Sequence[Any]
    out: Any
    convert: Conversion | None
    known: bool = False
    """Whether the caller has already measured the devices for this call."""


def kept_plan(
    executor: LocalExecutor,
    call: Call,
    key: object,
    uris: tuple[str, ...],
    barred: Mapping[str, str],
    before: KeptPlan | None,
) -> KeptPlan:
    """Returns the best plan on idle devices, and keeps it in `executor.plans` under `key`. `before`
    is the previous plan under this key, if there is one. Raises Impossible if no device can do the
    call.
    """
    work, arrays = _known(executor, call, uris, barred)
    kept = _decided(executor, work, arrays, uris, barred)
    if len(executor.plans) >= KEPT:
        executor.plans.clear()
    if before is not None:
        kept.until = SETTLED
    if kept.plan.explores:  # the only run of a trial is measured
        kept.runs, kept.until = SETTLED - 1, SETTLED
    elif before is not None and before.device is kept.device and executor.trace is None:
        kept.follows(before)
    executor.plans[key] = kept
    return kept


def idle_plan(
    executor: LocalExecutor, call: Call, uris: tuple[str, ...], barred: Mapping[str, str]
) -> Plan:
    """Returns the best plan on idle devices, for a call that is not made. Raises Impossible if no
    device can do the call.
    """
    work, _ = _known(executor, call, uris, barred)
    with executor.deciding:
        return choose(executor.costs, work, uris, barred)


def is_busy(executor: LocalExecutor, kept: KeptPlan) -> bool:
    """Returns whether the plan's device has so much queued work that another one may be faster."""
    if kept.slack_s == math.inf:
        return False
    alike = executor.costs.waits_for(kept.device.uri)
    waits = sum(executor.load.queued_s(executor.devices[uri]) for uri in alike)
    return waits > kept.slack_s + BUSY_S


def beside_others(
    executor: LocalExecutor,
    call: Call,
    key: tuple[Any, ...],
    uris: tuple[str, ...],
    barred: Mapping[str, str],
    kept: KeptPlan,
) -> KeptPlan:
    """Returns the best plan if queued work is counted. `kept` is the best plan on idle devices.

    The result is `kept`, or a plan for another device. A plan for another device is kept, too, to
    learn from its runs.
    """
    work, arrays = _known(executor, call, uris, barred)
    with executor.deciding:
        for uri, device in executor.devices.items():
            executor.tell("queued", uri, executor.load.queued_s(device))
        try:
            found = _decided(executor, work, arrays, uris, barred)
        finally:
            for uri in executor.devices:
                executor.tell("queued", uri, 0.0)
    if found.device is kept.device:
        return kept
    beside = (*key, found.device.uri)
    before = executor.plans.setdefault(beside, found)
    if before.due:
        executor.plans[beside] = before = found
    before.plan = found.plan
    return before


def _known(
    executor: LocalExecutor, call: Call, uris: tuple[str, ...], barred: Mapping[str, str]
) -> tuple[Work, bool]:
    """Measures the devices and links whose speed for this call is unknown. Returns the call as
    Work, and whether the call uses ContextArrays.
    """
    kind, size, out_nbytes = call.describe()
    given = [x for x in call.operands if x is not None]
    arrays = any(x.__class__ is ContextArray for x in (*given, call.out))
    convert, costs = call.convert, executor.costs
    operands = tuple(
        _operand(x, convert if convert and convert.at == i else None)
        for i, x in enumerate(call.operands)
        if x is not None
    )
    lacking = executor.lacking(kind, uris)
    work = Work(kind.name, size, operands, out_nbytes, "" if arrays else HOST, lacking)
    able = [  # the devices to measure: those with room for the work
        uri
        for uri in uris
        if uri not in barred and not too_large(work, costs.nodes[uri].memory_nbytes)
    ]
    if not call.known:
        for one in (kind, *((convert.kind,) if convert else ())):
            executor.know(one, able)
    if arrays:
        ways.know(executor, {place for x in given for place in _places(x)}, able)
    return work, arrays


def _decided(
    executor: LocalExecutor, work: Work, arrays: bool, uris: tuple[str, ...],
    barred: Mapping[str, str],
) -> KeptPlan:  # fmt: skip
    costs = executor.costs
    with executor.deciding:
        plan = choose(costs, work, uris, barred)
        if executor.journal is not None:
            executor.journal.decided(work, uris, plan, barred)
        if plan.explores:
            executor.tell("explored", plan.extra_s)
        slack = slack_s(costs, plan)
    cost = plan.candidates[0].cost
    assert cost is not None
    return KeptPlan(
        plan,
        executor.devices[plan.device],
        cost.compute_s,
        slack,
        EARLY,
        sync=not arrays and costs.nodes[plan.device].unified,
    )


def _places(x: Any) -> frozenset[str]:
    if isinstance(x, ContextConstant):
        return frozenset((HOST, *x.places))
    return frozenset(x.places if isinstance(x, ContextArray) else (HOST,))


def _operand(x: Any, convert: Conversion | None) -> Operand:
    if convert is None:
        return Operand(x.nbytes, _places(x))
    return Operand(x.nbytes, _places(x), convert.kind.name, convert.nbytes)
