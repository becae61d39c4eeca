"""Converts errors to what a node sends to a client.

A failed submission is reported with an errno and a text, a refused request with the name of an
exception and a text.
"""

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
    DeviceNotFound: errno.ENXIO,  # also for Refused, a subclass of DeviceNotFound
    TimeoutError: errno.ETIMEDOUT,  # also for FenceTimeout, a subclass of TimeoutError
    ValueError: errno.EINVAL,
    OverflowError: errno.EINVAL,  # raised for a number of a plan that its field cannot hold
    TypeError: errno.EINVAL,
    NotImplementedError: errno.EOPNOTSUPP,
}


def errno_of(error: Exception) -> int:
    """Returns the errno for an error; EIO if the error has none."""
    if isinstance(error, DriverCallError) and error.errno:
        return error.errno
    return next((code for kind, code in _ERRNOS.items() if isinstance(error, kind)), errno.EIO)


def words_of(error: Exception) -> str:
    """Returns the text of an error, cut to MOST_WORDS characters."""
    return (str(error) or type(error).__name__)[:MOST_WORDS]


def reply(number: int, error: Exception) -> dict[str, Any]:
    """Returns the reply that makes the client raise this error, or the nearest kind that a reply
    can name.
    """
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((name for name in names if name in ERRORS), "SparkleError")
    if isinstance(error, OverflowError):
        kind = "ValueError"
    return {"re": number, "error": kind, "words": words_of(error)}
