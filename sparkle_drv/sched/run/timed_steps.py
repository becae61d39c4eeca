"""Runs a call step by step. The steps copy operands in, change a layout, run the operation and copy
the result out. Each is waited for and timed. The result equals that of the plain call.

Measured calls run this way (local.py), except calls of numpy arrays on a device that shares the
host's memory. While a trace is recorded, all calls run this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.ops.memory import staging
from sparkle_drv.sched.model.work import Measured
from sparkle_drv.sched.operations.operation import Request
from sparkle_drv.sched.operations.table import operation_of

from .arrays import ContextArray, there
from .constants import ContextConstant
from .stopwatch import COMPUTE, CONVERT, IN, OUT, Stopwatch
from .unplanned import changed_on

if TYPE_CHECKING:
    from sparkle_drv.sched.decide.kept_plan import KeptPlan


def run(watch: Stopwatch, kept: KeptPlan, request: Request) -> tuple[Any, Measured]:
    """Runs the call. Returns the result, and the times of the steps.

    If the operation keeps the order of its operands, the copies and the operation are one step, and
    only its total is known.
    """
    device, out, work = kept.device, request.out, kept.plan.work
    compute = partial(watch.step, device, COMPUTE, work.op)
    about = {"size": work.size, "predicted_s": kept.compute_s}
    pending(device).wait()  # so that the times do not include earlier work
    operands = request.operands.values()
    arrays = any(isinstance(x, ContextArray) for x in (*operands, out))
    whole = request.operation.keeps_order(request)
    if not arrays and (whole or device.info.unified):
        place = partial(there, uri=device.uri)
        changed = changed_on(device, request) if request.conversion else None
        array = compute(lambda: request.call(device, place, out, changed), **about)
        total = watch.taken[COMPUTE]
        return array, Measured.of(total) if device.info.unified else Measured(total)
    bring = partial(_brought, watch, device)
    placed = {id(x): bring(x) for x in operands}
    target = bring(out) if isinstance(out, ContextArray) else None
    changed = None
    if request.conversion is not None:
        x, change = request.operands[request.conversion.operand], request.conversion.task
        reads = dict.fromkeys(change.reads, placed[id(x)])
        kind, _ = operation_of(change).work_class(change)
        cost = kept.plan.candidates[0].cost
        changed = watch.step(
            device, CONVERT, kind.name,
            lambda: waited(operation_of(change).launch(device, change, reads)),
            size=x.nbytes, predicted_s=cost.convert_s if cost else 0.0,
        )  # fmt: skip
    place = partial(_from, placed)
    array = compute(lambda: waited(request.call(device, place, target, changed)), **about)
    result: Any
    if not arrays:
        back = partial(_fetched, array, out)
        result = watch.step(device, OUT, "result", back, nbytes=array.nbytes)
    elif out is not None:
        out.wrote(device.uri)
        result = out
    else:
        result = ContextArray(watch.executor, device.uri, array)
    return result, Measured.of(**watch.taken)


def _from(placed: Mapping[int, Any], x: Any) -> Any:
    return placed.get(id(x), x)


def _brought(watch: Stopwatch, device: Device, x: Any) -> Any:
    """Returns the operand to pass to the call on the device. It is copied to the device first if
    necessary.
    """
    if isinstance(x, (ContextArray, ContextConstant)):
        if device.uri in x.places:
            return there(x, device.uri)
        bring = partial(there, x, device.uri)
    # A device on the host's memory gets a numpy array as it is. `ops` itself makes a copy where it
    # needs one.
    elif x is None or device.info.unified:
        return x
    else:
        bring = partial(device.array, x)
    return watch.step(device, IN, "operand", lambda: waited(bring()), nbytes=x.nbytes)


def _fetched(array: Any, out: Any) -> np.ndarray[Any, Any]:
    """Returns the result on the host. If all operands are constants, it may be there already."""
    host: np.ndarray[Any, Any] = array.numpy() if isinstance(array, Array) else array
    if out is None:
        return host
    # The assignment alone would accept an `out` that the result broadcasts to.
    staging.check_out(out, array.shape, array.dtype, None)
    out[...] = host
    return out  # type: ignore[no-any-return]


def pending(device: Device) -> Fence:
    """Returns the fence of the newest submission to the device's default queue."""
    queue = device.default_queue
    return queue.fence(queue.submitted)


def waited(array: Any) -> Any:
    """Returns `array` once the launch that fills it has ended; a numpy array at once."""
    if isinstance(array, Array) and array.fence is not None:
        array.fence.wait()
    return array
