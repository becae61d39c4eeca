"""From a call to the plan that it follows: what is asked of the devices first, the choice, and what
is kept of it.

A plan is kept for the calls of its shape, decided as if the devices were idle. While the one that
it names has more to do than another one is slower, a call is decided anew, by what is queued.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.decide.choose import choose, slack_s, too_large
from sparkle_drv.sched.decide.sampled import EARLY, SETTLED, Kept
from sparkle_drv.sched.model.conversion import Conversion
from sparkle_drv.sched.model.operations import Class
from sparkle_drv.sched.model.work import Operand, Plan, Work

from . import ways
from .arrays import ContextArray
from .constants import ContextConstant

if TYPE_CHECKING:
    from .local import LocalExecutor

KEPT = 4096
"""Plans that are kept; beyond that all are forgotten."""
BUSY_S = 2e-4
"""A device that is busy for less is not avoided: to decide takes as long."""


@dataclass(frozen=True)
class Call:
    """What is to be done, wherever; see LocalExecutor.run."""

    describe: Callable[[], tuple[Class, float, int]]
    operands: Sequence[Any]
    out: Any
    convert: Conversion | None
    known: bool = False
    """Has the caller measured already what can be measured of the devices?"""


def kept_plan(
    executor: LocalExecutor,
    call: Call,
    key: object,
    uris: tuple[str, ...],
    barred: Mapping[str, str],
    before: Kept | None,
) -> Kept:
    """The best plan on idle devices, kept under `key`, where `before` was. Raises Impossible."""
    work, arrays = _known(executor, call, uris, barred)
    kept = _decided(executor, work, arrays, uris, barred)
    if len(executor.plans) >= KEPT:
        executor.plans.clear()
    if before is not None:
        kept.until = SETTLED
    if kept.plan.explores:  # one run, and that one is measured
        kept.runs, kept.until = SETTLED - 1, SETTLED
    elif before is not None and before.device is kept.device and executor.trace is None:
        kept.follows(before)
    executor.plans[key] = kept
    return kept


def idle_plan(
    executor: LocalExecutor, call: Call, uris: tuple[str, ...], barred: Mapping[str, str]
) -> Plan:
    """The best plan on idle devices of a call that is not made. Raises Impossible."""
    work, _ = _known(executor, call, uris, barred)
    with executor.deciding:
        return choose(executor.costs, work, uris, barred)


def is_busy(executor: LocalExecutor, kept: Kept) -> bool:
    """Has its device so much to do that another one may be faster?"""
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
    kept: Kept,
) -> Kept:
    """The best plan beside what the devices have to do now, where `kept` is best on idle ones: that
    one, or one of another device, which is kept beside it for what its runs teach.
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
    """(what is to be done, whether it is of ContextArrays), measured where it is not known."""
    kind, size, out_nbytes = call.describe()
    given = [x for x in call.operands if x is not None]
    arrays = any(x.__class__ is ContextArray for x in (*given, call.out))
    convert, costs = call.convert, executor.costs
    operands = tuple(
        _operand(x, convert if convert and convert.at == i else None)
        for i, x in enumerate(call.operands)
        if x is not None
    )
    work = Work(kind.name, size, operands, out_nbytes, "" if arrays else HOST)
    able = [  # nothing is measured where it does not fit
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
) -> Kept:  # fmt: skip
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
    return Kept(
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
