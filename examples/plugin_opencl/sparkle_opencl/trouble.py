"""OpenCL's status codes as errnos and exceptions of sparkle_drv."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyopencl as cl

import sparkle_drv as sp

_STATUS: Any = cl.status_code
_ERRNO: dict[int, int] = {
    _STATUS.DEVICE_NOT_AVAILABLE: errno.ENODEV,
    _STATUS.DEVICE_NOT_FOUND: errno.ENODEV,
    _STATUS.MEM_OBJECT_ALLOCATION_FAILURE: errno.ENOMEM,
    _STATUS.OUT_OF_HOST_MEMORY: errno.ENOMEM,
    _STATUS.OUT_OF_RESOURCES: errno.ENOMEM,
    _STATUS.INVALID_BUFFER_SIZE: errno.ENOMEM,
}


def errno_of(code: int) -> int:
    """The errno that says most nearly what an OpenCL status (below 0) does."""
    return _ERRNO.get(code, errno.EIO)


def words_of(code: int) -> str:
    """The status by its name in the specification."""
    return f"CL_{_STATUS.to_string(code, 'status %d')}"


@contextmanager
def translated(what: str, uri: str) -> Iterator[None]:
    """pyopencl's exceptions within it become those of sparkle_drv."""
    try:
        yield
    except cl.Error as error:
        code = errno_of(error.code)
        said = f"{uri}: {what}: {error}"
        if code == errno.ENOMEM:
            raise sp.OutOfDeviceMemory(said) from None
        if code == errno.ENODEV:
            raise sp.DeviceLost(said) from None
        raise sp.DriverCallError(code, said) from None
    except MemoryError as error:
        raise sp.OutOfDeviceMemory(f"{uri}: {what}: {error}") from None
