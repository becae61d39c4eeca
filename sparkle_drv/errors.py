"""The exceptions of this package.

Only `check` turns a native return code into an exception. Every `__exit__` calls `leave`, so that
an error of `close` does not hide the exception of the block. This file imports nothing of the
package. Wrong arguments raise plain TypeError or ValueError before anything is submitted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable


class SparkleError(Exception):
    """The base class of all errors of this package, except those for wrong arguments.

    >>> try:
    ...     sp.open("nosuch:0")
    ... except sp.SparkleError as error:
    ...     print(type(error).__name__)
    DeviceNotFound
    """


class DeviceNotFound(SparkleError):
    """The device does not exist or is not usable; the message says what was tried.

    >>> sp.open("nosuch:0")
    Traceback (most recent call last):
        ...
    sparkle_drv.errors.DeviceNotFound: there is no backend 'nosuch'; known: ...
    """


class DeviceLost(SparkleError):
    """The process can no longer use the device, because of a reset, an unplug, a close or a fork.

    >>> closed = sp.open("cpu")
    >>> closed.close()
    >>> closed.buffer(64)
    Traceback (most recent call last):
        ...
    sparkle_drv.errors.DeviceLost: cpu: the device is closed
    """


class OutOfDeviceMemory(SparkleError, MemoryError):
    """An allocation does not fit; the device stays usable.

    >>> try:
    ...     dev.buffer(1 << 60)
    ... except MemoryError as error:
    ...     print(type(error).__name__)
    OutOfDeviceMemory
    """


class FenceTimeout(SparkleError, TimeoutError):
    """A wait timed out; `submission` describes the submission that was still running.

    >>> try:
    ...     raise sp.FenceTimeout("value 3 was not reached in 1 s", "dispatch of fill_f32")
    ... except TimeoutError as error:
    ...     print(error.submission)
    dispatch of fill_f32
    """

    def __init__(self, message: str, submission: str = "") -> None:
        super().__init__(f"{message}\n{submission}" if submission else message)
        self.submission = submission


class KernelFault(SparkleError):
    """A kernel ran and failed.

    >>> try:
    ...     raise sp.KernelFault("page fault at 0x1000")
    ... except sp.SparkleError as error:
    ...     print(error)
    page fault at 0x1000
    """


class ImageError(SparkleError, ValueError):
    """A kernel image cannot be loaded; the message has the loader's reason.

    >>> dev.kernel(image=b"no image", entry="main", args="f32* u32")
    Traceback (most recent call last):
        ...
    sparkle_drv.errors.ImageError: image of 8 bytes: expected a readable ELF file, ...
    """


class DriverCallError(SparkleError, OSError):
    """A driver call failed with an errno for which this package has no other class.

    >>> error = sp.DriverCallError(28, "ioctl failed")
    >>> error.errno, isinstance(error, OSError)
    (28, True)
    """


FORKED = (
    "this process was forked after the device was opened, and does not have the device's "
    "threads: open devices in the child itself"
)


def check(rc: int, call: str, device: str = "") -> int:
    """Returns `rc` if it is not negative, else raises the exception of the -errno.

    Raises DeviceLost (ECHILD, ESHUTDOWN, ENODEV, ECANCELED), OutOfDeviceMemory (ENOMEM) or
    DriverCallError (all others).
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
    """Calls `close` at the end of a `with` block; `error` is the exception that ends it, or None.

    Without `error` a failure of `close` is raised. With `error` the caller must see `error`, so a
    failure of `close` becomes only a note of `error`. After an interrupt, such as Ctrl-C, this
    function calls `close(*interrupted)`, which waits for a shorter time.
    """
    if error is None or isinstance(error, GeneratorExit):  # the end of a generator is not a failure
        close()
        return
    try:
        close() if isinstance(error, (Exception, SystemExit)) else close(*interrupted)
    except Exception as failure:
        note = f"then closing failed: {type(failure).__name__}: {failure}"
        if hasattr(error, "add_note"):  # Python 3.11 or later
            error.add_note(note)
        # Python 3.10 has no notes, and Python prints none of a SystemExit. So log the failure.
        if not hasattr(error, "add_note") or isinstance(error, SystemExit):
            import logging

            logging.getLogger("sparkle_drv").warning("%r; %s", error, note)
