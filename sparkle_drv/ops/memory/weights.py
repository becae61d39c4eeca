"""Weights that stay on a device: `constant` copies them to the device, `blob` packs them.

A packed operand of gemm or conv2d is called a blob. Its elements are in the order in which a kernel
of the cpu device reads them (native/cpu/gemm/packed.h). A `pack_*` kernel makes a blob for exactly
one plan, and a Constant keeps it. gemm, conv2d and users of `sparkle_drv.ops` call this.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.host_pointer import HostPointer
from sparkle_drv.core.kernel import Kernel
from sparkle_drv.types import TilePlan

from . import staging
from .constant import Constant

HEADER = np.dtype(
    [("magic", "u4"), ("kind", "u1"), ("isa", "u1"), ("algo", "u1"), ("zero", "u1"),
     ("nbytes", "u8"), ("self", "u8"), ("of", "u4", 10)]
)  # fmt: skip
"""The dtype of struct sp_packed."""


def blob(dev: Device, kernel: Kernel, source: Array | npt.NDArray[Any], *scalars: int) -> Array:
    """Returns the packed form of `source`, made by `kernel`, a loaded pack_* kernel.

    `source` is an Array or a C-contiguous aligned numpy array. The blob is an Array of the same
    dtype with one dimension. `scalars` are the scalar arguments of the pack_* kernel: those by
    which the consuming kernel describes `source`. Waits until the blob is complete.
    """
    pointer = HostPointer(dev, source) if isinstance(source, np.ndarray) else source
    queue = dev.default_queue
    with dev.empty(1, HEADER) as header:
        queue.launch(kernel, header.buffer, HEADER.itemsize, pointer, *scalars).wait()
        nbytes = int(header.buffer.read(HEADER, 1)["nbytes"][0])
    # The blob has the dtype of the source, so that the consuming kernel accepts it.
    packed = dev.empty(-(-nbytes // source.dtype.itemsize), source.dtype)
    queue.launch(kernel, packed, packed.nbytes, pointer, *scalars).wait()
    return packed


def constant(dev: Device, w: Any) -> Constant:
    """Returns a private copy of `w`, made now, for weights that never change.

    `w` is a numpy array of any strides, an Array of any device, a ContextArray, a Constant, or a
    DLPack exporter that operations take. The cpu device packs the copy once, in the first call of a
    kernel that reads packed weights. Other devices keep it unpacked.

    Raises TypeError (`w` is not an array, or its dtype has no fixed size), ValueError (`w` is
    closed), OutOfDeviceMemory.

    >>> with sp.ops.constant(dev, np.eye(2, dtype=np.float32)) as w:
    ...     sp.ops.gemm(dev, np.array([[5, 6]], np.float32), w)
    array([[5., 6.]], dtype=float32)
    """
    staging.device(dev)
    if isinstance(w, Constant) or staging.of_context(w):
        w = w.__array__()
    w = staging.operand("w", w, dev)
    if isinstance(w, np.ndarray):
        return Constant(dev.array(w))
    if not w.closed and w.device is not dev:
        return Constant(dev.array(w.numpy(), w.layout))
    copied = staging.Stage(dev, {"w": w}).copy(w)
    if copied.fence is not None:
        copied.fence.wait()
        copied.fence = None
    return Constant(copied)


def kept(dev: Device, name: str, w: Any) -> Constant:
    """Returns `w` if it is a Constant of this device, a private copy if it is an array."""
    if not isinstance(w, Constant):
        return constant(dev, w)
    w.array(name, dev)
    return w


def packed(
    dev: Device, w: Constant, key: Hashable, name: str, plan: TilePlan, *scalars: int
) -> Array:
    """Returns the packed copy (blob) of `w` that is kept under `key`.

    At the first call with this key, the pack_* kernel `name` makes the blob.
    """
    return w.packed(key, lambda x: blob(dev, staging.kernel(dev, name, plan), x, *scalars))
