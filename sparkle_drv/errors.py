"""The exceptions, and `check`, the one place that turns a native return code into one of them.

A leaf: imports nothing of ours. User mistakes are plain TypeError or ValueError, raised before
anything is submitted.
"""

from __future__ import annotations

import errno
import os


class SparkleError(Exception):
    """Everything that goes wrong here beyond a wrong argument."""


class DeviceNotFound(SparkleError):
    """No such device, or none that is usable; the message says what was tried."""


class DeviceLost(SparkleError):
    """The device, or this process's hold on it, is gone: a reset, an unplug, a close, a fork."""


class OutOfDeviceMemory(SparkleError, MemoryError):
    """The allocation does not fit; the device stays usable."""


class FenceTimeout(SparkleError, TimeoutError):
    """A wait ran out of time; `submission` describes what was still running."""

    def __init__(self, message: str, submission: str = "") -> None:
        super().__init__(f"{message}\n{submission}" if submission else message)
        self.submission = submission


class KernelFault(SparkleError):
    """A kernel ran and failed."""


class ImageError(SparkleError, ValueError):
    """A kernel image that does not load: the loader's own words follow."""


class DriverCallError(SparkleError, OSError):
    """A driver call failed with an errno that has no better name here."""


FORKED = (
    "this process was forked after the device was opened, and the device's threads "
    "did not come along: open devices in the child itself"
)


def check(rc: int, call: str, device: str = "") -> int:
    """Return `rc` when it is not negative, else raise what the -errno in it means.

    Raises DeviceLost (ECHILD, ESHUTDOWN, ENODEV, ECANCELED), OutOfDeviceMemory (ENOMEM),
    DriverCallError (the rest).
    """
    if rc >= 0:
        return rc
    where = f"{device}: {call}" if device else call
    code = -rc
    if code == errno.ECHILD:
        raise DeviceLost(f"{where}: {FORKED}")
    if code in (errno.ESHUTDOWN, errno.ENODEV, errno.ECANCELED):
        raise DeviceLost(f"{where}: the device or queue is closed or gone ({os.strerror(code)})")
    if code == errno.ENOMEM:
        raise OutOfDeviceMemory(f"{where}: out of memory")
    raise DriverCallError(code, f"{where}: {errno.errorcode.get(code, code)}: {os.strerror(code)}")
