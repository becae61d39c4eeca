"""Runs a call step by step. The steps copy operands in, change a layout, run the operation and copy
the result out. Each is waited for and timed. The result equals that of the plain call.

Measured calls run this way (local.py), except calls of numpy arrays on a device that shares the
host's memory. While a trace is recorded, all calls run this way (traced_calls.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.fence import Fence
from sparkle_drv.ops.memory import staging
from sparkle_drv.sched.model.work import Measured

from .arrays import ContextArray, here
from .constants import ContextConstant

if TYPE_CHECKING:
    from sparkle_drv.sched.decide.kept_plan import KeptPlan
    from sparkle_drv.sched.model.conversion import Conversion

    from .local import LocalExecutor

IN, CONVERT, COMPUTE, OUT = "in_s", "convert_s", "compute_s", "out_s"
"""Fields of Measured that the time of a step goes to."""
Made = TypeVar("Made")


class Steps:
    """Runs and times the steps of one call."""

    def __init__(self, executor: LocalExecutor, kept: KeptPlan) -> None:
        self.executor, self.kept = executor, kept
        self.clock = executor.clock_of(kept.device)
        self.taken = {IN: 0.0, CONVERT: 0.0, COMPUTE: 0.0, OUT: 0.0}

    def step(self, part: str, act: Callable[[], Made], nbytes: int = 0) -> Made:
        """Runs and times one step, to its end. `nbytes` is the size of the step's operand or
        result.
        """
        begin = self.clock()
        made = act()
        self.taken[part] += self.clock() - begin
        return made


def run(
    steps: Steps,
    operands: Sequence[Any],
    out: Any,
    call: Callable[[Device, Sequence[Any], Any], Any],
    convert: Conversion | None = None,
    whole: bool = False,
) -> tuple[Any, Measured]:
    """Runs the call. Returns the result, and the times of the steps.

    With `whole`, the copies and the operation are one step, and only its total is known.
    """
    executor, device = steps.executor, steps.kept.device
    pending(device).wait()  # so that the times do not include earlier work
    arrays = any(isinstance(x, ContextArray) for x in (*operands, out))
    if not arrays and (whole or device.info.unified):
        made = steps.step(COMPUTE, lambda: call(device, here(operands, device.uri), out))
        total = steps.taken[COMPUTE]
        return made, Measured.of(total) if device.info.unified else Measured(total)
    there = [_brought(steps, x) for x in operands]
    target = _brought(steps, out) if isinstance(out, ContextArray) else None
    if convert is not None:
        given = there[convert.at]
        changed = steps.step(
            CONVERT, lambda: waited(convert.run(device, given)), operands[convert.at].nbytes
        )
        there[convert.at] = changed
    made = steps.step(COMPUTE, lambda: waited(call(device, there, target)))
    result: Any
    if not arrays:
        result = steps.step(OUT, lambda: _fetched(made, out), made.nbytes)
    elif out is not None:
        out.wrote(device.uri)
        result = out
    else:
        result = ContextArray(executor, device.uri, made)
    return result, Measured.of(**steps.taken)


def _brought(steps: Steps, x: Any) -> Any:
    """Returns the operand to pass to the call on the device. It is copied to the device first if
    necessary.
    """
    device = steps.kept.device
    if isinstance(x, ContextArray):
        if device.uri in x.places:
            return x._read(device.uri)
        return steps.step(IN, lambda: waited(x._read(device.uri)), x.nbytes)
    if isinstance(x, ContextConstant):
        if device.uri in x.places:
            return x.on(device.uri)
        return steps.step(IN, lambda: x.on(device.uri), x.nbytes)
    # A device on the host's memory gets a numpy array as it is. `ops` itself makes a copy where it
    # needs one.
    if x is None or device.info.unified:
        return x
    return steps.step(IN, lambda: device.array(x), x.nbytes)


def _fetched(made: Any, out: Any) -> np.ndarray[Any, Any]:
    """Returns the result on the host. If all operands are constants, it may be there already."""
    host: np.ndarray[Any, Any] = made.numpy() if isinstance(made, Array) else made
    if out is None:
        return host
    # The assignment alone would accept an `out` that the result broadcasts to.
    staging.check_out(out, made.shape, made.dtype, None)
    out[...] = host
    return out  # type: ignore[no-any-return]


def pending(device: Device) -> Fence:
    """Returns the fence of the newest submission to the device's default queue."""
    queue = device.default_queue
    return queue.fence(queue.submitted)


def waited(made: Any) -> Any:
    """Returns `made` once the launch that fills it has ended; a numpy array at once."""
    if isinstance(made, Array) and made.fence is not None:
        made.fence.wait()
    return made
