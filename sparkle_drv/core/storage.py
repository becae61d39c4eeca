"""One allocation: the buffers, views and arrays over it share a Storage, which is freed once."""

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
    """`device` is None once it is closed: the one test that a launch makes of each pointer.

    In a `with` block of it the host copies or maps: a close by another thread meanwhile frees the
    memory only afterwards. Raises ValueError (closed) as it begins.
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
        """May others write to it? Expressions over it are then computed at once (@private)."""
        self._pins = 0
        free = partial(device._backend.free, handle)
        self._finalizer = weakref.finalize(self, device._retired.retire, free)

    def close(self) -> None:
        """Idempotent; what is in flight keeps the memory until it has ended."""
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


# Of pins; held for a few instructions. A consumer of an exported capsule may let go in a finalizer,
# which may run while this thread is in one of them.
_lock = threading.RLock()
