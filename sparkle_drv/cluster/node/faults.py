"""Errors in the form that travels: errno and text on a timeline, kind and text in a reply."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from sparkle_drv.cluster.wire.requests import ERRORS, MOST_WORDS
from sparkle_drv.errors import DeviceLost, DeviceNotFound, DriverCallError, OutOfDeviceMemory


class OutsideMemory(ValueError):
    """A pointer or range outside the session's allocations."""


_ERRNOS: Mapping[type[Exception], int] = {
    OutsideMemory: errno.EFAULT,
    OutOfDeviceMemory: errno.ENOMEM,
    DeviceLost: errno.ENODEV,
    DeviceNotFound: errno.ENXIO,  # and Refused
    TimeoutError: errno.ETIMEDOUT,  # and FenceTimeout
    ValueError: errno.EINVAL,
    OverflowError: errno.EINVAL,  # a number of a plan that exceeds its field
    TypeError: errno.EINVAL,
    NotImplementedError: errno.EOPNOTSUPP,
}


def errno_of(error: Exception) -> int:
    """The errno for one of our errors."""
    if isinstance(error, DriverCallError) and error.errno:
        return error.errno
    return next((code for kind, code in _ERRNOS.items() if isinstance(error, kind)), errno.EIO)


def words_of(error: Exception) -> str:
    """The text of an error for people."""
    return (str(error) or type(error).__name__)[:MOST_WORDS]


def reply(number: int, error: Exception) -> dict[str, Any]:
    """The reply that raises this error at the other end, or the nearest kind that travels."""
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((name for name in names if name in ERRORS), "SparkleError")
    if isinstance(error, OverflowError):
        kind = "ValueError"
    return {"re": number, "error": kind, "words": words_of(error)}
