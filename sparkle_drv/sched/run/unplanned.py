"""Runs a call without a plan: calls with arrays that are bound to a device, with empty arrays, and
calls that `ops` refuses.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.ops.arguments.check import NotThere
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.operations.operation import Request
from sparkle_drv.sched.operations.table import operation_of

from .arrays import ContextArray, there
from .failures import FAILURES, may_be_redone
from .ways import CopyLost

if TYPE_CHECKING:
    from .local import LocalExecutor

_BOUND = (Array, Constant)
log = logging.getLogger("sparkle_drv.sched")


def run(executor: LocalExecutor, request: Request, uris: tuple[str, ...]) -> Any:
    """Runs the call on the device of the first core.Array, else on the first device that is not
    lost. If that device fails or has no kernel for the call, the next device runs it.
    """
    arrays = [x for x in (*request.operands.values(), request.out) if isinstance(x, _BOUND)]
    open_at = [x.device.uri for x in arrays if not x.closed]
    bound = [uri for uri in open_at if uri in executor.devices][:1]
    nodes, hung = executor.costs.nodes, executor.hung(uris)
    left = bound or [u for u in uris if not nodes[u].lost and u not in hung] or [uris[0]]
    failure: Exception | None = None
    while True:
        uri = left.pop(0)
        try:
            return _run_on(executor, request, uri)
        except NotThere as error:
            if not left:
                raise failure or error from None
        except CopyLost:  # an operand is lost, so no other device can do the work
            raise
        except FAILURES as error:
            executor.failed(uri, error)
            if not left or not may_be_redone(error, request.out):
                raise
            failure = error
            log.warning("%s: the call runs on another device: %s", uri, error)


def _run_on(executor: LocalExecutor, request: Request, uri: str) -> Any:
    """Runs the call on the device `uri`, and returns its result."""
    device, out = executor.devices[uri], request.out
    place = partial(there, uri=uri)
    result = request.call(device, place, there(out, uri), changed_on(device, request))
    if isinstance(out, ContextArray):
        out.wrote(uri)
        return out
    is_array = any(isinstance(x, ContextArray) for x in request.operands.values())
    return ContextArray(executor, uri, result) if is_array else result


def changed_on(device: Device, request: Request) -> Any:
    """Returns the first operand on a device in the layout that the call works in. Returns None if
    that operand has it.
    """
    conversion = request.conversion
    if conversion is None:
        return None
    x, change = there(request.operands[conversion.operand], device.uri), conversion.task
    return operation_of(change).launch(device, change, dict.fromkeys(change.reads, x))
