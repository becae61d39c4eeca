"""The exceptions; `check`, the one place that turns a native return code into one of them; and
`leave`, which every `__exit__` uses so that closing hides no exception.

A leaf: imports nothing of ours. User mistakes are plain TypeError or ValueError, raised before
anything is submitted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable


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


def leave(close: Callable[..., object], error: BaseException | None, *interrupted: object) -> None:
    """Close at the end of a `with` block that `error` ends; None: nothing was raised.

    Without `error` this is `close()`, which may raise. With `error` the caller must see that one,
    so a failure of `close` only becomes a note of it. An interrupt, such as Ctrl-C, calls
    `close(*interrupted)` instead: a shorter wait, because somebody wants to leave.
    """
    if error is None or isinstance(error, GeneratorExit):  # a generator's end is no failure
        close()
        return
    try:
        close() if isinstance(error, (Exception, SystemExit)) else close(*interrupted)
    except Exception as failure:
        said = f"then closing failed: {type(failure).__name__}: {failure}"
        if hasattr(error, "add_note"):  # from Python 3.11 on
            error.add_note(said)
        if not hasattr(error, "add_note") or isinstance(error, SystemExit):  # it shows no notes
            import logging

            logging.getLogger("sparkle_drv").warning("%r; %s", error, said)
