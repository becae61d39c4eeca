"""The short way of a matrix product of numpy arrays: native/hot/calls/gemm_table.c.

A table of kernels by size is kept with each device, and one with each constant. Everything here is
optional: where it is not taken, gemm does the same in Python.
"""

from __future__ import annotations

from sparkle_drv import _hot
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.ops.calls import shortcut
from sparkle_drv.ops.memory import recycled
from sparkle_drv.ops.memory.constant import Constant

KEY = "ops products"
"""Where `dev.kept` has the table's `call`."""
PLACES = 256
PLACES_OF_ONE = 32
"""In a constant's table: products differ in their number of rows only."""
TYPES = {"f32": 0, "f64": 1}
A_TURNED, B_TURNED, ANY_LAYOUT = 2, 4, 8
"""Added to a type: rows of an operand do not lie along memory; it does not matter."""


def table(dev: Device, places: int = PLACES) -> _hot.Products:
    """A new table for the device's default queue."""
    recycled.begin()
    return _hot.Products(dev.default_queue, places)


def remember(
    dev: Device, tag: str, shape: tuple[int, int, int], rows: tuple[bool, bool], kernel: Kernel,
    held: Constant | None = None, blob: Array | None = None,
) -> None:  # fmt: skip
    """The next product of numpy arrays of this shape (m, n, k) takes the short way, if `rows` of a
    and of b lie along memory as those of this one.

    `held`: b, if it is a Constant, whose table then has the entry; `kernel` reads it as `blob`.
    """
    if not shortcut.there(kernel):
        return
    call = dev.kept.get(KEY)
    found = None if call is None else call.__self__
    if found is None or found.queue is not dev.default_queue:
        found = table(dev)
        dev.kept[KEY] = found.call
    kind = TYPES[tag] + A_TURNED * (not rows[0]) + B_TURNED * (not rows[1])
    if held is not None:
        own = held._products
        if own is None or own.queue is not dev.default_queue:
            own = held._products = _hot.Products(dev.default_queue, PLACES_OF_ONE)
        found = own
    found.put(kind, *shape, 0, kernel, shortcut.head_of(kernel), blob)


def planned(
    shape: tuple[int, int, int], kernel: Kernel, act: int, blob: Array | None
) -> _hot.Products | None:
    """A table for one plan; None: there is no short way."""
    if not shortcut.there(kernel):
        return None
    made = table(kernel.device, 1)
    tag = kernel.name.rpartition("_")[2]
    made.put(TYPES[tag] + ANY_LAYOUT, *shape, act, kernel, shortcut.head_of(kernel), blob)
    return made
