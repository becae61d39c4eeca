"""Storage: one allocation, which its buffers, views and arrays share and which is freed once."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkle_drv._hot import StorageBase
from sparkle_drv.fork_lock import fork_lock
from sparkle_drv.types import Memory

if TYPE_CHECKING:
    from sparkle_drv.core.device import Device


class Storage(StorageBase):
    """One allocation.

    `device` is None after `close`. A launch tests only this member to see that memory is open.

    The host copies or maps memory inside a `with` block of the storage. If another thread closes
    the storage meanwhile, the memory is freed when the block ends. Entering the block raises
    ValueError if the storage is closed, DeviceLost if its device is closed.
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
        """True if others may write to the memory; expressions over it then run at once
        (@private)."""
        self._pins = 0
        free = partial(device._backend.free, handle)
        self._finalizer = weakref.finalize(self, device._retired.retire, free)
        # At exit, threads may still copy here without the GIL. They keep this object; the memory of
        # others goes with the process (RetireList.abandon).
        self._finalizer.atexit = False

    def close(self) -> None:
        """Closes the allocation. Work in flight keeps the memory; a second call does nothing."""
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
                self.owner._check_open()
                raise ValueError("the buffer is closed")
            self._pins += 1

    def __exit__(self, *_: object) -> None:
        with _lock:
            self._pins -= 1
            last = self._pins == 0 and self.device is None
        if last:
            self._free()


# Guards `_pins` of all storages; a thread holds it for a few instructions only. The lock is
# reentrant, because a finalizer that releases an exported capsule may run while this thread holds
# the lock.
_lock = fork_lock()
