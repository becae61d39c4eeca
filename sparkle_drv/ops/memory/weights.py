"""Packed weights: an operand of gemm or conv2d in the order in which a kernel of the cpu device
reads it (native/cpu/gemm/packed.h). A `pack_*` kernel makes it for exactly one plan. A Constant
(constant.py) keeps it. Called by gemm and conv2d.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sparkle_drv.core.array import Array
from sparkle_drv.core.device import Device
from sparkle_drv.core.host_pointer import HostPointer
from sparkle_drv.core.kernel import Kernel

HEADER = np.dtype(
    [("magic", "u4"), ("kind", "u1"), ("isa", "u1"), ("algo", "u1"), ("zero", "u1"),
     ("nbytes", "u8"), ("self", "u8"), ("of", "u4", 10)]
)  # fmt: skip
"""struct sp_packed."""


def blob(dev: Device, kernel: Kernel, source: Array | npt.NDArray[Any], *scalars: int) -> Array:
    """What `kernel`, a loaded pack_* kernel, makes of `source` and the scalars that go with it.

    `source` is an Array or a C-contiguous aligned numpy array. The blob is an Array of its dtype,
    of one dimension. `scalars` are those that the consuming kernel takes for it. Waits until the
    blob is there.
    """
    given = HostPointer(dev, source) if isinstance(source, np.ndarray) else source
    queue = dev.default_queue
    with dev.empty(1, HEADER) as header:
        queue.launch(kernel, header.buffer, HEADER.itemsize, given, *scalars).wait()
        nbytes = int(header.buffer.read(HEADER, 1)["nbytes"][0])
    # In elements of the source, so that the consuming kernel takes it in the weights' place.
    made = dev.empty(-(-nbytes // source.dtype.itemsize), source.dtype)
    queue.launch(kernel, made, made.nbytes, given, *scalars).wait()
    return made
