"""Makes the plan of a call: measures what is unknown, chooses, and keeps the plan.

A plan is kept for all calls of its shape, and is decided as if the devices were idle.
`KeptPlan.slack_s` is how many seconds longer the next best device takes. While the plan's device
has more seconds of queued work than that, each call is decided again with the queued work counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkle_drv.mesh.links.network import HOST
from sparkle_drv.sched.decide.choose import choose, slack_s, too_large
from sparkle_drv.sched.decide.kept_plan import EARLY, SETTLED, KeptPlan
from sparkle_drv.sched.model.plan import Plan
from sparkle_drv.sched.model.work import Operand, Work
from sparkle_drv.sched.model.work_class import Class
from sparkle_drv.sched.operations.operation import Request
from sparkle_drv.sched.operations.table import operation_of

from . import ways
from .arrays import ContextArray
from .constants import ContextConstant

if TYPE_CHECKING:
    from .local import LocalExecutor

KEPT = 4096
"""Most plans that are kept. When the limit is reached, all are dropped."""
BUSY_S = 2e-4
"""Seconds of queued work below which a device is not avoided: deciding takes as long."""


def kept_plan(
    executor: LocalExecutor, request: Request, key: object, uris: tuple[str, ...],
    barred: Mapping[str, str],
) -> KeptPlan:  # fmt: skip
    """Returns the best plan on idle devices, and keeps it in `executor.plans` under `key`. Raises
    Impossible if no device can do the call.
    """
    before = executor.plans.get(key)
    work = work_of(executor, request, uris)
    measure(executor, request, work, uris, barred)
    kept = _decided(executor, work, uris, barred, {})
    kept.direct = request.is_direct
    kept.sync = kept.sync and kept.direct
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


def plan(executor: LocalExecutor, request: Request, uris: tuple[str, ...]) -> Plan:
    """Returns the best plan on idle devices. Changes nothing but what it has to measure. Raises
    Impossible if no device can do the call.
    """
    barred = executor.hung(uris)
    work = work_of(executor, request, uris)
    measure(executor, request, work, uris, barred)
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
    executor: LocalExecutor, request: Request, key: tuple[Any, ...], uris: tuple[str, ...],
    barred: Mapping[str, str], kept: KeptPlan,
) -> KeptPlan:  # fmt: skip
    """Returns the best plan if queued work is counted. `kept` is the best plan on idle devices.

    The result is `kept`, or a plan for another device. A plan for another device is kept, too, to
    learn from its runs.
    """
    work = work_of(executor, request, uris)
    queued_s = {uri: executor.load.queued_s(device) for uri, device in executor.devices.items()}
    busy = _decided(executor, work, uris, barred, queued_s)
    busy.direct = request.is_direct
    if busy.device is kept.device:
        return kept
    beside = (*key, busy.device.uri)
    before = executor.plans.setdefault(beside, busy)
    if before.due:
        executor.plans[beside] = before = busy
    before.plan = busy.plan
    return before


def measure(
    executor: LocalExecutor, request: Request, work: Work, uris: tuple[str, ...],
    barred: Mapping[str, str],
) -> None:  # fmt: skip
    """Measures the devices and links whose speed for this call is unknown."""
    nodes = executor.costs.nodes
    able = [  # the devices to measure: those with room for the work
        uri for uri in uris if uri not in barred and not too_large(work, nodes[uri].memory_nbytes)
    ]
    if not request.measured:
        for kind in _classes(request):
            executor.know(kind, able)
    if not work.out_place:
        ways.know(executor, {place for x in work.operands for place in x.places}, able)


def work_of(executor: LocalExecutor, request: Request, uris: Sequence[str]) -> Work:
    """Returns the call as Work, with the places where its operands are now."""
    task = request.task
    assert task is not None
    kind, size = request.operation.work_class(task)
    operands = request.operands
    arrays = any(x.__class__ is ContextArray for x in (*operands.values(), request.out))
    return Work(
        kind.name, size, tuple(_operand(request, name, x) for name, x in operands.items()),
        task.out.nbytes, "" if arrays else HOST, executor.lacking(kind, uris),
    )  # fmt: skip


def _classes(request: Request) -> list[Class]:
    """Returns the classes of work of a call: its own, and that of a change of layout before it."""
    task, conversion = request.task, request.conversion
    assert task is not None
    kinds = [request.operation.work_class(task)[0]]
    if conversion is not None:
        kinds.append(operation_of(conversion.task).work_class(conversion.task)[0])
    return kinds


def _decided(
    executor: LocalExecutor, work: Work, uris: tuple[str, ...], barred: Mapping[str, str],
    queued_s: Mapping[str, float],
) -> KeptPlan:  # fmt: skip
    with executor.deciding:
        costs, journal = executor.costs.beside(queued_s), executor.journal
        plan = choose(costs, work, uris, barred)
        if journal is not None:
            for uri, seconds in queued_s.items():
                journal.record_call("queued", uri, seconds)
            journal.decided(work, uris, plan, barred)
            for uri in queued_s:
                journal.record_call("queued", uri, 0.0)
        if plan.explores:
            executor.tell("explored", plan.extra_s)
        slack = slack_s(costs, plan)
    cost = plan.candidates[0].cost
    assert cost is not None
    unified = costs.nodes[plan.device].unified
    sync = work.out_place == HOST and unified
    device = executor.devices[plan.device]
    return KeptPlan(plan, device, cost.compute_s, slack, EARLY, sync=sync)


def _operand(request: Request, name: str, x: Any) -> Operand:
    conversion = request.conversion
    if conversion is None or conversion.operand != name:
        return Operand(x.nbytes, _places(x))
    kind, _ = operation_of(conversion.task).work_class(conversion.task)
    return Operand(x.nbytes, _places(x), kind.name, conversion.task.out.nbytes)


def _places(x: Any) -> frozenset[str]:
    if isinstance(x, ContextConstant):
        return frozenset((HOST, *x.places))
    return frozenset(x.places if isinstance(x, ContextArray) else (HOST,))
