"""A call of the executor while a trace is recorded: the same plan, taken step by step, each waited
for, so that it has an end. Called by local.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops import staging
from sparkle_drv.telemetry.trace import Span, Trace

from .arrays import ContextArray
from .noted import BACK, COMPUTE, INTO, noting

if TYPE_CHECKING:
    from .conversion import Conversion
    from .local import LocalExecutor
    from .sampled import Kept

PLAN, VALIDATE = ("host", "plan"), ("host", "validate")
"""The tracks of decisions, and of looking at results."""


def run(
    executor: LocalExecutor,
    trace: Trace,
    begin_ns: int,
    kept: Kept,
    operands: Sequence[Any],
    out: Any,
    call: Callable[[Device, Sequence[Any], Any], Any],
    convert: Conversion | None = None,
) -> Any:
    """As LocalExecutor.run once it has decided; `begin_ns` is when it began to."""
    device, work = kept.device, kept.plan.work
    costs = {c.device: c.cost.total_s for c in kept.plan.candidates if c.cost}
    now = time.perf_counter_ns()
    decided = trace.span(
        PLAN, work.op, begin_ns, now, device=device.uri, predicted_s=costs, size=work.size
    )
    noting(trace, now)
    arrays = any(isinstance(x, ContextArray) for x in (*operands, out))
    if not arrays and device.info.unified:
        return _computed(trace, kept, decided, [], lambda: call(device, operands, out))
    came: list[Span] = []
    there = [_brought(executor, trace, device, x, came) for x in operands]
    if convert is not None:
        there[convert.at] = _converted(trace, kept, there[convert.at], came, convert)
    if not arrays:
        made = _computed(trace, kept, decided, came, lambda: waited(call(device, there, None)))
        return _fetched(trace, device, made, out)
    target = out.on(device.uri) if isinstance(out, ContextArray) else out
    made = _computed(trace, kept, decided, came, lambda: waited(call(device, there, target)))
    if out is not None:
        out.wrote(device.uri)
        return out
    return ContextArray(executor, device.uri, made)


def checked(trace: Trace) -> None:
    """The arguments of the call that is going on were looked at, and its shape."""
    trace.noted.append((PLAN, "check", trace.call_ns, time.perf_counter_ns()))


def looked(trace: Trace, kept: Kept, begin_ns: int, wrong: str) -> None:
    """A result was looked at, beginning at `begin_ns`; `wrong`: what was found, "" nothing."""
    end = time.perf_counter_ns()
    trace.span(VALIDATE, kept.plan.work.op, begin_ns, end, device=kept.device.uri, wrong=wrong)


def _computed(
    trace: Trace, kept: Kept, decided: Span, came: Sequence[Span], call: Callable[[], Any]
) -> Any:
    begin = time.perf_counter_ns()
    made = call()
    end = time.perf_counter_ns()
    predicted = kept.compute_s
    work = kept.plan.work
    span = trace.span(
        (kept.device.uri, COMPUTE), work.op, begin, end, size=work.size, predicted_s=predicted
    )
    trace.flow("decision", decided, span)
    for source in came:
        trace.flow("operand", source, span)
    kept.measured_s = kept.converted_s + (end - begin) * 1e-9
    noting(trace, end)
    return made


def _converted(trace: Trace, kept: Kept, x: Array, came: list[Span], convert: Conversion) -> Array:
    """An operand in the layout that the work wants; from then on the work waits for that."""
    begin = time.perf_counter_ns()
    made = waited(convert.run(kept.device, x))
    end = time.perf_counter_ns()
    cost = kept.plan.candidates[0].cost
    span = trace.span(
        (kept.device.uri, COMPUTE), convert.kind.name, begin, end, size=x.nbytes,
        predicted_s=cost.convert_s if cost else 0.0,
    )  # fmt: skip
    for source in came:
        trace.flow("operand", source, span)
    came[:] = [span]
    kept.converted_s = (end - begin) * 1e-9
    return made


def _brought(
    executor: LocalExecutor, trace: Trace, device: Device, x: Any, came: list[Span]
) -> Any:
    """An operand on the device; what was moved for it is appended to `came`."""
    if x is None or (isinstance(x, ContextArray) and device.uri in x.places):
        return None if x is None else x.on(device.uri)
    begin = time.perf_counter_ns()
    made = x.on(device.uri) if isinstance(x, ContextArray) else device.array(np.asarray(x))
    device.default_queue.fence(device.default_queue.submitted).wait()
    end = time.perf_counter_ns()
    came.append(trace.span((device.uri, INTO), "operand", begin, end, nbytes=x.nbytes))
    noting(trace, end)
    return made


def _fetched(trace: Trace, device: Device, made: Array, out: Any) -> Any:
    """The result on the host."""
    begin = time.perf_counter_ns()
    host = made.numpy()
    if out is not None:
        staging.check_out(out, made.shape, made.dtype, None)  # an assignment would broadcast
        out[...] = host
    end = time.perf_counter_ns()
    trace.span((device.uri, BACK), "result", begin, end, nbytes=made.nbytes)
    noting(trace, end)
    return host if out is None else out


def waited(made: Array) -> Array:
    """The array, when what fills it has ended."""
    if made.fence is not None:
        made.fence.wait()
    return made
