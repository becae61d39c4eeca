"""One allocation: the buffers, views and arrays over it share a Storage, which is freed once."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from sparkle_drv.types import Memory

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


class Storage:
    """`device` is None once it is closed: the one test that a launch makes of each pointer."""

    __slots__ = (
        "__weakref__",
        "_finalizer",
        "address",
        "device",
        "handle",
        "memory",
        "nbytes",
        "owner",
    )

    def __init__(
        self, device: Device, handle: Any, address: int, nbytes: int, memory: Memory
    ) -> None:
        self.device: Device | None = device
        self.owner = device
        self.handle = handle
        self.address = address
        self.nbytes = nbytes
        self.memory = memory
        retired, backend = device._retired, device._backend
        self._finalizer = weakref.finalize(self, retired.retire, _Free(backend, handle))

    def close(self) -> None:
        """Idempotent; what is in flight keeps the memory until it has ended."""
        if self.device is not None:
            self.device = None
            self._finalizer()
            self.handle = None


class _Free:
    """backend.free(handle) as an object that a debugger can tell apart."""

    __slots__ = ("backend", "handle")

    def __init__(self, backend: Any, handle: Any) -> None:
        self.backend, self.handle = backend, handle

    def __call__(self) -> None:
        self.backend.free(self.handle)
