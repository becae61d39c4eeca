"""Failures of a device after which another device can do the work."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkle_drv.core.array import Array
from sparkle_drv.errors import DeviceLost, FenceTimeout, KernelFault, OutOfDeviceMemory
from sparkle_drv.mesh.lanes.transports import NoWay

FAILURES = (DeviceLost, FenceTimeout, KernelFault, NoWay, OutOfDeviceMemory)
"""Failures of a device after which another one can do the work."""


def may_be_redone(error: Exception, out: Any) -> bool:
    """Returns whether another device may write `out` after this failure.

    After a timeout the first device may still write. So no other device may then write numpy memory
    or an Array of a device.
    """
    return not (isinstance(error, FenceTimeout) and isinstance(out, (np.ndarray, Array)))


class WrongResult(KernelFault):
    """A check of a result (operations/verify.py) found an error."""
