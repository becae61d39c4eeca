"""Host memory in: `sparkle_drv.wrap`."""

from __future__ import annotations

from typing import Any

from sparkle_drv.core.buffer import Buffer
from sparkle_drv.core.device import Device


def wrap(device: Device, array: Any) -> Buffer:
    """`array`'s memory (numpy, or any CPU DLPack exporter) as a buffer of `device`, without a copy.

    Raises TypeError for what is no host array, ValueError for one that is not C-contiguous.
    """
    if not isinstance(device, Device):
        raise TypeError(f"device: a Device is wanted, got {type(device).__name__}")
    return device.wrap(array)
