"""Rows of arrays for micro-batches: rows of an operand, and rows of an output that micro-batches
fill.

Rows of axis 0 are contiguous. They are views where a device can bind views, otherwise copies on the
device's queue. run.py calls this module. All calls for one output come from the lane of the device
that makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.core.commands import Commands
from sparkle_drv.core.device import Device
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.sched.graph.place.reuse import ALIGN
from sparkle_drv.sched.model.task import Task, Value
from sparkle_drv.sched.operations.table import operation_of
from sparkle_drv.sched.run.constants import ContextConstant


def of(x: Any, value: Value) -> Any:
    """Returns the part of `x`, an array from outside the graph, that `value` stands for: all of it,
    or some rows.
    """
    if value.part is None:
        return x
    if isinstance(x, ContextConstant):
        x = x.host()
    if isinstance(x, Constant):
        x = x.array("operand", x.device)
    _, begin, end = value.part
    if not isinstance(x, Array):
        return np.asarray(x)[begin:end]
    view = _view(x, begin, end)
    return view if _binds(view) else _copied(x.device.empty(view.shape, x.dtype, x.layout), view)


def _view(x: Array, begin: int, end: int) -> Array:
    each = x.nbytes // x.shape[0]
    piece = x.buffer.view(begin * each, (end - begin) * each)
    view = piece.array(x.dtype, (end - begin, *x.shape[1:]), x.layout)
    view.fence = x.fence
    return view


def _binds(view: Array) -> bool:
    return view.buffer.offset % ALIGN == 0 or view.device.info.unified


def _copied(target: Array, source: Array) -> Array:
    """Copies `source` to `target` on their device's queue. Returns `target`."""
    if source.nbytes:
        queue, commands = target.device.default_queue, Commands()
        if source.fence is not None and source.fence.queue is not queue:
            commands.wait(source.fence)
        target.fence = queue.submit(commands.copy(target, source))
    return target


class Joined:
    """The outputs of one run, which micro-batches fill part by part.

    `given(number, device)` returns the caller's Array on that device for the output with this
    `Value.number`, or None if the caller has given no such Array.
    """

    def __init__(self, extent: int, given: Callable[[int, Device], Array | None]) -> None:
        self._extent, self._given = extent, given
        self._wholes: dict[int, Array] = {}
        # For each part of an output, by the `number` of the part's Value: the view of the whole
        # output that a micro-batch fills with this part.
        self._views: dict[int, Array] = {}

    def target(self, task: Task, device: Device) -> Array | None:
        """Returns the array that a task of a micro-batch writes its part of the output to.

        Returns None if `ops` makes the array.
        """
        value = task.out
        assert value.part is not None
        number, begin, end = value.part
        whole = self._wholes.get(number)
        if whole is None:
            shape = (self._extent, *value.shape[1:])
            whole = self._given(number, device)
            whole = device.empty(shape, value.dtype, value.layout) if whole is None else whole
            self._wholes[number] = whole
        view = self._views[value.number] = _view(whole, begin, end)
        view.fence = None
        if operation_of(task).reduces:
            return None
        return view if _binds(view) else device.empty(view.shape, value.dtype, value.layout)

    def with_part(self, value: Value, part: Array) -> Array | None:
        """Copies `part`, a micro-batch's part of an output, to the output, if it is not there yet.

        Returns the whole output after its last part was submitted, None before.
        """
        assert value.part is not None
        view, whole = self._views[value.number], self._wholes[value.part[0]]
        whole.fence = part.fence if part is view else _copied(view, part).fence
        return whole if value.part[2] == self._extent else None
