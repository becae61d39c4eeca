"""Errors as the other end is told of them: an errno and words on a timeline, a kind and words in a
reply.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from sparkle_drv.cluster.wire.requests import ERRORS, MOST_WORDS
from sparkle_drv.errors import DeviceLost, DeviceNotFound, DriverCallError, OutOfDeviceMemory


class OutsideMemory(ValueError):
    """A pointer, or a range, that does not lie in an allocation of the session."""


_ERRNOS: Mapping[type[Exception], int] = {
    OutsideMemory: errno.EFAULT,
    OutOfDeviceMemory: errno.ENOMEM,
    DeviceLost: errno.ENODEV,
    DeviceNotFound: errno.ENXIO,  # Refused among them
    TimeoutError: errno.ETIMEDOUT,  # FenceTimeout among them
    ValueError: errno.EINVAL,
    OverflowError: errno.EINVAL,  # a number of a plan that the device has no field for
    TypeError: errno.EINVAL,
    NotImplementedError: errno.EOPNOTSUPP,
}


def errno_of(error: Exception) -> int:
    """The errno that stands for an error of ours."""
    if isinstance(error, DriverCallError) and error.errno:
        return error.errno
    return next((code for kind, code in _ERRNOS.items() if isinstance(error, kind)), errno.EIO)


def words_of(error: Exception) -> str:
    """What a person is to read of it."""
    return (str(error) or type(error).__name__)[:MOST_WORDS]


def reply(number: int, error: Exception) -> dict[str, Any]:
    """The reply that raises this error at the other end, or the nearest kind that travels."""
    names = [kind.__name__ for kind in type(error).__mro__]
    kind = next((name for name in names if name in ERRORS), "SparkleError")
    if isinstance(error, OverflowError):
        kind = "ValueError"
    return {"re": number, "error": kind, "words": words_of(error)}
