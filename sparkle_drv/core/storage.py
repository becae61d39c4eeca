"""Storage: one allocation, which its buffers, views and arrays share and which is freed once."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import StorageBase
from sparkle_drv.types import Memory

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


class Storage(StorageBase):
    """One allocation. `device` is None once it is closed: a launch tests only this per pointer.

    The host copies or maps inside a `with` block of the storage. If another thread closes it
    meanwhile, the memory is freed when the block ends. Entering raises ValueError (closed).
    """

    __slots__ = (
        "__weakref__",
        "_finalizer",
        "_pins",
        "address",
        "exposed",
        "handle",
        "memory",
        "nbytes",
        "owner",
    )

    def __init__(
        self,
        device: Device,
        handle: Any,
        address: int,
        nbytes: int,
        memory: Memory,
        exposed: bool = False,
    ) -> None:
        self.device = device
        self.owner = device
        self.handle = handle
        self.address = address
        self.nbytes = nbytes
        self.memory = memory
        self.exposed = exposed
        """May others write to the memory? If so, expressions over it run at once (@private)."""
        self._pins = 0
        free = partial(device._backend.free, handle)
        self._finalizer = weakref.finalize(self, device._retired.retire, free)

    def close(self) -> None:
        """Close the allocation; idempotent. Work in flight keeps the memory until it has ended."""
        with _lock:
            if self.device is None:
                return
            self.device = None
            pinned = self._pins > 0
        self.owner._advance()
        if not pinned:
            self._free()

    def _free(self) -> None:
        self._finalizer()
        self.handle = None

    def __enter__(self) -> None:
        with _lock:
            if self.device is None:
                raise ValueError("the buffer is closed")
            self._pins += 1

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._pins -= 1
            last = self._pins == 0 and self.device is None
        if last:
            self._free()


# Guards pins; held for a few instructions. It is reentrant because a finalizer, which releases an
# exported capsule, may run while this thread holds it.
_lock = threading.RLock()
