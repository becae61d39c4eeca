"""The entry of every call of a Context. A call whose plan is known takes the short path: it looks
up the plan and runs the operation. Other calls take the long path, as a Request.

A plan lets `KeptPlan.spare` calls pass before the next measured call (kept_plan.py). A measured
call takes the short path, too, and is timed there. After the long path, the caches hold more of the
interpreter's code and data, and short work runs up to twice as fast as usual. So times measured on
the long path would be wrong.

The long path serves calls that are decided again or measured step by step (timed_steps.py). It also
serves calls with ContextArrays, calls in a recorded trace, and a Context that validates results.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from numpy import ndarray

from sparkle_drv.core import numpy_layout
from sparkle_drv.ops.calls.table import call_key
from sparkle_drv.ops.expression.graph import Graph
from sparkle_drv.ops.memory.foreign import is_foreign
from sparkle_drv.sched.decide.choose import after
from sparkle_drv.sched.model.plan import Plan
from sparkle_drv.sched.operations.operation import Operation, Request
from sparkle_drv.sched.shard.terms import Terms

from . import call_plan, call_spans, foreign, sharding
from .arrays import ContextArray, check_own, here
from .constants import ContextConstant
from .failures import FAILURES, may_be_redone
from .local import LocalExecutor
from .shared_plan import KeptShards

Uris = tuple[str, ...]
"""URIs of the devices that a call may use."""
_HELD = (ContextArray, ContextConstant)
_ARRAYS = (*_HELD, ndarray)
# known() lets C read the structs of numpy's arrays. It must run before the first key of a plan is
# computed, because it changes the keys of calls.
numpy_layout.known()


def call(
    executor: LocalExecutor, uris: Uris, operation: Operation, args: tuple[Any, ...],
    named: dict[str, Any], out: Any = None, terms: Terms | None = None,
) -> Any:  # fmt: skip
    """Makes the call `operation.function(device, *args, **named)` on the device of `uris` that
    takes the least time. With `terms`, several devices may share it.
    """
    values = (*args, *named.values()) if named else args
    head: tuple[Any, ...] = (uris, operation.name)
    if named or terms is not None or isinstance(out, ContextArray):
        about = () if terms is None else terms.key
        head = (*head, *about, *_kind(out), *named)
    try:
        key = call_key(head, values, _shape if operation.elementwise else _about)
        if out is not None and is_foreign(out):
            raise foreign.Foreign
    except foreign.Foreign:
        again = partial(_again, executor, uris, operation, terms)
        return foreign.call(executor.devices, again, args, named, out)
    has_held = key[-1] and any(isinstance(x, _HELD) for x in values)
    kept = executor.plans.get(key)
    if out is not None:
        executor.waiting.settle()
    if terms is not None and sharding.is_alone(executor, key, terms):
        terms = None
    if (
        kept is None
        or terms is not None
        or (kept.spare <= 0 and (kept.due or not kept.sync))
        or executor.trace is not None
        or executor.inspector is not None
        or not (out is None or out.__class__ is ndarray)
        or (has_held and not (kept.direct and _constants(executor, values)))
    ):
        executor.check_open()
        return _planned(executor, key, uris, (operation, args, named, out, terms))
    device = kept.device
    executor.last = kept
    try:
        there, more = args, named
        if has_held:
            there = tuple(here(args, device.uri))
            more = dict(zip(named, here(named.values(), device.uri), strict=True))
        if out is not None:
            more = {**more, "out": out}
        if kept.spare > 0:
            kept.spare -= 1
            if len(there) == 2 and not more:  # `*there` would make a 16x16x16 product 6 % slower
                return operation.function(device, there[0], there[1])
            return operation.function(device, *there, **more)
        kept.begins()
        return executor.timed(kept, partial(operation.function, device, *there, **more))
    except FAILURES as error:
        executor.failed(device.uri, error)
        others = tuple(filter(device.uri.__ne__, uris))
        if not others or not may_be_redone(error, out):
            raise
        failure = error
    with after(failure):
        what = operation, args, named, out, terms
        return _planned(executor, (others, *key[1:]), others, what)


def usual(
    executor: LocalExecutor, operation: Operation, args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Makes a call that says nothing of its placing."""
    return call(executor, executor.usual, operation, args, named, None, executor.usual_terms)


def _again(
    executor: LocalExecutor, uris: Uris, operation: Operation, terms: Terms | None,
    args: tuple[Any, ...], named: dict[str, Any], out: Any,
) -> Any:  # fmt: skip
    return call(executor, uris, operation, args, named, out, terms)


def request_of(
    executor: LocalExecutor, operation: Operation, args: tuple[Any, ...], named: dict[str, Any],
    out: Any = None, terms: Terms | None = None,
) -> Request:  # fmt: skip
    """Returns a call as a Request. Raises ValueError for closed arrays and those of another
    Context.
    """
    check_own(executor, (*args, *named.values(), out))
    request = operation.request(args, named)
    request.out, request.terms = out, terms
    return request


def plan(
    executor: LocalExecutor, uris: Uris, operation: Operation, args: tuple[Any, ...],
    named: dict[str, Any], out: Any = None, terms: Terms | None = None,
) -> Plan | KeptShards:  # fmt: skip
    """Returns the plan that `call` would follow. Raises what the call raises, and ValueError for a
    call that runs without a plan, because its operands are empty or bound to a device.
    """
    executor.check_open()
    args, named = foreign.all_taken(executor.devices, args, named)
    request = request_of(executor, operation, args, named, out, terms)
    if request.task is None:
        operands = request.operands.values()
        got = ", ".join(
            f"{getattr(x, 'dtype', type(x).__name__)}{list(getattr(x, 'shape', ()))}"
            for x in operands
        )
        raise ValueError(
            "plan: expected operands of the operation that are not empty and bound to no "
            f"device, got {got or 'none'}"
        )
    if terms is not None:
        shared = sharding.plan(executor, request, uris)
        if shared is not None:
            return shared
        uris = sharding.within(executor, request, uris)
    return call_plan.plan(executor, request, uris)


def _planned(executor: LocalExecutor, key: tuple[Any, ...], uris: Uris, what: Any) -> Any:
    """Makes a call that has no plan, or whose plan must be looked at; in a trace as a span."""
    trace = executor.trace
    if trace is None:
        return _run(executor, key, uris, request_of(executor, *what))
    with call_spans.whole(trace, what[0].name):
        return _run(executor, key, uris, request_of(executor, *what))


def _run(executor: LocalExecutor, key: tuple[Any, ...], uris: Uris, request: Request) -> Any:
    if request.terms is None:
        result = executor.run(request, key, uris)
    else:
        result = sharding.run(executor, request, key, uris)
    if request.home and isinstance(result, ndarray) and request.out is None:
        return ContextArray(executor, request.home, executor.devices[request.home].array(result))
    return result


def _kind(out: Any) -> tuple[type, ...]:
    """Returns the part of a plan's key that depends on `out`. Only an `out` of the Context needs a
    plan of its own: its result stays on a device, and the call does not wait.
    """
    return (ContextArray,) if isinstance(out, ContextArray) else ()


def _about(x: Any) -> Any:
    """Returns what stands for the argument `x` in the key by which a call's plan is found.

    `call_key` calls it for all arguments but an ndarray, str, bool or None.
    """
    if isinstance(x, _ARRAYS):
        return _shape(x)
    if is_foreign(x):
        raise foreign.Foreign
    return x if isinstance(x, int) else repr(x)


def _shape(x: Any) -> Any:
    """Returns what stands for the argument `x` in the key by which a call's plan is found. For a
    number this is only its type: the function serves operations whose plan depends on no value.
    """
    if x.__class__ is Graph:
        return x
    if isinstance(x, _ARRAYS):
        places = getattr(x, "places", None)
        return x.__class__, x.shape, x.dtype, getattr(x, "layout", None), places
    if is_foreign(x):
        raise foreign.Foreign
    return x.__class__


def _constants(executor: LocalExecutor, operands: Sequence[Any]) -> bool:
    """Returns whether all ContextArrays and constants among `operands` are open constants of this
    Context.
    """
    return all(
        isinstance(x, ContextConstant) and x.shape != () and x.of(executor) and not x.closed
        for x in operands
        if isinstance(x, _HELD)
    )
