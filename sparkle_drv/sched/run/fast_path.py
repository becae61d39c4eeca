"""The entry of every call of a Context. A call whose plan is known takes the short path: it looks
up the plan and runs the operation. Other calls take the long path, through calls.py.

A plan lets `KeptPlan.spare` calls pass before the next measured call (kept_plan.py). A measured
call takes the short path, too, and is timed there. After the long path, the caches hold more of the
interpreter's code and data, and short work runs up to twice as fast as usual. So times measured on
the long path would be wrong.

The long path serves calls that are decided again or measured step by step (timed_steps.py). It also
serves calls with ContextArrays, calls in a recorded trace, and a Context that validates results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from numpy import ndarray

from sparkle_drv.core import numpy_layout
from sparkle_drv.ops.calls.table import call_key
from sparkle_drv.ops.memory.foreign import is_foreign
from sparkle_drv.sched.decide.choose import after

from . import calls, foreign
from .arrays import ContextArray, here
from .constants import ContextConstant
from .local import FAILURES, LocalExecutor, may_be_redone
from .sharding import Sharding

_HELD = (ContextArray, ContextConstant)
_ARRAYS = (*_HELD, ndarray)
# known() lets C read the structs of numpy's arrays. It must run before the first key of a plan is
# computed, because it changes the keys of calls.
numpy_layout.known()


def call(
    executor: LocalExecutor,
    uris: calls.Uris,
    operation: Callable[..., Any],
    placed: Callable[..., Any],
    given: tuple[Any, ...],
    named: dict[str, Any],
    out: Any = None,
) -> Any:
    """Runs `operation`, a function of ops, on the device of `uris` that takes the least time.
    `placed` is the function of calls.py that makes the same call without a known plan.
    """
    values, head = given, (uris, placed)
    if named or isinstance(out, ContextArray):
        values, head = (*given, *named.values()), (uris, placed, *_kind(out), *named)  # type: ignore[assignment]
    try:
        key = call_key(head, values, _shape if placed is calls.map else _about)
        if out is not None and is_foreign(out):
            raise foreign.Foreign
    except foreign.Foreign:
        again = partial(call, executor, uris, operation, placed)
        return foreign.call(executor.devices, again, given, named, out)
    held = key[-1] and any(isinstance(x, _HELD) for x in values)
    kept = executor.plans.get(key)
    if out is not None:
        executor.own.waiting.settle()
        named["out"] = out
    if (
        kept is None
        or (kept.spare <= 0 and (kept.due or not kept.sync))
        or executor.trace is not None
        or executor.inspector is not None
        or not (out is None or out.__class__ is ndarray)
        or (held and not _constants(executor, values))
    ):
        executor.check_open()
        return placed(executor, uris, key, *given, **named)
    device = kept.device
    executor.last = kept
    try:
        there, more = given, named
        if held:
            there = tuple(here(given, device.uri))
            more = dict(zip(named, here(named.values(), device.uri), strict=True))
        if kept.spare > 0:
            kept.spare -= 1
            if len(there) == 2 and not more:  # `*there` would make a 16x16x16 product 6 % slower
                return operation(device, there[0], there[1])
            return operation(device, *there, **more)
        kept.begins()
        return executor.timed(kept, partial(operation, device, *there, **more))
    except FAILURES as error:
        executor.failed(device.uri, error)
        others = tuple(filter(device.uri.__ne__, uris))
        if not others or not may_be_redone(error, out):
            raise
        failure = error
    with after(failure):
        return placed(executor, others, (others, *key[1:]), *given, **named)


def divided(
    sharding: Sharding, uris: calls.Uris, operation: Callable[..., Any],
    placed: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any], out: Any = None,
) -> Any:  # fmt: skip
    """Runs `operation` as `call` does, for a call that several devices may share."""
    head = (uris, placed, sharding.about, *_kind(out), *named)
    try:
        values = (*given, *named.values())
        key = call_key(head, values, _shape if placed is calls.map else _about)
        if out is not None and is_foreign(out):
            raise foreign.Foreign
    except foreign.Foreign:
        again = partial(divided, sharding, uris, operation, placed)
        return foreign.call(sharding.devices, again, given, named, out)
    executor = sharding.alone(key)
    if executor is not None:
        return call(executor, uris, operation, placed, given, named, out)
    if out is not None:
        sharding.own.waiting.settle()
        named["out"] = out
    sharding.check_open()
    return placed(sharding, uris, key, *given, **named)


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
    if isinstance(x, _ARRAYS):
        places = getattr(x, "places", None)
        return x.__class__, x.shape, x.dtype, getattr(x, "layout", None), places
    if is_foreign(x):
        raise foreign.Foreign
    return x.__class__


def _constants(executor: LocalExecutor, given: Sequence[Any]) -> bool:
    """Returns whether all ContextArrays and constants among `given` are open constants of this
    Context.
    """
    return all(
        isinstance(x, ContextConstant) and x.shape != () and x.of(executor) and not x.closed
        for x in given
        if isinstance(x, _HELD)
    )
