"""The short way of a matrix product of numpy arrays on the cpu device: native/python/product.c.

That needs to read numpy's arrays as C structs (core/ndarray.py). A table of kernels by size is kept
with each device. Everything here is optional: where it is not taken, gemm.py does the same in
Python.
"""

from __future__ import annotations

import weakref
from typing import Any

from sparkle_drv import _hot
from sparkle_drv.core import ndarray
from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.kernel import Kernel

from . import recycled, weights

KEY = weights.SHORT_WAYS[0]
"""Where `dev.kept` has the table's `call`."""
PLACES = 256
TYPES = {"f32": 0, "f64": 1}
A_TURNED, B_TURNED, ANY_LAYOUT = 2, 4, 8
"""Added to a type: rows of an operand do not lie along memory; it does not matter."""


def there(dev: Device) -> bool:
    """Can C pack what these kernels take, as native/cpu/args.h has it, and launch it by itself?"""
    return dev.info.backend == "cpu" and ndarray.known() and dev.default_queue._polled


def table(dev: Device, places: int = PLACES) -> _hot.Products | None:
    """A new table for the device's default queue; None: there is no short way on this device."""
    if not there(dev):
        return None
    recycled.begin()
    return _hot.Products(dev.default_queue, weights.kept(dev), places)


def remember(
    dev: Device,
    tag: str,
    shape: tuple[int, int, int],
    rows: tuple[bool, bool],
    kernel: Kernel,
    wants_weights: bool,
    blob: Array | None = None,
    owner: Any = None,
) -> None:
    """The next product of numpy arrays of this shape (m, n, k) takes the short way, if `rows` of a
    and of b lie along memory as those of this one.

    `wants_weights`: b may be packed, so that one which is not writeable needs an entry of its own,
    with its `blob` and itself as the `owner`; until then it comes to Python.
    """
    call = dev.kept.get(KEY)
    found = None if call is None else call.__self__
    if found is None or found.queue is not dev.default_queue:
        found = table(dev)
        if found is None:
            return
        dev.kept[KEY] = found.call
    head = head_of(kernel)
    kind = TYPES[tag] + A_TURNED * (not rows[0]) + B_TURNED * (not rows[1])
    found.put(kind, *shape, 0, kernel, head, wants_weights, _weak(blob), _weak(owner))


def planned(
    dev: Device, shape: tuple[int, int, int], kernel: Kernel, act: int, blob: Array | None
) -> _hot.Products | None:
    """A table for one plan; None: there is no short way."""
    made = table(dev, 1)
    if made is None:
        return None
    tag = kernel.name.rpartition("_")[2]
    made.put(TYPES[tag] + ANY_LAYOUT, *shape, act, kernel, head_of(kernel), False, _weak(blob))
    return made


def _weak(kept: Any) -> weakref.ref[Any] | None:
    return None if kept is None else weakref.ref(kept)


def head_of(kernel: Kernel) -> bytes:
    """The head of a record that launches a routine."""
    head = kernel._heads.get(None)
    return kernel._head((), None, None, 0) if head is None else head
