"""The short way of a convolution of numpy arrays: native/hot/calls/conv.c.

A table of decisions (kernel, geometry) by shapes and parameters is kept with each device, and one
with each constant, which has its packed weights, too. C looks at the arrays of a call. Everything
here is optional: where it is not taken, conv2d does the same in Python. Called by conv2d.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from sparkle_drv import _hot
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.calls import shortcut
from sparkle_drv.ops.memory import recycled
from sparkle_drv.ops.memory.constant import Constant
from sparkle_drv.ops.shapes.geometry import Geometry

KEY = "ops conv2d calls"
"""Where `dev.kept` has the table's `call`."""
SETS = 128  # of four places each
SETS_OF_ONE = 4
"""In a constant's table: convolutions differ in x and in parameters only."""


def table(dev: Device, sets: int = SETS) -> _hot.Convolutions:
    """A new table for the device's default queue."""
    recycled.begin()
    return _hot.Convolutions(dev.default_queue, np.empty, sets)


def planned(
    dev: Device, kernel: Kernel, shape: Geometry, act: int, w: Any, bias: Any
) -> _hot.Planned | None:
    """The short way of one plan, with its weights on the device; None: there is none."""
    if not shortcut.there(kernel):
        return None
    head = shortcut.head_of(kernel)
    return _hot.Planned(dev.default_queue, kernel, head, _scalars(shape, act), w, bias)


def _scalars(shape: Geometry, act: int) -> bytes:
    return struct.pack("=18I", *shape.arguments(), act)


class Decided(NamedTuple):
    """What a call decided, besides its kernel."""

    shape: Geometry
    act: int
    parameters: tuple[Any, ...]
    """Of the call, from its stride on."""


def remember(dev: Device, x: Any, w: Any, decided: Decided, kernel: Kernel, blob: Any) -> None:
    """The next call with these shapes and parameters takes the short way.

    If `w` is a Constant, its own table has the entry, and `kernel` reads it as `blob`; else that is
    None.
    """
    if not shortcut.there(kernel):
        return
    call = dev.kept.get(KEY)
    found = None if call is None else call.__self__
    if found is None or found.queue is not dev.default_queue:
        found = table(dev)
        dev.kept[KEY] = found.call
    if isinstance(w, Constant):
        own = w._convolutions
        if own is None or own.queue is not dev.default_queue:
            own = w._convolutions = _hot.Convolutions(dev.default_queue, np.empty, SETS_OF_ONE)
        found = own
    shapes = struct.pack("=12q", *x.shape, *w.shape, *decided.shape.out_shape)
    scalars = _scalars(decided.shape, decided.act)
    plain = tuple(_tuples(value) for value in decided.parameters)
    head = shortcut.head_of(kernel)
    found.put(shapes, scalars, plain, decided.shape.out_shape, kernel, head, blob)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, (list, tuple)) else value
